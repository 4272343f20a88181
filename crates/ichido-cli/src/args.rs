//! The command line as clap reads it. Help texts are written for someone who has never seen ichido.

use std::{
    path::PathBuf,
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use clap::{Args, Parser, Subcommand};

use crate::features;

/// Exactly-once work from your database tables.
#[derive(Debug, Parser)]
#[command(name = "ichido", version = version(), after_help = AFTER, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The configuration file
    #[arg(long, global = true, env = "ICHIDO_CONFIG", default_value = "ichido.toml", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The database, in place of the one in the configuration [env: `ICHIDO_DATABASE_URL`]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// Say more; twice for every detail
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Only say what went wrong
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
  ichido demo                      see it work on a database of its own
  ichido init                      write an ichido.toml with every key and its default
  ichido adopt --table T           what does a table of yours lack to be a queue?
  ichido migrate                   create ichido's tables in the database of ichido.toml
  ichido check                     is everything in place?
  ichido run ACTION/REQUEST_ID     process messages until you press Ctrl-C

Exit codes: 0 fine; 1 ran and found something; 13 unknown action; 14 another process serves the request id; 20 server not reachable or internal error;
127 bad command line or configuration; 180 the database stayed away; 100-199 an action ended the process.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See the whole story on a database of its own: send, run three processes, kill one, count
    Demo(Demo),
    /// Write a configuration in which every key is explained and has its default
    Init(Init),
    /// Create or upgrade ichido's own tables; safe to run at any time and from several hosts at once
    Migrate(Migrate),
    /// Look at a table of yours, say what it lacks to be a queue; only --apply changes anything
    Adopt(Adopt),
    /// Check the configuration, the database and the handler queue; change nothing
    Check(Check),
    /// Process messages: one action, or all of them
    Run(Run),
    /// Send one message, or one per line of a file
    Send(Send),
    /// Publish what was sent to queues of a broker, until Ctrl-C; every running process does so too
    Relay,
    /// Show queues and processes, how long messages wait and run, and what to tune
    Status(Status),
    /// Let every process of a request id end, and none start, until `unstop`
    Stop(RequestId),
    /// Let processes of a request id start again
    Unstop(RequestId),
    /// Let every process of a request id idle, until `resume`
    Pause(RequestId),
    /// Let processes of a request id go on
    Resume(RequestId),
    /// Does a live process serve a request id? 0 if so, else 1
    Health(Health),
    /// Look at and repair messages that have failed
    #[command(subcommand)]
    Failed(Failed),
    /// Find messages that are stuck, at brokers and in tables, and say what to do; only --fix changes anything
    Doctor(Doctor),
    /// Priority by service level
    #[command(subcommand)]
    Lanes(Lanes),
    /// Print the completions of a shell
    Completions(Completions),
    /// Print the manual page, or write one for each command
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How many orders
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) orders: u64,
    /// Print the result as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the database for a look, in this folder (it must not exist yet)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Write over a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Whose
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write ichido.1, ichido-run.1 and so on into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Only print what would be run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long to wait, in total, for tables that other transactions have locked
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = crate::config::parse_duration)]
    pub(crate) wait: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Adopt {
    /// The table, or schema.table; a part with a dot in double quotes
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: String,
    /// The queue's name; else the table's, in small letters
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// The column that says what has become of a row; else it is guessed
    #[arg(long, value_name = "COLUMN")]
    pub(crate) status: Option<String>,
    /// The column that says which process has a row; else one is found or added
    #[arg(long, value_name = "COLUMN")]
    pub(crate) owner: Option<String>,
    /// The status of rows that are not processed; else it is guessed
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) new: Option<String>,
    /// The status of rows that are done; else it is guessed
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) done: Option<String>,
    /// The status of rows that have failed; else it is guessed, or there is none
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) failed: Option<String>,
    /// Add to the table what it lacks, and the queue to the configuration
    #[arg(long)]
    pub(crate) apply: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print the statements that are run for each queue
    #[arg(long)]
    pub(crate) sql: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to run, ACTION or `ACTION/REQUEST_ID`; nothing: all actions of the configuration
    #[arg(value_name = "ACTION[/REQUEST_ID]")]
    pub(crate) path: Option<String>,
    /// The same as the argument
    #[arg(long, value_name = "ACTION/REQUEST_ID", conflicts_with = "path")]
    pub(crate) request_path: Option<String>,
    /// On whose behalf, for the log and for actions
    #[arg(long, value_name = "USER")]
    pub(crate) user_id: Option<String>,
    /// Serve this level of the lane set only
    #[arg(long, value_name = "LEVEL")]
    pub(crate) level: Option<String>,
    /// End when no message is unprocessed and none waits for a retry
    #[arg(long)]
    pub(crate) drain: bool,
    /// End when so many messages have been run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_messages: Option<u64>,
    /// For handlers and Rust actions: `-- --name value …`
    #[arg(last = true, value_name = "--name value")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The queue or the lane set
    #[arg(value_name = "QUEUE_OR_LANES")]
    pub(crate) queue: String,
    /// The message; for a table queue an object whose fields are columns
    #[arg(value_name = "JSON", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) message: Option<String>,
    /// One message per line, all or none; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The level of the lane set; else `level_by` of the configuration says it
    #[arg(long)]
    pub(crate) level: Option<String>,
    /// Run it only after this time, like 90s, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = crate::config::parse_duration, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// Run it only from this time on, like 2026-12-24T18:00:00+01:00 or 2026-12-24T17:00:00Z
    #[arg(long, value_name = "TIME", value_parser = crate::config::parse_time)]
    pub(crate) at: Option<SystemTime>,
    /// Send nothing while a message with this key is neither done nor failed, and print its id; managed queues only
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    pub(crate) unique: Option<String>,
    /// Messages of a group run one at a time and in order; managed queues only: a table queue has `group_by`
    #[arg(long)]
    pub(crate) group: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Look again every two seconds, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Do it: retry, publish, delete dead letters of what is done, give rows back; each looked at again at that moment
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print JSON, an object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RequestId {
    /// The request id: what follows the / in `ichido run`, or the action's name
    pub(crate) request_id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// The request id: what follows the / in `ichido run`, or the action's name
    pub(crate) request_id: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which messages.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Of this queue only
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only those whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Only those that were put aside at least so long ago, like 90s, 2h or 7d
    #[arg(long, value_name = "AGE", value_parser = crate::config::parse_duration)]
    pub(crate) older: Option<Duration>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Many {
    /// Their ids, like orders/42
    #[arg(required_unless_present_any = ["queue", "error", "older", "all"])]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// All that have failed, up to the limit
    #[arg(long)]
    pub(crate) all: bool,
    /// Only print what would be changed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Failed {
    /// List messages that have failed for good, after a summary of their errors
    List {
        #[command(flatten)]
        which: Which,
        /// Also messages that wait for a retry
        #[arg(long)]
        waiting: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one message with its errors
    Show {
        /// Its id, like orders/42
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put messages back into circulation, as attempt one
    Retry(Many),
    /// Give messages up for good; a note is kept in `ichido_audit`
    Discard(Many),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lanes {
    /// Predict how long messages of each level wait, by playing the lane set against messages drawn by lot; no database needed
    Simulate(Simulate),
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The lane set; nothing: the only one of the configuration
    pub(crate) lanes: Option<String>,
    /// How many messages arrive: LEVEL=50/s, also /m, /h and /d; without LEVEL= at every level. May be given several times
    #[arg(long, value_name = "[LEVEL=]RATE")]
    pub(crate) rate: Vec<String>,
    /// How long a message takes: LEVEL=40ms; without LEVEL= at every level. May be given several times
    #[arg(long, value_name = "[LEVEL=]TIME", required = true)]
    pub(crate) service: Vec<String>,
    /// How many messages wait at the beginning: LEVEL=1000. May be given several times
    #[arg(long, value_name = "[LEVEL=]NUMBER")]
    pub(crate) backlog: Vec<String>,
    /// Every message takes exactly that long; else it differs a lot (exponential)
    #[arg(long)]
    pub(crate) fixed: bool,
    /// The workers; else those of the action that works on the lane set
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// Another policy than that of the configuration, for a comparison
    #[arg(long, value_parser = ["dedicated", "strict", "weighted"])]
    pub(crate) policy: Option<String>,
    /// How long it is watched
    #[arg(long, default_value = "10m", value_parser = crate::config::parse_duration)]
    pub(crate) duration: Duration,
    /// Other messages for another seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write a plot of the waiting times to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
