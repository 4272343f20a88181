//! A folder with an `ichido.toml`, a database with the classic tables, and the binary: what every test of the command line
//! needs. Each test runs for every database through [`on_all`].

#![allow(unreachable_pub, reason = "a part of the tests' world")]

pub mod database;
pub mod next;
mod process;
pub mod server;
mod session;
pub mod tty;

use std::{panic::Location, path::Path, process::Stdio};

use ichido_test_servers::{self as servers, proxy::Proxy};
use ichido_testkit::eventually;
use tempfile::TempDir;
use tokio::{process::Command, sync::OnceCell};

pub use process::{Ended, Process};

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
}

/// A test's own world.
pub struct Env {
    pub kind: Kind,
    pub url: String,
    folder: TempDir,
    session: session::Kept,
    lent: Option<servers::Lent>,
}

/// `project` has no unique key, so that a double effect is counted and not refused.
const TABLES: &str = "
create table received_order (id integer primary key, name varchar(100) not null, status char(1) default '0' not null, process_id char(36));
create index received_order_claim on received_order CLAIM;
OWNER
create table project (id integer not null, name varchar(100) not null, made_by varchar(36) not null);
create table burnt (n integer);
";

/// A process that is quick to notice and slow to give up. What is sent wakes it; polls of many processes at a time would be most of what a test
/// run costs.
pub const PROCESS: &str = r#"[process]
lease = "1s"
poll  = "200ms"
retry = { count = 20, interval = "200ms", window = "10m" }"#;

/// The configuration of the README, with settings for tests.
const CONFIG: &str = r#"
[database]
url = "URL"

PROCESS

[queues.orders]
table  = "received_order"
key    = ["id"]
status = { column = "status", new = "0", done = "1", failed = "2" }
owner  = "process_id"

[queues.mail]

[actions.ProjectCreation]
from        = "orders"
concurrency = 4
retry       = { attempts = 3, first = "10ms", max = "50ms" }
sql         = ["insert into project (id, name, made_by) values (:id, :name, :process_id)"SLOW]
"#;

impl Env {
    /// A world with business tables and ichido's own: on a server, a copy of one that was migrated once.
    pub async fn new(kind: Kind) -> Self {
        static MIGRATED: [OnceCell<String>; 2] = [OnceCell::const_new(), OnceCell::const_new()];
        let (url, name) = match kind {
            Kind::Sqlite => return Env::migrated(kind).await,
            Kind::Postgres => {
                let migrated = MIGRATED[0].get_or_init(|| Env::migrated_database(kind)).await;
                (servers::Postgres::shared().copy_of(migrated), "gen_random_uuid()")
            }
            Kind::MariaDb => {
                let migrated = MIGRATED[1].get_or_init(|| Env::migrated_database(kind)).await;
                (servers::MariaDb::shared().copy_of(migrated), "uuid()")
            }
        };
        let env = Env::on(kind, url).lend();
        // What messages at brokers carry as the place that they come from: a copy is another one.
        env.sql(&format!("update ichido_origin set id = {name}")).await;
        env
    }

    async fn migrated(kind: Kind) -> Self {
        let env = Env::bare(kind).await;
        env.ok(&["migrate"]).await;
        env
    }

    /// One that nobody changes any more.
    async fn migrated_database(kind: Kind) -> String {
        let mut env = Env::migrated(kind).await;
        // It is there for as long as the server.
        std::mem::forget(env.lent.take());
        env.url
    }

    /// A world without ichido's own tables.
    pub async fn bare(kind: Kind) -> Self {
        let url = match kind {
            Kind::Sqlite => "sqlite://test.db".to_owned(),
            Kind::Postgres => servers::Postgres::shared().fresh_database(),
            Kind::MariaDb => servers::MariaDb::shared().fresh_database(),
        };
        Env::with_url(kind, url).await.lend()
    }

    /// A large database of the server that all tests share goes with this.
    fn lend(mut self) -> Self {
        self.lent = (self.kind == Kind::Postgres).then(|| servers::Postgres::shared().lend(&self.url));
        self
    }

    /// A world on this database as it is.
    fn on(kind: Kind, url: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env = Env { kind, url, folder, session: session::Kept::default(), lent: None };
        env.configure(|config| config);
        env
    }

    /// A world on this database, without ichido's own tables.
    pub async fn with_url(kind: Kind, url: String) -> Self {
        let env = Env::on(kind, url);
        let claim = match kind {
            Kind::MariaDb => "(status, process_id, id)",
            _ => "(id) where status = '0' and process_id is null",
        };
        let owner = match kind {
            Kind::MariaDb => "",
            _ => {
                "create index received_order_owner on received_order (process_id) where status = '0' and process_id is not null;"
            }
        };
        env.sql(&TABLES.replace("CLAIM", claim).replace("OWNER", owner)).await;
        env
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `ichido.toml` anew.
    pub fn configure(&self, change: impl FnOnce(String) -> String) {
        let config = change(CONFIG.replace("URL", &self.url).replace("PROCESS", PROCESS).replace("SLOW", ""));
        std::fs::write(self.folder().join("ichido.toml"), config).unwrap();
    }

    /// Writes `ichido.toml` anew, so that everything goes through a proxy to the server that the tests share.
    pub fn behind_a_proxy(&self) -> Proxy {
        let proxy = self.kind.proxy();
        self.configure(|config| config.replace(&self.url, &proxy.url(&self.url)));
        proxy
    }

    /// Changes `ichido.toml` as it is.
    pub fn reconfigure(&self, change: impl FnOnce(String) -> String) {
        let file = self.folder().join("ichido.toml");
        let config = change(std::fs::read_to_string(&file).unwrap());
        std::fs::write(file, config).unwrap();
    }

    /// A suspect loses an attempt when its process dies, and a process that a busy machine keeps from its heartbeat counts as dead too:
    /// where many die there are attempts enough, and a process does not give up.
    pub fn allow_many_deaths(&self) {
        self.reconfigure(|config| {
            config.replace("attempts = 3", "attempts = 1000").replace("count = 20", "count = 1000")
        });
    }

    /// Makes each message take some milliseconds in its transaction.
    pub fn slow_down(&self, milliseconds: u32) {
        self.with_statement(&self.slow(milliseconds));
    }

    /// Writes `ichido.toml` anew, so that no message comes to an end in its transaction.
    pub fn never_end(&self) {
        self.with_statement(&self.endless());
    }

    fn with_statement(&self, slow: &str) {
        let config = CONFIG.replace("URL", &self.url).replace("PROCESS", PROCESS).replace("SLOW", slow);
        std::fs::write(self.folder().join("ichido.toml"), config).unwrap();
    }

    /// A statement more, which takes some milliseconds.
    pub fn slow(&self, milliseconds: u32) -> String {
        match self.kind {
            Kind::Postgres => format!(r#", "select pg_sleep({})""#, f64::from(milliseconds) / 1000.0),
            Kind::MariaDb => format!(r#", "select sleep({})""#, f64::from(milliseconds) / 1000.0),
            Kind::Sqlite => {
                let count = milliseconds * 4000;
                let burn = format!("with recursive c(n) as (select 1 union all select n + 1 from c where n < {count})");
                format!(r#", "insert into burnt {burn} select max(n) from c where n < 0""#)
            }
        }
    }

    /// A statement more, which does not end while a test runs.
    pub fn endless(&self) -> String {
        match self.kind {
            Kind::Sqlite => {
                let burn = "with recursive c(n) as (select 1 union all select n + 1 from c)";
                format!(r#", "insert into burnt {burn} select max(n) from c where n < 0""#)
            }
            Kind::Postgres | Kind::MariaDb => self.slow(600_000),
        }
    }

    /// The binary, to be run.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_ichido")), args)
    }

    /// Another program in the same place, to be run.
    pub fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder()).stdin(Stdio::null()).kill_on_drop(true);
        for name in ["ICHIDO_CONFIG", "ICHIDO_DATABASE_URL", "ICHIDO_LOG"] {
            command.env_remove(name);
        }
        // Whoever the test process is at Amazon, its programs are nobody there.
        for name in ["AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"] {
            command.env_remove(name);
        }
        command.envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]);
        command.envs([("AWS_CONFIG_FILE", "/dev/null"), ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")]);
        command
    }

    /// Runs the binary to its end.
    pub async fn run(&self, args: &[&str]) -> Ended {
        Ended::run(args, &mut self.command(args)).await
    }

    /// Runs the binary with these variables in its environment.
    pub async fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Ended {
        Ended::run(args, self.command(args).envs(variables.iter().copied())).await
    }

    /// Runs the binary with this standard input.
    pub async fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ended {
        let file = self.folder().join("input");
        std::fs::write(&file, input).unwrap();
        let mut command = self.command(args);
        Ended::run(args, command.stdin(std::fs::File::open(file).unwrap())).await
    }

    /// Runs the binary and expects success.
    #[track_caller]
    pub fn ok<'a>(&'a self, args: &'a [&'a str]) -> impl Future<Output = String> + 'a {
        let caller = Location::caller();
        async move {
            let ended = self.run(args).await;
            assert_eq!(ended.code, Some(0), "{caller}: ichido {args:?}: {ended:?}");
            ended.stdout
        }
    }

    /// Starts the binary; its log goes to a file.
    pub fn start(&self, name: &str, args: &[&str]) -> Process {
        self.start_program(Path::new(env!("CARGO_BIN_EXE_ichido")), name, args)
    }

    /// The same for another program.
    pub fn start_program(&self, program: &Path, name: &str, args: &[&str]) -> Process {
        let log = std::fs::File::create(self.folder().join(name)).unwrap();
        let child = self.command_of(program, args).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Process::new(child, self.folder().join(name))
    }

    /// Sends orders with these ids through the binary.
    pub async fn send_orders(&self, ids: impl IntoIterator<Item = u32>) {
        let lines: Vec<_> = ids.into_iter().map(|id| format!(r#"{{"id":{id},"name":"order {id}"}}"#)).collect();
        let lines = lines.join("\n");
        let sent = self.run_with_input(&["send", "orders", "--file", "-"], lines.as_bytes()).await;
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }

    /// Orders that are done.
    pub async fn done(&self) -> i64 {
        self.number("select count(*) from received_order where status = '1'").await
    }

    /// Waits until a query gives at least this number; a test fails when the number does not grow for as long as nothing takes.
    #[track_caller]
    pub fn until(&self, query: &str, least: i64) -> impl Future<Output = ()> {
        self.grown(Location::caller(), query.to_owned(), least)
    }

    /// Waits until there is no such row any more: a table, with a condition or without.
    #[track_caller]
    pub fn until_none(&self, rows: &str) -> impl Future<Output = ()> {
        self.grown(Location::caller(), format!("select 0 - count(*) from {rows}"), 0)
    }

    async fn grown(&self, caller: &Location<'_>, query: String, least: i64) {
        let mut seen = self.number(&query).await;
        while seen < least {
            let more = eventually(format!("{caller}: `{query}` at {least}, or above {seen}"), async || {
                let now = self.number(&query).await;
                if now > seen { Ok(now) } else { Err(now) }
            });
            seen = more.await;
        }
    }

    /// Waits until a process has told with its heartbeat that it runs a message: what is only claimed has not begun.
    pub async fn until_running(&self) {
        let runs = |process: &serde_json::Value| process["running"].as_array().is_some_and(|runs| !runs.is_empty());
        eventually("a message runs", async || {
            let status: serde_json::Value = serde_json::from_str(&self.ok(&["status", "--json"]).await).unwrap();
            status["processes"].as_array().is_some_and(|processes| processes.iter().any(runs))
        })
        .await;
    }

    /// The ledger rule: nothing lost, nothing double, no ghost, every row as a done row must be.
    pub async fn assert_exact(&self, orders: i64) {
        let ledger = [
            ("DONE", "select count(*) from received_order where status = '1' and process_id is null", orders),
            ("EFFECTS", "select count(*) from project", orders),
            (
                "LOST",
                "select count(*) from received_order o where not exists (select 1 from project p where p.id = o.id)",
                0,
            ),
            ("DOUBLE", "select count(*) from (select 1 from project group by id having count(*) > 1) d", 0),
            (
                "GHOST",
                "select count(*) from project p where not exists (select 1 from received_order o where o.id = p.id)",
                0,
            ),
        ];
        for (what, query, expected) in ledger {
            assert_eq!(self.number(query).await, expected, "{what} on {:?}", self.kind);
        }
    }
}

/// Makes a test for each database.
#[macro_export]
macro_rules! on_all {
    ($($name:ident),* $(,)?) => {
        $crate::on_all!(@ sqlite, Sqlite, [$($name),*]);
        $crate::on_all!(@ postgres, Postgres, [$($name),*]);
        $crate::on_all!(@ mariadb, MariaDb, [$($name),*]);
    };
    (@ $module:ident, $kind:ident, [$($name:ident),*]) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::testenv::Kind::$kind).await;
                }
            )*
        }
    };
}

/// Makes a test for each database that has a server.
#[macro_export]
macro_rules! on_servers {
    ($($name:ident),* $(,)?) => {
        mod on_servers {
            use super::{$($name),*};
            $crate::on_all!(@ postgres, Postgres, [$($name),*]);
            $crate::on_all!(@ mariadb, MariaDb, [$($name),*]);
        }
    };
}
