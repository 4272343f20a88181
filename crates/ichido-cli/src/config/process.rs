//! The `[process]` section: leases, intervals and the retry handler of a running process. The
//! runtime of the command line is built from it.

use std::time::Duration;

use ichido::{
    handlers::{Entry, Limit, Retry},
    process::MOST_READ_AHEAD,
};

use super::error::ConfigError;
use super::field::Field;
use super::handlers;
use super::section::Section;
use super::units::spelled;

pub(super) const KEYS: [&str; 12] = [
    "lease",
    "poll",
    "grace",
    "check",
    "check_every",
    "read_ahead",
    "notify",
    "retry",
    "handlers",
    "single",
    "exempt",
    "exit_duplicate",
];
pub(super) const RETRY_KEYS: [&str; 5] = ["count", "time", "interval", "window", "exit"];

const SHORTEST: Duration = Duration::from_millis(1);

/// How a process behaves, whatever its actions are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// How long a claim lives without a heartbeat.
    pub lease: Duration,
    /// How often an empty queue is looked at.
    pub poll: Duration,
    /// What running messages get when the process is asked to stop.
    pub grace: Duration,
    /// How often the flags in the database are looked at.
    pub check: Duration,
    /// After how many messages the flags are looked at.
    pub check_every: u32,
    /// Messages claimed ahead, when it is written; `Config::read_ahead` knows the default.
    pub read_ahead: Option<usize>,
    /// Whether sending wakes other processes through the database.
    pub notify: bool,
    /// The retry handler's rule, for faults of the whole process.
    pub retry: Retry,
    /// The handler queue, when it is not the standard one.
    pub handlers: Option<Vec<Entry>>,
    /// Whether only one process per request id may live.
    pub single: bool,
    /// Request ids that `single` does not concern.
    pub exempt: Vec<String>,
    /// The exit code of a process that `single` refuses.
    pub exit_duplicate: u8,
}

impl Process {
    pub(super) fn read(root: &Section) -> Result<Self, ConfigError> {
        let section = root.section("process", &KEYS)?;
        let seconds = Duration::from_secs;
        Ok(Self {
            lease: section.or("lease", seconds(30), |f| f.duration(seconds(1)))?,
            poll: section.or("poll", seconds(1), |f| f.duration(Duration::from_millis(10)))?,
            grace: section.or("grace", seconds(25), |f| f.duration(Duration::ZERO))?,
            check: section.or("check", seconds(1), |f| f.duration(SHORTEST))?,
            check_every: section.or("check_every", 1, |f| f.whole(1..=1_000_000))?,
            read_ahead: section.optional("read_ahead", |f| f.whole(0..=MOST_READ_AHEAD))?,
            notify: section.or("notify", true, Field::flag)?,
            retry: retry(&section)?,
            handlers: section.optional("handlers", handlers::read)?,
            single: section.or("single", false, Field::flag)?,
            exempt: section.or("exempt", vec![], |f| f.list(Field::filled))?,
            exit_duplicate: section.or("exit_duplicate", 14, |f| f.whole(1..=199))?,
        })
    }
}

fn retry(process: &Section) -> Result<Retry, ConfigError> {
    let section = process.section("retry", &RETRY_KEYS)?;
    let usual = Retry::default();
    let retry = Retry {
        limit: limit(&section, usual.limit)?,
        interval: section.or("interval", usual.interval, |f| f.duration(SHORTEST))?,
        window: section.or("window", usual.window, |f| f.duration(SHORTEST))?,
        exit: section.or("exit", usual.exit, |f| f.whole(100..=199))?,
    };
    let (longest, what) = match retry.limit {
        Limit::Count(count) => (retry.interval.saturating_mul(count), "count × interval"),
        Limit::Time(time) => (time, "time"),
    };
    if retry.window > longest {
        return Ok(retry);
    }
    // Otherwise every retry falls out of the window and the handler never gives up.
    let (window, longest) = (spelled(retry.window), spelled(longest));
    let text = format!("\"{window}\" is too short; it must be longer than {what} (\"{longest}\")");
    Err(section.invalid("window", text))
}

fn limit(section: &Section, usual: Limit) -> Result<Limit, ConfigError> {
    let count = section.optional("count", |f| f.whole(0..=1_000_000))?;
    let time = section.optional("time", |f| f.duration(SHORTEST))?;
    match (count, time) {
        (Some(_), Some(_)) => Err(section.invalid("time", "write either `count` or `time`, not both")),
        (None, Some(time)) => Ok(Limit::Time(time)),
        (Some(count), None) => Ok(Limit::Count(count)),
        (None, None) => Ok(usual),
    }
}
