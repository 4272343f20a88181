//! The log: lines on standard error, as text or JSON. The level is that of the command line, else of `ICHIDO_LOG`, else of the
//! configuration. Colours only where somebody looks, and not if `NO_COLOR` is set.

mod lines;

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, fmt::format::JsonFields};

use self::lines::Lines;
use crate::{config::Log, output};

/// Starts the log.
pub(crate) fn start(log: &Log, verbose: u8, quiet: bool) {
    output::be_quiet(quiet);
    ichido::quiet_panics();
    let wanted = match (quiet, verbose) {
        (true, _) => Some("error".to_owned()),
        (_, 0) => std::env::var("ICHIDO_LOG").ok().filter(|text| !text.is_empty()),
        (_, 1) => Some("debug,sqlx=warn".to_owned()),
        _ => Some("trace".to_owned()),
    };
    let wanted = wanted.unwrap_or_else(|| format!("{},sqlx=error", log.level.as_str()));
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new("info"));
    let colors = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(false);
    let builder = builder.fmt_fields(JsonFields::new()).event_format(Lines { format: log.format, colors });
    // Only the first log of a process counts; a second one is a test's.
    let _ = builder.try_init();
}
