//! A private PostgreSQL for tests: data in a temporary folder, trust for
//! every local connection, gone when the test process is. Fault tests start
//! one of their own, which they may stop, kill and start again. Talks to its
//! guardian, and to the server through `psql` only.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use uuid::Uuid;

use super::certificates::write_for_server;
use super::guardian::Guardian;
use super::processes::plain_environment;
use super::programs::{by_version, folder_with};
use super::starting::{Seat, Starting, server};
use super::unused::{Lent, Unused, database_name};

/// Fast, and nothing left behind: with `mmap`, shared memory is in the data
/// folder. A killed server loses no commit without fsync; a machine would.
const SETTINGS: [(&str, &str); 7] = [
    ("listen_addresses", "127.0.0.1"),
    ("max_connections", "200"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("dynamic_shared_memory_type", "mmap"),
    // Each test has a database of its own: once a minute for hundreds of them is ten processes a second.
    ("autovacuum_naptime", "15min"),
    // What is written to create databases would be kept up to a gigabyte.
    ("max_wal_size", "128MB"),
];

/// A PostgreSQL server of this test process.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    seat: Seat,
    unused: Unused,
}

impl Postgres {
    /// Starts a server of one's own; `extra_settings` come after the defaults.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn start(extra_settings: &[(&str, &str)]) -> Self {
        let programs = programs();
        // QUIT: at once and without a checkpoint, yet leaving no shared memory behind.
        let guardian = Guardian::new("postgres", "postgres", "QUIT");
        create_data(&guardian, &programs, extra_settings);
        let mut postgres = Self { programs, seat: Seat::new(guardian), unused: Unused::default() };
        postgres.start_on_a_free_port();
        postgres
    }

    /// Starts a server that speaks TLS, with the certificates of [`certificates`](crate::certificates); the user `ichido` must show the
    /// client's.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn start_encrypted() -> Self {
        let programs = programs();
        let guardian = Guardian::new("postgres", "postgres", "QUIT");
        let files =
            [("ssl", "on"), ("ssl_ca_file", "ca.pem"), ("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")];
        create_data(&guardian, &programs, &files);
        let data = guardian.folder().join("data");
        for file in write_for_server(guardian.folder()) {
            // By its own user: it refuses a key that others can read or own.
            let file = file.to_str().expect("a path in UTF-8").to_owned();
            let installed =
                guardian.run(Path::new("install"), &["-m", "600", &file, data.to_str().expect("a path in UTF-8")]);
            assert!(installed, "{}", guardian.log_tail());
        }
        let rules = data.join("pg_hba.conf");
        let others = fs::read_to_string(&rules).expect("pg_hba.conf");
        let certified = "hostssl all ichido 127.0.0.1/32 cert\nhostnossl all ichido 127.0.0.1/32 reject\n";
        fs::write(&rules, format!("{certified}{others}")).expect("pg_hba.conf");
        let mut postgres = Self { programs, seat: Seat::new(guardian), unused: Unused::default() };
        postgres.start_on_a_free_port();
        postgres.psql(&postgres.url("postgres"), "create role ichido superuser login");
        postgres
    }

    /// Creates an empty database with a name of its own and returns its URL.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[must_use]
    pub fn fresh_database(&self) -> String {
        self.create_database("template0", None)
    }

    /// Creates a copy of a database that nobody uses any more, and returns its URL: tables are copied in a fraction of the time in
    /// which a migration makes them.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[must_use]
    pub fn copy_of(&self, database_url: &str) -> String {
        let template = database_name(database_url);
        // Sessions end a moment after their clients.
        let wait = format!(
            "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = '{template}') LOOP \
             PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$"
        );
        self.create_database(template, Some(wait))
    }

    /// Drops a database when the test that has it is over: hundreds of them would fill the disk, or the memory.
    #[must_use]
    pub fn lend(&'static self, database_url: &str) -> Lent {
        self.unused.lend(database_url)
    }

    fn create_database(&self, template: &str, first: Option<String>) -> String {
        let name = format!("ichido_{}", Uuid::now_v7().simple());
        let mut statements = self.drop_unused();
        statements.extend(first);
        statements.push(format!("CREATE DATABASE {name} TEMPLATE {template}"));
        self.run_psql(&self.url("postgres"), &statements);
        self.url(&name)
    }

    /// Drops what can be dropped now: a session that does not end in time is left alone.
    fn drop_unused(&self) -> Vec<String> {
        let drops: Vec<_> =
            self.unused.take().into_iter().map(|name| format!("DROP DATABASE {name} WITH (FORCE)")).collect();
        if drops.is_empty() {
            return drops;
        }
        let [off, on] = ["off", "on"].map(|value| format!("\\set ON_ERROR_STOP {value}"));
        [vec![off], drops, vec![on]].concat()
    }

    /// Runs SQL through `psql`, from outside the code under test, and returns
    /// its rows: one line each, columns separated by `|`.
    ///
    /// # Panics
    ///
    /// If the SQL fails.
    pub fn psql(&self, database_url: &str, sql: &str) -> String {
        self.run_psql(database_url, &[sql.to_owned()])
    }

    /// The same for several statements, each in a transaction of its own.
    fn run_psql(&self, database_url: &str, statements: &[String]) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        plain_environment(&mut psql);
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database_url]);
        let output = psql.args(statements.iter().flat_map(|sql| ["-c", sql])).output().expect("psql");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "psql: {}\n{errors}", statements.join("; "));
        let rows = String::from_utf8_lossy(&output.stdout);
        rows.trim_end_matches('\n').to_owned()
    }

    pub(super) fn url(&self, database: &str) -> String {
        let address = self.address();
        format!("postgres://postgres@{address}/{database}?sslmode=disable")
    }

    /// A line of the file in which the server tells about itself.
    fn lock_file(&self, line: usize) -> String {
        let file = fs::read_to_string(self.folder().join("data/postmaster.pid"));
        let file = file.unwrap_or_default();
        file.lines().nth(line).unwrap_or_default().trim().to_owned()
    }
}

server!(Postgres, Self::start(&[]));

impl Starting for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const PORT_TAKEN: &'static str = "create any TCP/IP";
    /// Fast: it does not wait for its clients.
    const STOP: &'static str = "INT";

    fn launch(&self) -> u32 {
        let data = self.folder().join("data");
        let data = data.to_str().expect("a path in UTF-8");
        let arguments = ["-D", data, "-p", &self.seat.port.to_string()];
        self.seat.guardian.start(&self.programs.join("postgres"), &arguments)
    }

    /// The kernel would keep its shared memory, a few bytes, until the machine restarts.
    fn tidy(&self) {
        if let Some(id) = self.lock_file(6).split_whitespace().nth(1) {
            self.seat.guardian.run(Path::new("ipcrm"), &["-m", id]);
        }
    }

    /// What `pg_ctl` looks at too. The process matters, for a killed server
    /// leaves its lock file behind.
    fn is_ready(&self, pid: u32) -> bool {
        self.lock_file(0) == pid.to_string() && self.lock_file(7) == "ready"
    }
}

fn programs() -> PathBuf {
    let first = by_version(Path::new("/usr/lib/postgresql"));
    folder_with(&["initdb", "postgres", "psql"], first).expect(
        "this test needs PostgreSQL, which is not installed: \
         run ./test, which installs it, or: apt-get install postgresql",
    )
}

fn create_data(guardian: &Guardian, programs: &Path, extra_settings: &[(&str, &str)]) {
    let data = guardian.folder().join("data");
    let arguments = ["-D", data.to_str().expect("a path in UTF-8"), "--no-sync"];
    let arguments = [&arguments[..], &["--auth=trust", "--username=postgres"]].concat();
    let arguments = [&arguments[..], &["--encoding=UTF8", "--locale=C"]].concat();
    let created = guardian.run(&programs.join("initdb"), &arguments);
    assert!(created, "initdb failed:\n{}", guardian.log_tail());

    let folder = guardian.folder().to_str().expect("a path in UTF-8");
    let socket = ("unix_socket_directories", folder);
    let settings = SETTINGS.iter().chain([&socket]).chain(extra_settings);
    let lines = settings.fold(String::new(), |mut lines, (name, value)| {
        writeln!(lines, "{name} = '{}'", value.replace('\'', "''")).expect("to a string");
        lines
    });
    fs::OpenOptions::new()
        .append(true)
        .open(data.join("postgresql.conf"))
        .and_then(|mut file| file.write_all(lines.as_bytes()))
        .expect("postgresql.conf");
}
