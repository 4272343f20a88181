//! `ichido demo`: the whole story on a SQLite database of its own. It sends orders, runs three worker processes of this very
//! program, kills one of them in the middle, waits for the others and counts. The exit code says whether the ledger is exact.

use std::{
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use ichido::{
    NewMessage, Operate, Queue, Status, Table,
    store::{Database, Queues, Transactions},
};
use ichido_sqlite::Sqlite;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::process::{Child, Command};

mod ledger;
mod served;

use self::ledger::Ledger;
use crate::{
    args::Demo,
    failure::{FOUND, Failure},
    output,
};

/// Worker processes.
const PROCESSES: usize = 3;

/// How often the story is looked at while it runs.
const LOOK: Duration = Duration::from_millis(20);

/// A demo that takes longer than this has failed.
const TIMEOUT: Duration = Duration::from_mins(5);

const TABLES: &str = "
create table received_order (
    id         integer primary key,
    name       text not null,
    status     text not null default '0',
    process_id text
);
create index received_order_claim on received_order (id) where status = '0' and process_id is null;
create index received_order_owner on received_order (process_id) where process_id is not null;
-- No unique key: a second project for the same order would be counted, not refused.
create table project (order_id integer not null, name text not null, made_by text not null);
";

/// The configuration in the README, which works as it stands, is this and [`CREATION`].
const ORDERS: &str = r#"[database]
url = "sqlite://demo.db"

[process]
poll = "100ms"

[queues.orders]
table  = "received_order"
status = { column = "status", new = "0", done = "1", failed = "2" }
owner  = "process_id"
"#;

const CREATION: &str = r#"
[actions.ProjectCreation]
from        = "orders"
concurrency = 4
sql         = ["insert into project (order_id, name, made_by) values (:id, :name, :process_id)"]
"#;

pub(crate) async fn run(demo: Demo) -> Result<u8, Failure> {
    let started = Instant::now();
    let scratch = tempfile::Builder::new().prefix("ichido-demo-").tempdir()?;
    let folder = match &demo.keep {
        Some(folder) => {
            std::fs::create_dir(folder).map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
            folder.canonicalize()?
        }
        None => scratch.path().to_path_buf(),
    };
    if demo.serve {
        return served::run(&demo, &folder).await;
    }
    let ledger = Ledger::create(&folder.join("demo.db"), TABLES).await?;
    std::fs::write(folder.join("ichido.toml"), [ORDERS, CREATION].concat())?;
    let story = Story { folder, orders: demo.orders, talks: !demo.json };
    story.send().await?;
    let mut workers = story.start()?;
    let killed = story.kill_one(&ledger, &mut workers).await?;
    story.wait(&ledger, &mut workers).await?;
    let result = ledger.count(demo.orders, &killed, started.elapsed()).await?;
    if demo.json {
        output::json(&result)?;
    } else {
        result.tell(&story.folder, demo.keep.is_some())?;
    }
    Ok(if result.is_exact() { 0 } else { FOUND })
}

struct Story {
    folder: PathBuf,
    orders: u64,
    talks: bool,
}

/// The process that was killed, and what it had in its hands.
pub(crate) struct Killed {
    pub(crate) process: String,
    pub(crate) had_claimed: i64,
}

impl Story {
    fn say(&self, text: &str) {
        if self.talks {
            output::complain(text);
        }
    }

    /// Creates ichido's tables and sends the orders, all in one transaction.
    async fn send(&self) -> Result<(), Failure> {
        self.say(&format!("sending {} orders to the table `received_order`", self.orders));
        let store = store(&self.folder, &[])?;
        let sent = async {
            store.migrate().await?;
            let mut tx = store.begin().await?;
            let orders = (1..=self.orders).map(|id| NewMessage::new(format!(r#"{{"id":{id},"name":"project {id}"}}"#)));
            let orders: Vec<_> = orders.collect();
            store.send(Sqlite::connection(&mut tx), "orders", &orders).await?;
            store.commit(tx).await
        };
        sent.await.map_err(|error| Failure::of::<Sqlite>(&error))
    }

    /// Three processes of this program, each like one that a user starts.
    fn start(&self) -> Result<Vec<Child>, Failure> {
        self.say(&format!("starting {PROCESSES} processes: ichido run ProjectCreation/R1 --drain"));
        let start = |number| {
            let log = std::fs::File::create(self.folder.join(format!("process-{number}.log")))?;
            let mut command = command(&self.folder, &["run", "ProjectCreation/R1", "--drain"])?;
            Ok(command.stderr(log).spawn()?)
        };
        (1..=PROCESSES).map(start).collect()
    }

    /// Kills the first process when a quarter of the orders is done and it has some in its hands.
    async fn kill_one(&self, ledger: &Ledger, workers: &mut Vec<Child>) -> Result<Killed, Failure> {
        let since = Instant::now();
        loop {
            let pid = workers[0].id().unwrap_or_default();
            let process = ledger.process_of(pid).await?;
            let done = ledger.done().await?;
            let half = done * 2 >= self.orders;
            if let Some(process) = process.filter(|_| done * 4 >= self.orders)
                && (ledger.claimed_by(&process).await? > 0 || half)
            {
                workers[0].kill().await?;
                let had_claimed = ledger.claimed_by(&process).await?;
                self.say(&format!(
                    "killed process {pid} with SIGKILL after {done} orders; it had claimed {had_claimed} more"
                ));
                workers.remove(0);
                return Ok(Killed { process, had_claimed });
            }
            if since.elapsed() > TIMEOUT || workers[0].try_wait()?.is_some() {
                return Err(Failure::found(self.logs("the first process exited before it could be killed")));
            }
            tokio::time::sleep(LOOK / 10).await;
        }
    }

    /// Waits for the others, with a bar that shows how far they are.
    async fn wait(&self, ledger: &Ledger, workers: &mut [Child]) -> Result<(), Failure> {
        let bar =
            if self.talks && stderr().is_terminal() { ProgressBar::new(self.orders) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} orders done") {
            bar.set_style(style);
        }
        let since = Instant::now();
        loop {
            bar.set_position(ledger.done().await?);
            let mut ended = Vec::new();
            for worker in &mut *workers {
                ended.extend(worker.try_wait()?);
            }
            if let Some(bad) = ended.iter().find(|status| !status.success()) {
                return Err(Failure::found(self.logs(&format!("a process exited with {bad}"))));
            }
            if ended.len() == workers.len() {
                bar.finish_and_clear();
                return Ok(());
            }
            if since.elapsed() > TIMEOUT {
                return Err(Failure::found(self.logs("the processes did not finish in time")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What went wrong, with the last lines of each process's log.
    fn logs(&self, what: &str) -> String {
        let mut text = what.to_owned();
        for number in 1..=PROCESSES {
            let log = std::fs::read_to_string(self.folder.join(format!("process-{number}.log"))).unwrap_or_default();
            let from = log.lines().count().saturating_sub(5);
            text.extend(log.lines().skip(from).map(|line| format!("\n  process {number}: {line}")));
        }
        text
    }
}

/// The demo's database, with the orders and other queues.
fn store(folder: &Path, others: &[&str]) -> Result<Sqlite, Failure> {
    let status = Status::new("status", "0", "1").failed("2");
    let orders = Queue::table("orders", Table::new("received_order", "process_id", status));
    let queues = [orders].into_iter().chain(others.iter().copied().map(Queue::managed)).collect();
    let url = format!("sqlite://{}", folder.join("demo.db").display());
    Sqlite::new(&url, queues).map_err(|error| Failure::of::<Sqlite>(&error))
}

/// This very program with these arguments, in the demo's folder.
fn command(folder: &Path, arguments: &[&str]) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command.env_remove("ICHIDO_DATABASE_URL").env_remove("ICHIDO_CONFIG").env("NO_COLOR", "1");
    Ok(command)
}

/// Where the demo's database is, for the commands to try next.
pub(crate) fn shown(folder: &Path) -> String {
    folder.display().to_string()
}
