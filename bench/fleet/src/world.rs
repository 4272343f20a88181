//! A database with a queue, and fleets of `ichido run` on it: small processes of two workers whose action inserts one row.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{Result, server::Server};

/// Nothing here takes longer than this; if it does, something is wrong.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The workers of each process.
pub const WORKERS: usize = 2;

const CONFIG: &str = r#"
[database]
url = "URL"

[queues.bench]

[queues.small]
table  = "job_small"
key    = ["id"]
status = { column = "status", new = "0", done = "1", failed = "2" }
owner  = "owner"

[queues.large]
table  = "job_large"
key    = ["id"]
status = { column = "status", new = "0", done = "1", failed = "2" }
owner  = "owner"

[actions.Bench]
from        = "bench"
concurrency = 2
sql         = ["insert into effect (n) values (:n)"]

[actions.Small]
from        = "small"
concurrency = 2
sql         = ["insert into effect (n) values (:n)"]

[actions.Large]
from        = "large"
concurrency = 2
sql         = ["insert into effect (n) values (:n)"]
"#;

/// What is there before anything is measured. The time of an effect is when its statement began.
const TABLES: [&str; 6] = [
    "create table effect (n bigint not null, at timestamptz not null default clock_timestamp())",
    "create table job_small (id bigint primary key, n bigint not null, status char(1) not null default '0', owner uuid)",
    "create index job_small_claim on job_small (id) where status = '0' and owner is null",
    "create index job_small_owner on job_small (owner) where status = '0' and owner is not null",
    "create table job_large (like job_small including all)",
    "create extension pg_stat_statements",
];

pub struct World {
    pub sql: PgConnection,
    pub url: String,
    /// Processes of the fleet do not meet ours as those of one host do: they hear of a send by NOTIFY alone.
    pub elsewhere: bool,
    binary: PathBuf,
    folder: TempDir,
    server: Server,
}

impl World {
    pub async fn new() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let binary = std::env::var_os("ICHIDO").map_or_else(|| root.join("target/release/ichido"), PathBuf::from);
        let binary = binary.canonicalize().map_err(|error| format!("{}: {error}", binary.display()))?;
        let server = Server::start()?;
        let (url, folder) = (server.url(), tempfile::tempdir()?);
        std::fs::write(folder.path().join("ichido.toml"), CONFIG.replace("URL", &url))?;
        let mut sql = PgConnection::connect(&url).await?;
        for table in TABLES {
            sqlx::raw_sql(table).execute(&mut sql).await?;
        }
        let world = World { sql, url, elsewhere: false, binary, folder, server };
        let migrated = world.ichido(&["migrate"]).status().await?;
        if migrated.success() { Ok(world) } else { Err("ichido migrate failed".into()) }
    }

    fn ichido(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("-q").args(arguments).current_dir(self.folder.path());
        if self.elsewhere {
            command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", self.folder.path());
        }
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }

    /// So many processes with this action, all of them registered and idle, or at work.
    pub async fn fleet(&mut self, action: &str, processes: usize) -> Result<Fleet> {
        let start = |_| self.ichido(&["run", action]).spawn();
        let children = (0..processes).map(start).collect::<std::io::Result<Vec<_>>>()?;
        self.until("select count(*) from ichido_process", |count| count >= i64::try_from(processes).unwrap_or(0))
            .await?;
        Ok(Fleet { children })
    }

    pub async fn number(&mut self, query: &str) -> Result<i64> {
        Ok(sqlx::query(AssertSqlSafe(query.to_owned())).fetch_one(&mut self.sql).await?.try_get(0)?)
    }

    pub async fn run(&mut self, statement: &str) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut self.sql).await?;
        Ok(())
    }

    pub async fn until(&mut self, query: &str, reached: impl Fn(i64) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !reached(self.number(query).await?) {
            if begun.elapsed() > TIMEOUT {
                return Err(format!("in vain: {query}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// As many messages as will not be done in this time.
    pub async fn send(&mut self, seconds: u64) -> Result<()> {
        let messages = 10_000 * seconds;
        self.run(&format!(
            "insert into ichido_message (queue, payload) select 'bench', json_build_object('n', n)::text from generate_series(1, {messages}) n"
        ))
        .await?;
        self.run("vacuum analyze ichido_message").await
    }

    /// How many transactions with this script so many processes of pgbench do in a second, each with as many clients as one of ours has
    /// workers.
    pub async fn pgbench(&self, script: &str, processes: usize, seconds: u64) -> Result<f64> {
        let file = self.folder.path().join("script.sql");
        std::fs::write(&file, script)?;
        let start = |_| {
            let mut command = Command::new(self.server.program("pgbench"));
            command.args(["-n", "-M", "prepared", "-T", &seconds.to_string(), "-c", &WORKERS.to_string(), "-f"]);
            command.arg(&file).arg(&self.url).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn()
        };
        let all = (0..processes).map(start).collect::<std::io::Result<Vec<_>>>()?;
        let mut rate = 0.0;
        for one in all {
            let said = String::from_utf8(one.wait_with_output().await?.stdout)?;
            let found =
                said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
            rate += found.ok_or_else(|| format!("pgbench said: {said}"))?;
        }
        Ok(rate)
    }

    /// How many effects come in this time, per second.
    pub async fn throughput(&mut self, time: Duration) -> Result<f64> {
        let (before, begun) = (self.effects().await?, Instant::now());
        tokio::time::sleep(time).await;
        let (after, took) = (self.effects().await?, begun.elapsed());
        #[allow(clippy::cast_precision_loss, reason = "counts of a minute")]
        Ok((after - before) as f64 / took.as_secs_f64())
    }

    pub async fn effects(&mut self) -> Result<i64> {
        self.number("select count(*) from effect").await
    }
}

/// Processes that run; they are killed when this is dropped.
pub struct Fleet {
    pub children: Vec<Child>,
}

impl Fleet {
    /// Stops them, and waits until they have ended.
    pub async fn stop(mut self) -> Result<()> {
        for child in &self.children {
            if let Some(id) = child.id() {
                Command::new("kill").arg("-TERM").arg(id.to_string()).status().await?;
            }
        }
        for child in &mut self.children {
            tokio::time::timeout(Duration::from_secs(40), child.wait()).await??;
        }
        Ok(())
    }

    pub fn ids(&self) -> Vec<u32> {
        self.children.iter().filter_map(Child::id).collect()
    }
}

/// The middle one.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
