//! The configuration file, `ichido.toml`: read, completed with its defaults and checked. The
//! command line loads it once at the start and builds everything from it; nothing here talks to a
//! database.
//!
//! A file passes four steps: `document` parses TOML and replaces variables, each section reads and
//! checks its own keys through `section` and `field`, names are followed from section to section,
//! and `built` refuses what this version does not build yet.

mod action;
mod action_kind;
mod broker;
mod brokers;
mod built;
mod database;
mod dispatch;
mod document;
mod draft;
mod error;
mod field;
mod file;
mod handlers;
mod lanes;
mod level;
mod lines;
mod log;
mod names;
mod process;
mod queue;
mod section;
mod serve;
mod spelling;
mod table;
mod telemetry;
mod template;
mod units;
mod url;
mod variables;

#[cfg(test)]
mod tests;

pub use action::Action;
pub use action_kind::{ActionKind, ExecAction, HttpAction};
pub use broker::{MutexRules, RabbitMq, RabbitMqType, Sqs, TlsFiles};
pub use database::Database;
pub use draft::Draft;
pub use error::ConfigError;
pub use file::Config;
pub use lanes::LaneSet;
pub use level::Tuning;
pub use lines::{action_lines, database_lines, queue_lines};
pub use log::{Log, LogFormat, LogLevel};
pub use names::TableName;
pub use process::Process;
pub use queue::{Queue, QueueKind};
pub use serve::{Serve, ServeRole, ServeToken};
pub use telemetry::Telemetry;
pub use template::{TEMPLATE, with_url};
pub use units::{parse_duration, parse_time};
pub use url::{Url, masked};
