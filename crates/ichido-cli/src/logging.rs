//! The log: lines on standard error, as text or JSON. The level is that of the command line, else of `ICHIDO_LOG`, else of the
//! configuration. Colours only where somebody looks, and not if `NO_COLOR` is set.

mod lines;

use std::io::{IsTerminal, stderr};

use ichido::trace::TARGET as TRACES;
use tracing_subscriber::{
    Layer, filter::Targets, fmt::format::JsonFields, layer::SubscriberExt, util::SubscriberInitExt,
};

use self::lines::Lines;
use crate::{
    config::{Log, Telemetry},
    failure::Failure,
    output, telemetry,
};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts the log.
///
/// # Errors
/// If `ICHIDO_LOG` is not what a log can be told, or `telemetry.otlp` is not a collector's address.
pub(crate) fn start(log: &Log, traces: &Telemetry, verbose: u8, quiet: bool) -> Result<(), Failure> {
    output::be_quiet(quiet);
    ichido::process::quiet_panics();
    let wanted = match (quiet, verbose) {
        (true, _) => Some("error".to_owned()),
        (_, 0) => std::env::var("ICHIDO_LOG").ok().filter(|text| !text.is_empty()),
        (_, 1) => Some("debug,sqlx=warn".to_owned()),
        _ => Some("trace".to_owned()),
    };
    let wanted = wanted.unwrap_or_else(|| format!("{},sqlx=error", log.level.as_str()));
    let traces = telemetry::layer(traces)?;
    let has_collector = traces.is_some();
    let filter = filter(&targets(&wanted, has_collector));
    let filter = filter.map_err(|why| Failure::usage(format!("ICHIDO_LOG: {why}")))?;
    let colors = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let layer = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(false);
    let layer = layer.fmt_fields(JsonFields::new()).event_format(Lines { format: log.format, colors });
    // Only the first log of a process counts; a second one is a test's.
    let subscriber = tracing_subscriber::registry().with(traces);
    let _ = if has_collector {
        subscriber.with(layer.with_filter(filter)).try_init()
    } else {
        subscriber.with(layer).with(filter).try_init()
    };
    Ok(())
}

/// What is logged, and which spans are made. Spans for traces are no part of a line, but the log must know them where they are made: in a task
/// that runs in one of them it would not find the span of the message around it.
fn targets(wanted: &str, traced: bool) -> String {
    format!("{},{TRACES}={}", without_secrets(wanted), if traced { "info" } else { "off" })
}

/// The broker's driver tells URLs, with their passwords, and whole frames where it tells everything. Otherwise it is silent, unless somebody asks
/// for it: what happens at the broker ichido tells in its own words.
fn without_secrets(wanted: &str) -> String {
    let lower = wanted.to_ascii_lowercase();
    let driver = if lower.contains("trace") {
        ",lapin=debug"
    } else if lower.contains("lapin") {
        ""
    } else {
        ",lapin=off"
    };
    format!("{wanted}{driver},amq_protocol_tcp=off")
}

/// A word that is no level would be the name of a target, and everything else would be silent. Spans cannot be chosen.
fn filter(text: &str) -> Result<Targets, String> {
    let word = text.split(',').map(str::trim).find(|part| {
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part));
        !part.is_empty() && (part.contains('[') || !part.contains('=') && !is_level)
    });
    if let Some(word) = word {
        let hint = ichido::handlers::suggestion(word, LEVELS);
        return Err(format!("`{word}` is neither a log level ({}) nor a target=level pair{hint}", LEVELS.join(", ")));
    }
    let parts = text.split(',').map(|part| part.replace(char::is_whitespace, "")).filter(|part| !part.is_empty());
    let targets = parts.collect::<Vec<_>>().join(",");
    targets.parse().map_err(|why| format!("cannot parse \"{text}\": {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_driver_is_silent_about_passwords() {
        for ours in ["info", "error", "debug,sqlx=warn"] {
            assert_eq!(without_secrets(ours), format!("{ours},lapin=off,amq_protocol_tcp=off"));
        }
        assert_eq!(without_secrets("info,lapin=warn"), "info,lapin=warn,amq_protocol_tcp=off");
        for all in ["trace", "TRACE", "lapin=trace,amq_protocol_tcp=trace"] {
            let told = without_secrets(all);
            assert!(told.ends_with(",lapin=debug,amq_protocol_tcp=off") && filter(&told).is_ok(), "{told}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_with_what_was_meant() {
        for good in ["info", "WARN", "debug,sqlx=warn", "ichido::monitor=info", "off", "info,", "warn, ichido=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        assert!(filter("wran").unwrap_err().contains("`warn`"));
        for bad in ["ichido", "info,sqlx", "sqlx=loud", "3,x", "ichido[span]=info"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
