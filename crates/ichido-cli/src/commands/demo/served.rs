//! `ichido demo --serve`: the demo's story without an end, and the console open on it. Orders and mails keep arriving, some orders fail, the lowest level
//! of the mails waits, one process is killed and rescued, one row belongs to nobody; so every page has something to see. Ends with Ctrl-C.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use ichido::{Client, Operate};
use ichido_sqlite::Sqlite;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
};

use super::{Ledger, ORDERS, TABLES, command, store};
use crate::{args::Demo, failure::Failure, output};

/// How often something arrives.
const TICK: Duration = Duration::from_millis(500);

/// After so long one process is killed, and later another takes its place.
const KILLED: Duration = Duration::from_secs(15);
const REPLACED: Duration = Duration::from_secs(45);

/// Processes have so much time to end.
const GRACE: Duration = Duration::from_secs(10);

const LEVELS: [&str; 3] = ["mail_vip", "mail_member", "mail_free"];

/// What its configuration has beside [`ORDERS`]. Orders without a name fail: a project needs one.
const MORE: &str = r#"
[queues.mail_vip]
[queues.mail_member]
[queues.mail_free]

[lanes.mail]
policy = "weighted"
levels = [
    { level = "vip",    queue = "mail_vip",    weight = 6, reserve = 1, target = "1s" },
    { level = "member", queue = "mail_member", weight = 3, target = "10s" },
    { level = "free",   queue = "mail_free",   weight = 1 },
]

[actions.ProjectCreation]
from        = "orders"
concurrency = 2
retry       = { attempts = 3, first = "1s", max = "2s", factor = 2 }
sql         = ["insert into project (order_id, name, made_by) values (:id, nullif(:name, ''), :process_id)"]

[actions.SendMail]
from        = "mail"
concurrency = 3
exec        = ["sleep", "0.2"]
"#;

/// A row that some program claimed long ago, which nobody knows any more: for the doctor.
const ORPHAN: &str = "insert into received_order (name, process_id) values ('claimed by nobody', 'c0ffee00-0000-4000-8000-000000000000')";

/// Runs until Ctrl-C.
pub(super) async fn run(demo: &Demo, folder: &Path) -> Result<u8, Failure> {
    let ledger = Ledger::create(&folder.join("demo.db"), TABLES).await?;
    std::fs::write(folder.join("ichido.toml"), [ORDERS, MORE].concat())?;
    let store = store(folder, &LEVELS)?;
    store.migrate().await.map_err(|error| Failure::of::<Sqlite>(&error))?;
    ledger.write(ORPHAN).await?;
    let mut fleet = Fleet::start(folder, demo)?;
    output::complain(&format!("the demo is in {}; its configuration is ichido.toml there", folder.display()));
    output::complain("some orders have no name and fail: see the page Failed, give one a name, retry it:");
    output::complain("  sqlite3 demo.db \"update received_order set name = 'mended' where name = ''\"");
    output::complain("Ctrl-C ends it");
    let mut terminate = signal(SignalKind::terminate())?;
    let ended = tokio::select! {
        ended = story(&store, &mut fleet) => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    fleet.end().await;
    ended.map(|()| 0)
}

/// What arrives, and what happens to the processes meanwhile.
async fn story(store: &Sqlite, fleet: &mut Fleet<'_>) -> Result<(), Failure> {
    let (began, client) = (Instant::now(), Client::new(store.clone()));
    let mut ticks = tokio::time::interval(TICK);
    let mut number = 0_u64;
    loop {
        ticks.tick().await;
        fleet.look(began.elapsed())?;
        number += 1;
        let name = |at: u64| if at.is_multiple_of(60) { String::new() } else { format!("project {at}") };
        let orders = (0..3).map(|at| serde_json::json!({ "name": name(number * 3 + at) }));
        send(&client, "orders", orders.collect()).await?;
        // The free level has more than its share can do, for half of every minute.
        let free = if number % 120 < 60 { 7 } else { 1 };
        for (queue, count) in LEVELS.into_iter().zip([number % 2, 1, free]) {
            let mails =
                (0..count).map(|at| serde_json::json!({ "to": format!("reader {number}-{at}"), "subject": "news" }));
            send(&client, queue, mails.collect()).await?;
        }
    }
}

async fn send(client: &Client<Sqlite>, queue: &str, messages: Vec<serde_json::Value>) -> Result<(), Failure> {
    if messages.is_empty() {
        return Ok(());
    }
    let sent = client.queue(queue).send_all_and_commit(&messages).await;
    sent.map(drop).map_err(|error| Failure::of::<Sqlite>(&error))
}

/// The processes of the demo, each like one that a user starts.
struct Fleet<'a> {
    folder: &'a Path,
    serve: Child,
    workers: Vec<Child>,
    killed: bool,
    replaced: bool,
}

impl<'a> Fleet<'a> {
    fn start(folder: &'a Path, demo: &Demo) -> Result<Self, Failure> {
        let mut serve = command(folder, &["serve", "--listen", &demo.listen.to_string()])?;
        // It prints its address, or why it does not start.
        let serve = serve.stderr(Stdio::inherit()).spawn()?;
        let paths = ["ProjectCreation/R1", "ProjectCreation/R1", "SendMail/M1"];
        let workers = paths.iter().map(|path| worker(folder, path)).collect::<Result<_, _>>()?;
        Ok(Fleet { folder, serve, workers, killed: false, replaced: false })
    }

    /// Is everybody there? One is killed in the middle, and replaced.
    fn look(&mut self, elapsed: Duration) -> Result<(), Failure> {
        if let Some(status) = self.serve.try_wait()? {
            return Err(Failure::found(format!("the console ended with {status}")));
        }
        if !self.killed && elapsed >= KILLED {
            self.killed = true;
            let pid = self.workers[0].id().unwrap_or_default();
            self.workers[0].start_kill()?;
            output::complain(&format!(
                "killed process {pid} with SIGKILL: others rescue what it had; see the page Processes"
            ));
        }
        if !self.replaced && elapsed >= REPLACED {
            self.replaced = true;
            self.workers[0] = worker(self.folder, "ProjectCreation/R1")?;
            output::complain("started another process in its place");
        }
        Ok(())
    }

    /// As an operator would: asks them to end, and waits.
    async fn end(mut self) {
        for child in self.workers.iter_mut().chain([&mut self.serve]) {
            let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
            if let Some(pid) = pid {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        for child in self.workers.iter_mut().chain([&mut self.serve]) {
            let _ = tokio::time::timeout(GRACE, child.wait()).await;
        }
    }
}

fn worker(folder: &Path, path: &str) -> Result<Child, Failure> {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("processes.log"))?;
    Ok(command(folder, &["run", path])?.stderr(log).spawn()?)
}
