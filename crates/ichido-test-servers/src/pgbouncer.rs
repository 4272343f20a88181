//! A private pgbouncer for tests, in transaction mode in front of a private
//! PostgreSQL: few connections to the server, shared by many clients. Two users
//! may pass: `postgres`, and `worker`, which the server lets write only in a
//! transaction that says so. Talks to its guardian only.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::Postgres;
use super::guardian::Guardian;
use super::programs::folder_with;
use super::starting::{Seat, Starting, lines, server};

/// Connections to the server are few, so that clients really share them, and
/// given up soon, for every test has a database of its own.
const SETTINGS: [(&str, &str); 11] = [
    ("listen_addr", "127.0.0.1"),
    ("auth_type", "trust"),
    ("pool_mode", "transaction"),
    ("default_pool_size", "6"),
    ("max_client_conn", "1000"),
    ("server_idle_timeout", "1"),
    // A server that was away is looked for again soon.
    ("server_login_retry", "1"),
    // A test that waits for a connection in vain says so.
    ("query_wait_timeout", "30"),
    ("log_connections", "0"),
    ("log_disconnections", "0"),
    ("stats_period", "3600"),
];

/// A pgbouncer of this test process.
#[derive(Debug)]
pub struct PgBouncer {
    program: PathBuf,
    server: String,
    settings: String,
    seat: Seat,
}

impl PgBouncer {
    /// Starts a pooler of one's own. `how` is what else its line about the
    /// server says, such as `connect_query='…'`, or `port=…` for a proxy in
    /// between; `extra_settings` come after the defaults.
    ///
    /// # Panics
    ///
    /// If pgbouncer is not installed or does not start.
    #[must_use]
    pub fn start(server: &Postgres, how: &str, extra_settings: &[(&str, &str)]) -> Self {
        let program = program();
        create_worker(server);
        // INT ends it at once; on TERM newer ones wait for their clients.
        let guardian = Guardian::new("pgbouncer", "postgres", "INT");
        let settings = lines(SETTINGS.iter().chain(extra_settings));
        let address = server.address();
        let server = format!("host={} port={} {how}", address.ip(), address.port());
        let mut pooler = Self { program, server, settings, seat: Seat::new(guardian) };
        pooler.start_on_a_free_port();
        pooler
    }

    /// Its process.
    ///
    /// # Panics
    ///
    /// If it is not running.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.written_pid().expect("a process id")
    }

    /// The URL of a database, through the pooler, for the user `postgres` or `worker`.
    #[must_use]
    pub fn url(&self, user: &str, database_url: &str) -> String {
        let database = database_url.rsplit_once('/').map_or(database_url, |(_, database)| database);
        format!("postgres://{user}@{}/{database}", self.address())
    }

    fn written_pid(&self) -> Option<u32> {
        fs::read_to_string(self.folder().join("pid")).ok()?.trim().parse().ok()
    }

    /// The file is written before each start, for the port may be another one.
    fn write_settings(&self) -> PathBuf {
        let (server, folder, port, settings) = (&self.server, self.folder().display(), self.seat.port, &self.settings);
        let users = self.folder().join("users.txt");
        let ini = format!(
            "[databases]\n* = {server}\n\
             [pgbouncer]\nlisten_port = {port}\nunix_socket_dir = {folder}\npidfile = {folder}/pid\nauth_file = {}\n{settings}",
            users.display()
        );
        let file = self.folder().join("pgbouncer.ini");
        // A killed one leaves its process id behind, which somebody else may have got.
        drop(fs::remove_file(self.folder().join("pid")));
        fs::write(users, "\"postgres\" \"\"\n\"worker\" \"\"\n").expect("the users' file");
        fs::write(&file, ini).expect("the settings' file");
        file
    }
}

server!(PgBouncer, Self::start(Postgres::shared(), "", &[]));

impl Starting for PgBouncer {
    const NAME: &'static str = "pgbouncer";
    const PORT_TAKEN: &'static str = "Address already in use";
    const STOP: &'static str = "INT";

    fn launch(&self) -> u32 {
        let file = self.write_settings();
        self.seat.guardian.start(&self.program, &[file.to_str().expect("a path in UTF-8")])
    }

    /// On the socket in its folder no other server can answer; it listens there before it has written its process id.
    fn is_ready(&self, pid: u32) -> bool {
        self.written_pid() == Some(pid)
            && UnixStream::connect(self.folder().join(format!(".s.PGSQL.{}", self.seat.port))).is_ok()
    }
}

fn program() -> PathBuf {
    let folder = folder_with(&["pgbouncer"], vec!["/usr/sbin".into()]).expect(
        "this test needs pgbouncer, which is not installed: \
         run ./test, which installs it, or: apt-get install pgbouncer",
    );
    folder.join("pgbouncer")
}

/// The role is the server's: a second pooler finds it there.
fn create_worker(server: &Postgres) {
    server.psql(
        &server.url("postgres"),
        "do $$ begin create role worker login superuser; exception when duplicate_object or unique_violation then null; end $$; \
         alter role worker set default_transaction_read_only = on",
    );
}
