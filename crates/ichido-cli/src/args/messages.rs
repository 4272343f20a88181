//! `ichido messages` as clap reads it.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use ichido::{inspect::Cursor, store::Cancellable};

use super::Why;

#[derive(Debug, Subcommand)]
pub(crate) enum Messages {
    /// List messages by state, page by page
    List(List),
    /// Show one message: its state, who has it, its errors and its payload
    Show {
        /// The message id, like orders/42
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a message that waits at another time, or let one that is ready wait; attempts are kept
    Reschedule(Reschedule),
    /// Run messages that wait now, without waiting for their due time
    RunNow {
        /// Message ids, like orders/42
        #[arg(required = true)]
        ids: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        why: Why,
    },
    /// Cancel messages for good, also while they run: what they have written is rolled back. What is done stays done
    Cancel(Cancel),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only messages of this queue [default: all queues, one after the other]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only messages in this state [default: all four, one after the other]
    #[arg(long, value_parser = ["ready", "claimed", "waiting", "failed"])]
    pub(crate) state: Option<String>,
    /// Maximum number of messages
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Go on where the last page ended; with the same queue and state
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<Cursor>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Reschedule {
    /// The message id, like orders/42
    pub(crate) id: String,
    /// Run it after this time, like 90s, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = crate::config::parse_duration, required_unless_present = "at", conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// Run it at this time, like 2026-12-24T17:00:00Z
    #[arg(long, value_name = "TIME", value_parser = crate::config::parse_time)]
    pub(crate) at: Option<SystemTime>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) why: Why,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Message ids, like orders/42
    #[arg(required_unless_present = "queue", conflicts_with = "queue")]
    pub(crate) ids: Vec<String>,
    /// All messages of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only messages in this state; repeatable
    #[arg(long, value_name = "STATE", requires = "queue", conflicts_with = "ids", value_delimiter = ',', value_parser = ["ready", "claimed", "waiting", "failed"])]
    pub(crate) state: Vec<String>,
    /// How long to wait for messages that run and whose rows are locked
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::config::parse_duration)]
    pub(crate) wait: Duration,
    /// Only print what would be cancelled
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) why: Why,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Cancel {
    /// The states that are meant.
    pub(crate) fn states(&self) -> Vec<Cancellable> {
        let names = ["ready", "claimed", "waiting", "failed"];
        let states = names.into_iter().zip(Cancellable::ALL);
        let meant = |name: &str| self.state.is_empty() || self.state.iter().any(|state| state == name);
        states.filter(|(name, _)| meant(name)).map(|(_, state)| state).collect()
    }
}
