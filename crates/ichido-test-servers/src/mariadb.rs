//! A private MariaDB for tests: data in a temporary folder, one user with all
//! rights and a password, gone when the test process is. Fault tests start one
//! of their own, which they may stop, kill and start again. Talks to its
//! guardian, and to the server through the program `mariadb` only.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::certificates::write_for_server;
use super::guardian::Guardian;
use super::processes::plain_environment;
use super::programs::folder_with;
use super::starting::{Seat, Starting, server};
use super::unused::database_name;

/// Fast, and still a killed server loses no commit; a machine would. (With 0
/// instead of 2 a killed server loses the commits of the last second.)
const SETTINGS: [(&str, &str); 10] = [
    ("bind-address", "127.0.0.1"),
    ("max-connections", "200"),
    // Connections that are cut while they are opened must not block the host.
    ("max-connect-errors", "1000000"),
    ("skip-name-resolve", "ON"),
    ("character-set-server", "utf8mb4"),
    ("innodb-flush-log-at-trx-commit", "2"),
    ("innodb-flush-method", "nosync"),
    ("innodb-log-file-size", "32M"),
    ("innodb-buffer-pool-size", "64M"),
    // What the kernel allows of it is for the whole machine: many servers at once exceed it.
    ("innodb-use-native-aio", "OFF"),
];

const USER: &str = "ichido";
const PASSWORD: &str = "once";

/// A MariaDB server of this test process.
#[derive(Debug)]
pub struct MariaDb {
    programs: Programs,
    arguments: Vec<String>,
    seat: Seat,
    /// What makes a copy of a database, by its name.
    copies: Mutex<HashMap<String, String>>,
}

impl MariaDb {
    /// Starts a server of one's own; `extra_settings` come after the defaults.
    /// The server survives its machine too with `innodb-flush-method` = `fsync`
    /// and `innodb-flush-log-at-trx-commit` = `1`.
    ///
    /// # Panics
    ///
    /// If MariaDB is not installed or does not start.
    #[must_use]
    pub fn start(extra_settings: &[(&str, &str)]) -> Self {
        let programs = Programs::find();
        // KILL: it has nothing but its folder, which is removed anyway.
        let guardian = Guardian::new("mariadb", "mysql", "KILL");
        create_data(&guardian, &programs);
        let mut arguments = place(guardian.folder());
        arguments.extend(options(extra_settings));
        let mut mariadb = Self::in_seat(programs, arguments, guardian);
        mariadb.start_on_a_free_port();
        mariadb
    }

    /// Starts a server that speaks TLS, with the certificates of [`certificates`](crate::certificates); the user `certified`, whose
    /// password is the same as the other's, must show the client's.
    ///
    /// # Panics
    ///
    /// If MariaDB is not installed or does not start.
    #[must_use]
    pub fn start_encrypted() -> Self {
        let programs = Programs::find();
        let guardian = Guardian::new("mariadb", "mysql", "KILL");
        create_data(&guardian, &programs);
        let mut arguments = place(guardian.folder());
        let files = write_for_server(guardian.folder());
        let named = ["ssl-ca", "ssl-cert", "ssl-key"].into_iter().zip(&files);
        arguments.extend(named.map(|(name, file)| format!("--{name}={}", file.display())));
        let mut mariadb = Self::in_seat(programs, arguments, guardian);
        mariadb.start_on_a_free_port();
        let user = format!("CREATE USER certified@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE X509");
        mariadb.client(&mariadb.url(""), &format!("{user}; GRANT ALL ON *.* TO certified@'%'"));
        mariadb
    }

    fn in_seat(programs: Programs, arguments: Vec<String>, guardian: Guardian) -> Self {
        Self { programs, arguments, seat: Seat::new(guardian), copies: Mutex::default() }
    }

    /// Creates an empty database with a name of its own and returns its URL.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[must_use]
    pub fn fresh_database(&self) -> String {
        self.create_database("")
    }

    /// Creates a copy of a database that is not changed any more, and returns its URL: its tables as they are now, without the
    /// migration that made them.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[must_use]
    pub fn copy_of(&self, database_url: &str) -> String {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let statements = copies.entry(database_name(database_url).to_owned());
        let statements = statements.or_insert_with(|| self.statements_of(database_url)).clone();
        drop(copies);
        self.create_database(&statements)
    }

    fn create_database(&self, filled: &str) -> String {
        let name = format!("ichido_{}", Uuid::now_v7().simple());
        self.client(&self.url(""), &format!("CREATE DATABASE {name}; USE {name}; {filled}"));
        self.url(&name)
    }

    /// What makes the tables of a database in another one, with their rows.
    fn statements_of(&self, database_url: &str) -> String {
        let name = database_name(database_url);
        let tables = self.client(database_url, "SHOW TABLES");
        // Tables may be named before they are there.
        let mut statements = "SET foreign_key_checks = 0;\n".to_owned();
        for table in tables.lines() {
            let shown = self.client(database_url, &format!("SHOW CREATE TABLE {table}"));
            let (_, create) = shown.split_once('|').expect("the name and the statement");
            // A row is a line: line breaks are escaped.
            let create = create.replace("\\n", "\n");
            writeln!(statements, "{create};\nINSERT INTO {table} SELECT * FROM {name}.{table};").expect("to a string");
        }
        statements
    }

    /// Runs SQL through the program `mariadb`, from outside the code under
    /// test, and returns its rows: one line each, columns separated by `|`,
    /// null as `NULL`.
    ///
    /// # Panics
    ///
    /// If the SQL fails.
    pub fn client(&self, database_url: &str, sql: &str) -> String {
        let mut client = Command::new(self.programs.tools.join("mariadb"));
        plain_environment(&mut client);
        client.args(["--no-defaults", "--batch", "--skip-column-names", "--default-character-set=utf8mb4"]);
        client.args(login(database_url).expect("a URL of fresh_database"));
        let output = client.arg("--execute").arg(sql).output().expect("mariadb");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mariadb: {sql}\n{errors}");
        let rows = String::from_utf8_lossy(&output.stdout);
        // A tab in a value is escaped.
        rows.trim_end_matches('\n').replace('\t', "|")
    }

    fn url(&self, database: &str) -> String {
        let address = self.address();
        format!("mysql://{USER}:{PASSWORD}@{address}/{database}?ssl-mode=DISABLED")
    }
}

server!(MariaDb, Self::start(&[]));

impl Starting for MariaDb {
    const NAME: &'static str = "MariaDB";
    const PORT_TAKEN: &'static str = "Bind on TCP/IP port";
    const STOP: &'static str = "TERM";

    fn launch(&self) -> u32 {
        let port = format!("--port={}", self.seat.port);
        let arguments = self.arguments.iter().chain([&port]).map(String::as_str);
        self.seat.guardian.start(&self.programs.server, &arguments.collect::<Vec<_>>())
    }

    /// It greets on the socket in its folder, where no other server can answer,
    /// and not before it takes connections everywhere.
    fn is_ready(&self, _pid: u32) -> bool {
        let Ok(mut socket) = UnixStream::connect(self.folder().join("socket")) else {
            return false;
        };
        let mut greeting = [0; 5];
        let limit = socket.set_read_timeout(Some(Duration::from_secs(1)));
        limit.and_then(|()| socket.read_exact(&mut greeting)).is_ok_and(|()| greeting[4] == 10)
    }
}

#[derive(Debug)]
struct Programs {
    server: PathBuf,
    tools: PathBuf,
}

impl Programs {
    fn find() -> Self {
        let server = folder_with(&["mariadbd"], vec!["/usr/sbin".into()]);
        let tools = folder_with(&["mariadb-install-db", "mariadb"], vec!["/usr/bin".into()]);
        let found = server.zip(tools).map(|(server, tools)| Self { server: server.join("mariadbd"), tools });
        found.expect(
            "this test needs MariaDB, which is not installed: \
             run ./test, which installs it, or: apt-get install mariadb-server-core mariadb-client-core",
        )
    }
}

fn create_data(guardian: &Guardian, programs: &Programs) {
    let users = guardian.folder().join("users.sql");
    // One statement per line: the server has no client yet that would find their ends.
    let sql = format!(
        "FLUSH PRIVILEGES;\n\
         CREATE USER {USER}@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('{PASSWORD}');\n\
         GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;\n"
    );
    fs::write(&users, sql)
        .and_then(|()| fs::set_permissions(&users, Permissions::from_mode(0o644)))
        .expect("a file in the server's folder");
    let mut arguments = place(guardian.folder());
    arguments.push("--skip-test-db".to_owned());
    arguments.push(format!("--extra-file={}", users.display()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let created = guardian.run(&programs.tools.join("mariadb-install-db"), &arguments);
    assert!(created, "mariadb-install-db failed:\n{}", guardian.log_tail());
}

/// Where everything of the server is, and its default settings.
fn place(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("a path in UTF-8");
    let mut arguments = vec!["--no-defaults".to_owned()];
    arguments.push(format!("--datadir={folder}/data"));
    arguments.push(format!("--tmpdir={folder}"));
    arguments.push(format!("--socket={folder}/socket"));
    arguments.push(format!("--pid-file={folder}/pid"));
    arguments.extend(options(&SETTINGS));
    arguments
}

fn options(settings: &[(&str, &str)]) -> impl Iterator<Item = String> {
    settings.iter().map(|(name, value)| format!("--{name}={value}"))
}

/// The options that make the program `mariadb` log in where a URL says.
fn login(database_url: &str) -> Option<[String; 6]> {
    let (user, place) = database_url.strip_prefix("mysql://")?.split_once('@')?;
    let (user, password) = user.split_once(':')?;
    let (address, database) = place.split_once('/')?;
    let (host, port) = address.split_once(':')?;
    let database = database.split('?').next()?;
    Some([
        "--skip-ssl".to_owned(),
        format!("--host={host}"),
        format!("--port={port}"),
        format!("--user={user}"),
        format!("--password={password}"),
        format!("--database={database}"),
    ])
}
