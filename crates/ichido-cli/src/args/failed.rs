//! `ichido failed` as clap reads it.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::Why;

/// Which messages.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Only messages of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only messages whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Only messages that were parked at least this long ago, like 90s, 2h or 7d
    #[arg(long, value_name = "AGE", value_parser = crate::config::parse_duration)]
    pub(crate) older: Option<Duration>,
    /// Maximum number of messages; the oldest failures come first [list: 100, others: all]
    #[arg(long)]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Many {
    /// Message ids, like orders/42
    #[arg(required_unless_present_any = ["queue", "error", "older", "all"])]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// All failed messages of the configured queues
    #[arg(long)]
    pub(crate) all: bool,
    /// Maximum number of messages per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Only print what would be changed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) why: Why,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Failed {
    /// List messages that failed for good, after a summary of their errors
    List {
        #[command(flatten)]
        which: Which,
        /// Include messages that wait for a retry or a delay
        #[arg(long)]
        waiting: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one message with its errors
    Show {
        /// The message id, like orders/42
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run messages again, starting at attempt one
    Retry(Many),
    /// Give up on messages for good; a record is kept in `ichido_audit`
    Discard(Many),
}
