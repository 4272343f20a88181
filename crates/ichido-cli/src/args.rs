//! The command line as clap reads it. Help texts are written for someone who has never seen ichido.

mod failed;
mod lanes;
mod messages;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use clap::{Args, Parser, Subcommand};

use ichido::message::MOST_ATTEMPTS;

pub(crate) use self::{
    failed::{Failed, Many, Which},
    lanes::{Lanes, Simulate},
    messages::{Cancel, List, Messages, Reschedule},
};
use crate::features;

/// Exactly-once work from your database tables.
#[derive(Debug, Parser)]
#[command(name = "ichido", version = version(), after_help = AFTER, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The configuration file
    #[arg(long, global = true, env = "ICHIDO_CONFIG", default_value = "ichido.toml", value_name = "FILE")]
    pub(crate) config: PathBuf,
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help = "The database, instead of the one in the configuration [env: ICHIDO_DATABASE_URL]"
    )]
    pub(crate) database_url: Option<String>,
    /// Log more; give it twice to log everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Print only errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The version of the program and of the tables it knows, and what it was built with.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let (version, built) = (env!("CARGO_PKG_VERSION"), features::built().join(", "));
        format!("{version} (schema {}) with {built}", features::SCHEMA)
    });
    &VERSION
}

const AFTER: &str = "\
First steps:
  ichido demo                      watch it work on a throwaway database
  ichido init                      write an ichido.toml with every key and its default
  ichido adopt --table T           make one of your tables a queue: see what is missing
  ichido migrate                   create ichido's tables in the database of ichido.toml
  ichido check                     validate the configuration and the database
  ichido run ACTION/REQUEST_ID     process messages until you press Ctrl-C

Exit codes:
  0        success
  1        completed, problems found
  13       unknown action
  14       another process already serves the request id, or another doctor runs
  20       database or broker unreachable, or internal error
  127      invalid command line or configuration
  180      database still unreachable after retries
  100-199  an action ended the process";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch it work on a throwaway database: send orders, run three processes, kill one, count
    Demo(Demo),
    /// Write a configuration file with every key, its default and an explanation
    Init(Init),
    /// Create or upgrade ichido's own tables; safe at any time, even from several hosts at once
    Migrate(Migrate),
    /// Inspect one of your tables and show what is missing to make it a queue; changes nothing without --apply
    Adopt(Adopt),
    /// Validate the configuration, the database, the brokers and the handler queue; changes nothing
    Check(Check),
    /// Process messages of one action, or of all actions
    Run(Run),
    /// Send one message, or one per line of a file
    Send(Send),
    /// Serve the web console, the HTTP API and the metrics of all processes, until Ctrl-C
    Serve(Serve),
    /// Publish messages that were sent to broker queues, until Ctrl-C; `ichido run` does this too
    Relay,
    /// Show queues, processes, waiting and running times, and tuning advice
    Status(Status),
    /// Stop all processes of a request id and block new ones until `unstop`
    Stop(RequestId),
    /// Allow processes of a request id to start again
    Unstop(RequestId),
    /// Pause all processes of a request id until `resume`
    Pause(RequestId),
    /// Resume the paused processes of a request id
    Resume(RequestId),
    /// Check that a live process serves a request id; exits with 0 if so, otherwise with 1
    Health(Health),
    /// List messages, show one, change when it runs, or cancel it
    #[command(subcommand)]
    Messages(Messages),
    /// Inspect, retry or discard failed messages
    #[command(subcommand)]
    Failed(Failed),
    /// List what was changed by hand, by whom and why, the newest first
    Audit(Audit),
    /// Find stuck messages in brokers and tables and say what to do; changes nothing without --fix
    Doctor(Doctor),
    /// Work with lane sets, which prioritize messages by service level
    #[command(subcommand)]
    Lanes(Lanes),
    /// Print a shell completion script
    Completions(Completions),
    /// Print the manual page, or write one page per command
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Number of orders
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) orders: u64,
    /// Print the result as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the database and its configuration in this folder, which must not exist yet
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
    /// Go on without an end, with lanes and failures, and serve the console on it until Ctrl-C
    #[arg(long, conflicts_with_all = ["json", "orders"])]
    pub(crate) serve: bool,
    /// Where the console listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070", requires = "serve")]
    pub(crate) listen: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write ichido.1, ichido-run.1 and so on to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Only print the statements; do not run them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Maximum total time to wait for tables locked by other transactions
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = crate::config::parse_duration)]
    pub(crate) wait: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Adopt {
    /// The table, or schema.table; put a part that contains a dot in double quotes
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: String,
    /// Name of the queue [default: the table's name in lower case]
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// The status column [default: guessed]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) status: Option<String>,
    /// The owner column, which says which process has claimed a row [default: found or added]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) owner: Option<String>,
    /// Status of unprocessed rows [default: guessed]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) new: Option<String>,
    /// Status of rows that are done [default: guessed]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) done: Option<String>,
    /// Status of failed rows [default: guessed, or none]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) failed: Option<String>,
    /// Add what is missing to the table, and the queue to the configuration
    #[arg(long)]
    pub(crate) apply: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print the SQL statements of each queue
    #[arg(long)]
    pub(crate) sql: bool,
    /// Exit with 1 after a warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The action to run, with an optional request id [default: all configured actions]
    #[arg(value_name = "ACTION[/REQUEST_ID]")]
    pub(crate) path: Option<String>,
    /// Same as the argument
    #[arg(long, value_name = "ACTION/REQUEST_ID", conflicts_with = "path")]
    pub(crate) request_path: Option<String>,
    /// The user on whose behalf to run, for the log and for actions
    #[arg(long, value_name = "USER")]
    pub(crate) user_id: Option<String>,
    /// Serve only this level of the lane set
    #[arg(long, value_name = "LEVEL")]
    pub(crate) level: Option<String>,
    /// Exit when no message is unprocessed and none waits for a retry
    #[arg(long)]
    pub(crate) drain: bool,
    /// Exit after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_messages: Option<u64>,
    /// Answer this process's own probes here, like 127.0.0.1:8081: /livez (its loops move) and /readyz (it claims)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) health: Option<SocketAddr>,
    /// Arguments for handlers and Rust actions: `-- --name value …`
    #[arg(last = true, value_name = "--name value")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The queue or the lane set
    #[arg(value_name = "QUEUE_OR_LANES")]
    pub(crate) queue: String,
    /// The message; for a table queue, an object whose fields are columns
    #[arg(value_name = "JSON", required_unless_present_any = ["file", "sql"], conflicts_with = "file")]
    pub(crate) message: Option<String>,
    /// Send one message per line of this file, all or none; - reads stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Level of the lane set [default: determined by `level_by` in the configuration]
    #[arg(long)]
    pub(crate) level: Option<String>,
    /// Do not run it before this much time has passed, like 90s, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = crate::config::parse_duration, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// Do not run it before this time, like 2026-12-24T18:00:00+01:00 or 2026-12-24T17:00:00Z
    #[arg(long, value_name = "TIME", value_parser = crate::config::parse_time)]
    pub(crate) at: Option<SystemTime>,
    /// Send nothing while another message with this key is neither done nor failed, and print its id instead; managed queues only
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    pub(crate) unique: Option<String>,
    /// Group whose messages run one at a time and in order; managed queues and FIFO queues of SQS only (for a table queue, configure `group_by`)
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Text beside the payload; not for table queues. Repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Number of attempts, in place of the action's `retry`; not for table queues
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_ATTEMPTS)))]
    pub(crate) attempts: Option<u32>,
    /// Send nothing; print the SQL statements with which a program sends to the queue in its own transaction
    #[arg(long, conflicts_with_all = ["file", "delay", "at", "unique", "group", "header", "attempts"])]
    pub(crate) sql: bool,
    /// Print them as JSON
    #[arg(long, requires = "sql")]
    pub(crate) json: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen [default: `serve.listen` in the configuration, or 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Refresh every two seconds; on a terminal as a screen of its own (s, p: sort; q or Ctrl-C: quit)
    #[arg(long)]
    pub(crate) watch: bool,
    /// Exit with 1 if one of these conditions holds for a queue, like failed>0,oldest>5m,backlog>1000; also claimed, waiting,
    /// unpublished, and processes<2 for all live processes together
    #[arg(long, value_name = "CONDITIONS", value_delimiter = ',', conflicts_with = "watch")]
    pub(crate) fail_if: Vec<crate::commands::Limit>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Repair: retry, publish, delete dead letters of done messages, release rows; rechecks each one first
    #[arg(long)]
    pub(crate) fix: bool,
    #[command(flatten)]
    pub(crate) why: Why,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RequestId {
    /// The request id: what follows the / in `ichido run`, otherwise the action's name
    pub(crate) request_id: String,
    #[command(flatten)]
    pub(crate) why: Why,
}

/// Why something is changed.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Why, for `ichido audit`
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only messages of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Maximum number of entries
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// The request id: what follows the / in `ichido run`, otherwise the action's name
    pub(crate) request_id: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
