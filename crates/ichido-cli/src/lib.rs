//! The command line of ichido: one file per command in `commands/`, each thin. `config/` reads `ichido.toml`, `open` turns it
//! into a store, `program` into a process; `output` is the only place that prints results. [`Program`] is the same command line with
//! Rust actions and handlers of the user's own.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(
        dead_code,
        unused_variables,
        clippy::unused_async,
        reason = "without a database, no command has a store to work on"
    )
)]

mod actions;
mod args;
mod brokers;
mod commands;
pub mod config;
mod failure;
mod features;
mod in_force;
mod lanes;
mod logging;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "no_metrics.rs"]
mod metrics;
mod open;
mod output;
mod own;
mod probes;
mod program;
mod reaper;
mod screen;
#[cfg(feature = "telemetry")]
mod telemetry;
#[cfg(not(feature = "telemetry"))]
#[path = "no_telemetry.rs"]
mod telemetry;
mod terminal;
mod threads;
#[cfg(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"))]
mod tls;
#[cfg(not(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc")))]
#[path = "no_tls.rs"]
mod tls;
mod warnings;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{
    args::{Cli, Command},
    failure::USAGE,
    own::Parts,
};
pub use crate::{open::Backend, own::Program};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/actions.md")]
#[doc = include_str!("../../../docs/sending.md")]
#[doc = include_str!("../../../docs/embedding.md")]
struct Readme;

/// Runs the command line and returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    start(&args.into_iter().collect::<Vec<_>>(), Parts::none()).into()
}

/// Not generic, so that everything is compiled here, once, and not again in each program that calls it.
fn start(args: &[OsString], parts: Parts) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; everything else is a bad command line.
            let code = if error.use_stderr() { USAGE } else { 0 };
            let _ = error.print();
            return code;
        }
    };
    if matches!(cli.command, Command::Run(_)) && reaper::is_needed() {
        match reaper::run(args) {
            Ok(code) => return code,
            Err(why) => output::complain(&format!(
                "ichido: cannot start a process of its own: {why}; what programs leave behind is not reaped"
            )),
        }
    }
    let config = match commands::configuration(&cli) {
        Ok(config) => config,
        Err(failure) => return failure.report(),
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let (Command::Run(run), Some(config)) = (&cli.command, &config)
        && let Some(threads) = threads::of(run, config)
    {
        runtime.worker_threads(threads);
    }
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&format!("ichido: cannot start the async runtime: {error}"));
            return failure::FOUND;
        }
    };
    let code = runtime.block_on(commands::run(cli, config, parts)).unwrap_or_else(failure::Failure::report);
    telemetry::end();
    // A thread that waits for a lock must not hold up the end of the process.
    runtime.shutdown_background();
    code
}
