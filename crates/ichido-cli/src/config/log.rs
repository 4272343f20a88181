//! The `[log]` and `[retention]` sections: what a process says, and how long ichido's own records
//! of finished work are kept.

use std::time::Duration;

use ichido::process::Retention;

use super::error::ConfigError;
use super::field::Field;
use super::section::Section;

pub(super) const KEYS: [&str; 4] = ["format", "level", "progress", "mask"];
const RETENTION_KEYS: [&str; 3] = ["audit", "inbox", "stats"];

/// What a process writes to stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Lines for people or for programs.
    pub format: LogFormat,
    /// The least important lines that are written.
    pub level: LogLevel,
    /// How often a running process reports its progress.
    pub progress: Duration,
    /// Columns and fields whose values are masked.
    pub mask: Vec<String>,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// How important a log line must be to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// And what may become one.
    Warn,
    /// And what an operator wants to know.
    Info,
    /// And what a developer wants to know.
    Debug,
    /// And everything else.
    Trace,
}

const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];
const LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

impl LogLevel {
    /// The level as it is written in the file and in log filters.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        LEVELS.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }
}

impl Log {
    pub(super) fn read(root: &Section) -> Result<Self, ConfigError> {
        let section = root.section("log", &KEYS)?;
        let progress = Duration::from_secs(10);
        Ok(Self {
            format: section.or("format", LogFormat::Text, |f| f.one_of(&FORMATS))?,
            level: section.or("level", LogLevel::Info, |f| f.one_of(&LEVELS))?,
            progress: section.or("progress", progress, |f| f.duration(Duration::from_millis(1)))?,
            mask: section.or("mask", vec![], |f| f.list(Field::filled))?,
        })
    }
}

/// How long records of finished work are kept, the `[retention]` section.
pub(super) fn retention(root: &Section) -> Result<Retention, ConfigError> {
    let section = root.section("retention", &RETENTION_KEYS)?;
    let usual = Retention::default();
    Ok(Retention {
        audit: section.or("audit", usual.audit, |f| f.duration(Duration::ZERO))?,
        inbox: section.or("inbox", usual.inbox, |f| f.duration(Duration::ZERO))?,
        stats: section.or("stats", usual.stats, |f| f.duration(Duration::ZERO))?,
    })
}
