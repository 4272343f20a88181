//! A private PostgreSQL for tests: data in a temporary folder, trust for
//! every local connection, gone when the test process is. Fault tests start
//! one of their own, which they may stop, kill and start again. Talks to its
//! guardian, and to the server through `psql` only.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use uuid::Uuid;

use super::guardian::Guardian;
use super::processes::plain_environment;
use super::programs::{by_version, folder_with};
use super::starting::Starting;

/// Fast, and nothing left behind: with `mmap`, shared memory is in the data
/// folder. A killed server loses no commit without fsync; a machine would.
const SETTINGS: [(&str, &str); 5] = [
    ("listen_addresses", "127.0.0.1"),
    ("max_connections", "200"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("dynamic_shared_memory_type", "mmap"),
];

/// A PostgreSQL server of this test process.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    guardian: Guardian,
    port: u16,
}

impl Postgres {
    /// The server that all tests of this process share, started at first use.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed or does not start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

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
        let mut postgres = Self { programs, guardian, port: 0 };
        postgres.start_on_a_free_port();
        postgres
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The temporary folder with its data and its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.guardian.folder()
    }

    /// Creates an empty database with a name of its own and returns its URL.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[must_use]
    pub fn fresh_database(&self) -> String {
        let name = format!("ichido_{}", Uuid::now_v7().simple());
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        self.psql(&self.url("postgres"), &create);
        self.url(&name)
    }

    /// Runs SQL through `psql`, from outside the code under test, and returns
    /// its rows: one line each, columns separated by `|`.
    ///
    /// # Panics
    ///
    /// If the SQL fails.
    pub fn psql(&self, database_url: &str, sql: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        plain_environment(&mut psql);
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database_url]);
        let output = psql.args(["-c", sql]).output().expect("psql");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "psql: {sql}\n{errors}");
        let rows = String::from_utf8_lossy(&output.stdout);
        rows.trim_end_matches('\n').to_owned()
    }

    /// Stops the server as an operator would (fast: open connections are ended).
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn stop(&self) {
        self.guardian.stop("INT");
    }

    /// Ends all of its processes with SIGKILL: a crash, after which only what is in files is left.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn kill(&self) {
        self.guardian.kill();
        // The kernel would keep its shared memory, a few bytes, until the machine restarts.
        if let Some(id) = self.lock_file(6).split_whitespace().nth(1) {
            self.guardian.run(Path::new("ipcrm"), &["-m", id]);
        }
    }

    /// Starts the server again after `stop` or `kill`: same port, same data.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_again(&self) {
        self.start_on_its_port();
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

impl Starting for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const PORT_TAKEN: &'static str = "create any TCP/IP";

    fn guardian(&self) -> &Guardian {
        &self.guardian
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn set_port(&mut self, port: u16) {
        self.port = port;
    }

    fn launch(&self) -> u32 {
        let data = self.folder().join("data");
        let data = data.to_str().expect("a path in UTF-8");
        let arguments = ["-D", data, "-p", &self.port.to_string()];
        self.guardian.start(&self.programs.join("postgres"), &arguments)
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
