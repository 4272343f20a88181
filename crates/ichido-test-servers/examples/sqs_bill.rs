//! What does a message cost at SQS? Sends messages to one queue, and to the two levels of a lane set, runs them with 32 workers and as
//! much read-ahead, and prints how often each action of the API was called. For `bench/sqs.sh`, which builds the binary that it runs.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use ichido_test_servers::injector::Injector;
use ichido_test_servers::{Postgres, SQS_REGION, Sqs};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What one queue may cost.
const GOAL: f64 = 0.4;

struct Bench {
    binary: PathBuf,
    folder: tempfile::TempDir,
    injector: Injector,
    database: String,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let binary = PathBuf::from(arguments.next().ok_or("which binary?")?).canonicalize()?;
    let messages: u32 = arguments.next().map_or(Ok(5000), |text| text.parse())?;
    let (sqs, postgres) = (Sqs::start(), Postgres::start(&[("fsync", "on")]));
    println!("{messages} messages, 32 workers, read-ahead 32, PostgreSQL, LocalStack");
    let bench = |name| -> Result<Bench> {
        let injector = Injector::start(sqs.address(), 1);
        let (folder, database) = (tempfile::tempdir()?, postgres.fresh_database());
        let bench = Bench { binary: binary.clone(), folder, injector, database };
        bench.configure(name)?;
        Ok(bench)
    };
    let one = bench("one")?;
    one.send("orders", messages)?;
    let cost = one.run("one queue", messages)?;
    let lanes = bench("lanes")?;
    let members = messages * 4 / 5;
    lanes.send("orders", members)?;
    lanes.send("others", messages - members)?;
    lanes.run("two levels, weighted 4:1", messages)?;
    let verdict = if cost <= GOAL { "held" } else { "MISSED" };
    println!("one queue: {cost:.3} calls per message, the goal of {GOAL} is {verdict}");
    Ok(())
}

impl Bench {
    fn configure(&self, name: &str) -> Result<()> {
        let (endpoint, database) = (self.injector.endpoint(), &self.database);
        let queue = |kind: &str| {
            format!(r#"sqs = {{ queue = "{name}-{kind}", endpoint = "{endpoint}", region = "{SQS_REGION}" }}"#)
        };
        let from = if name == "one" { "orders" } else { "site" };
        let config = format!(
            r#"
[database]
url = "{database}"
[process]
read_ahead = 32
[queues.orders]
{}
[queues.others]
{}
[lanes.site]
policy = "weighted"
levels = [{{ level = "member", queue = "orders", weight = 4 }}, {{ level = "free", queue = "others" }}]
[actions.Serve]
from        = "{from}"
concurrency = 32
sql         = ["insert into served (id) values (:id)"]
"#,
            queue("orders"),
            queue("others")
        );
        fs::write(self.folder.path().join("ichido.toml"), config)?;
        self.ichido(&["migrate"], "")?;
        psql(database, "create table served (id integer primary key)").map(drop)
    }

    fn send(&self, queue: &str, messages: u32) -> Result<()> {
        let first = if queue == "orders" { 0 } else { 1_000_000 };
        let lines: Vec<_> = (first..first + messages).map(|id| format!(r#"{{"id":{id}}}"#)).collect();
        self.ichido(&["send", queue, "--file", "-"], &lines.join("\n"))
    }

    /// Runs everything, and returns how many calls a message took, its send included.
    fn run(&self, what: &str, messages: u32) -> Result<f64> {
        let since = Instant::now();
        self.ichido(&["run", "Serve/Bench", "--drain", "-q"], "")?;
        let took = since.elapsed().as_secs_f64();
        let served = psql(&self.database, "select count(*) from served")?;
        if served != messages.to_string() {
            return Err(format!("{what}: {served} of {messages} messages were served").into());
        }
        let calls = self.injector.calls();
        println!("\n{what}: {:.0} messages per second", f64::from(messages) / took);
        let mut total = 0;
        for (action, count) in &calls {
            total += count;
            println!("  {action:<32} {count:>6}  {:.3} per message", per(*count, messages));
        }
        println!("  {:<32} {total:>6}  {:.3} per message", "all", per(total, messages));
        Ok(per(total, messages))
    }

    fn ichido(&self, arguments: &[&str], input: &str) -> Result<()> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut running = command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test").spawn()?;
        running.stdin.take().ok_or("no input")?.write_all(input.as_bytes())?;
        let ended = running.wait()?;
        if ended.success() { Ok(()) } else { Err(format!("ichido {arguments:?}: {ended}").into()) }
    }
}

fn per(count: u64, messages: u32) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / f64::from(messages)
}

/// What a statement tells, as text.
fn psql(database: &str, statement: &str) -> Result<String> {
    let mut psql = Command::new("psql");
    psql.args([database, "--quiet", "--tuples-only", "--no-align", "--command", statement]);
    let ended = psql.stderr(Stdio::inherit()).output()?;
    if !ended.status.success() {
        return Err(format!("psql: {}", ended.status).into());
    }
    Ok(String::from_utf8(ended.stdout)?.trim().to_owned())
}
