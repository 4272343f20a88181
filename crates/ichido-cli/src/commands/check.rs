//! `ichido check`: is everything in place? Configuration, database, queues, statements and the handler queue.

use ichido::{Scope, Statement};
use serde::Serialize;

use crate::{
    args::Check,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output, program,
};

/// What `check --json` prints.
#[derive(Serialize)]
struct Report {
    handlers: Vec<Line>,
    statements: Vec<Statement>,
    warnings: Vec<String>,
}

/// One handler.
#[derive(Serialize)]
struct Line {
    number: usize,
    handler: &'static str,
    scope: &'static str,
    #[serde(rename = "in")]
    way_in: &'static str,
    out: &'static str,
    on_error: &'static str,
}

impl OnStore for Check {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let of = |error| Failure::of::<S>(&error);
        store.prepare().await.map_err(of)?;
        program::check_statements(&store, config).await.map_err(of)?;
        let mut warnings = store.warnings(config.process.lease).await.map_err(of)?;
        warnings.extend(program::few_connections(config));
        let statements = store.statements().await.map_err(of)?;
        let report = Report { handlers: handlers(store, config)?, statements, warnings };
        if self.json {
            output::json(&report)?;
        } else {
            print(&report, self.sql)?;
        }
        Ok(0)
    }
}

fn handlers<S: Backend>(store: S, config: &Config) -> Result<Vec<Line>, Failure> {
    let queue = program::process(store, config, false)?.handler_queue().map_err(|error| Failure::of::<S>(&error))?;
    let line = |(at, (scope, about)): (usize, (Scope, ichido::About))| Line {
        number: at + 1,
        handler: about.name,
        scope: if scope == Scope::Process { "process" } else { "worker" },
        way_in: about.way_in,
        out: about.way_out,
        on_error: about.on_error,
    };
    Ok(queue.about().enumerate().map(line).collect())
}

fn print(report: &Report, sql: bool) -> Result<(), Failure> {
    let rows = report.handlers.iter().map(|line| {
        [&line.number.to_string(), line.handler, line.scope, line.way_in, line.out, line.on_error].map(str::to_owned)
    });
    let action = ["", "action", "worker", "the business code", "", ""].map(str::to_owned);
    let rows: Vec<_> = rows.chain([action]).collect();
    output::table(["#", "HANDLER", "SCOPE", "IN", "OUT", "ON ERROR"], &rows)?;
    if sql {
        for statement in &report.statements {
            output::print(&format!("\n-- {}: {}\n{};", statement.queue, statement.verb, statement.sql))?;
        }
    }
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    eprintln!("everything is in place");
    Ok(())
}
