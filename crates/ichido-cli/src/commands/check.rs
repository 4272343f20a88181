//! `ichido check`: is everything in place? Configuration, database, queues, statements and the handler queue.

use std::collections::BTreeMap;

use ichido::{
    HandlerQueue,
    handlers::{About, Scope},
    inspect::Statement,
    process::HandlerQueues,
    store::ConnectionCounts,
};
use serde::Serialize;

use super::With;
use crate::{
    actions::http,
    args::Check,
    brokers::Brokers,
    config::{Action, ActionKind, Config},
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
    output, program,
};

/// What `check --json` prints.
#[derive(Serialize)]
struct Report {
    actions: Vec<ActionLine>,
    handlers: Vec<Line>,
    /// Of the actions that have a queue of their own.
    action_handlers: BTreeMap<String, Vec<Line>>,
    brokers: Vec<BrokerLine>,
    connections: Connections,
    statements: Vec<Statement>,
    warnings: Vec<String>,
}

/// How many connections to the database one process opens at most.
#[derive(Serialize)]
struct Connections {
    business: u32,
    own: u32,
    upkeep: u32,
    listen: u32,
    watch: u32,
    total: u32,
}

/// One queue that a broker keeps.
#[derive(Serialize)]
struct BrokerLine {
    queue: String,
    broker: String,
    version: String,
    /// What will be declared at the next start.
    missing: Vec<String>,
}

/// One action.
#[derive(Serialize)]
struct ActionLine {
    action: String,
    from: String,
    does: String,
}

/// One handler.
#[derive(Serialize)]
struct Line {
    number: usize,
    handler: String,
    scope: String,
    #[serde(rename = "in")]
    way_in: &'static str,
    out: &'static str,
    on_error: &'static str,
}

impl OnStore for With<Check> {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let of = |error| Failure::of::<S>(&error);
        let at_brokers = Brokers::of(config)?;
        let process = program::process(store.clone(), config, self.parts.program()?, &at_brokers)?;
        process.check_pools().map_err(of)?;
        let HandlerQueues { common, own } = process.handler_queues().map_err(of)?;
        store.prepare().await.map_err(of)?;
        program::check_statements(&store, config).await.map_err(of)?;
        let mut warnings = store.warnings(config.process.lease).await.map_err(of)?;
        warnings.extend(program::few_connections(config));
        warnings.extend(program::masked_keys(config));
        warnings.extend(crate::warnings::about_connections(&store, config));
        warnings.extend(crate::warnings::about_brokers(config));
        let mut brokers = Vec::new();
        for kept in at_brokers.iter() {
            let found = kept.place().look().await?;
            warnings.extend(found.warnings);
            let (queue, broker) = (kept.name().to_owned(), kept.place().addresses());
            brokers.push(BrokerLine { queue, broker, version: found.version, missing: found.missing });
        }
        let statements = store.statements().await.map_err(of)?;
        let action_handlers = own.into_iter().map(|(action, queue)| (action.to_string(), lines(&queue))).collect();
        let actions = config.actions.iter().map(|(name, action)| action_line(name, action)).collect();
        let (handlers, connections) = (lines(&common), store.connections().into());
        let report = Report { actions, handlers, action_handlers, brokers, connections, statements, warnings };
        if self.args.json {
            output::json(&report)?;
        } else {
            print(&report, self.args.sql)?;
        }
        if self.args.strict && !report.warnings.is_empty() {
            output::talk("check failed: there are warnings, and --strict was given");
            return Ok(FOUND);
        }
        if !self.args.json {
            output::talk("check passed");
        }
        Ok(0)
    }
}

impl From<ConnectionCounts> for Connections {
    fn from(counts: ConnectionCounts) -> Self {
        let ConnectionCounts { business, own, upkeep, listen, watch } = counts;
        Connections { business, own, upkeep, listen, watch, total: counts.total() }
    }
}

/// What an action does, without what may be secret.
fn action_line(name: &str, action: &Action) -> ActionLine {
    let does = match &action.kind {
        ActionKind::Sql(texts) => format!("sql: {} in the business transaction", count(texts.len(), "statement")),
        ActionKind::Http(http) => format!("http: POST {}", http::place(&http.url).unwrap_or_default()),
        ActionKind::Exec(exec) => {
            let argv = &exec.argv;
            let (program, rest) = (argv.first().map_or("", String::as_str), argv.len().saturating_sub(1));
            format!("exec: {program} with {}", count(rest, "argument"))
        }
        ActionKind::Rust => "Rust code".into(),
    };
    ActionLine { action: name.into(), from: action.from.clone(), does }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn lines<S: Backend>(queue: &HandlerQueue<S>) -> Vec<Line> {
    let line = |(at, (scope, about)): (usize, (Scope, About))| Line {
        number: at + 1,
        handler: about.name.into_owned(),
        scope: scope.to_string(),
        way_in: about.way_in,
        out: about.way_out,
        on_error: about.on_error,
    };
    queue.about().enumerate().map(line).collect()
}

fn print_queue(lines: &[Line]) -> Result<(), Failure> {
    let row = |line: &Line| {
        let words = [&line.handler, &line.scope, line.way_in, line.out, line.on_error].map(str::to_owned);
        let [handler, scope, way_in, out, on_error] = words;
        [line.number.to_string(), handler, scope, way_in, out, on_error]
    };
    let action = ["", "action", "worker", "the business code", "", ""].map(str::to_owned);
    let rows: Vec<_> = lines.iter().map(row).chain([action]).collect();
    output::table(["#", "HANDLER", "SCOPE", "IN", "OUT", "ON ERROR"], &rows)
}

fn print_brokers(brokers: &[BrokerLine]) -> Result<(), Failure> {
    let row = |line: &BrokerLine| {
        let missing = if line.missing.is_empty() { "-".into() } else { line.missing.join(", ") };
        [line.queue.clone(), line.broker.clone(), line.version.clone(), missing]
    };
    if brokers.is_empty() {
        return Ok(());
    }
    output::print("")?;
    output::table(["QUEUE", "BROKER", "VERSION", "TO BE DECLARED"], &brokers.iter().map(row).collect::<Vec<_>>())
}

/// What may be open at once, for whoever must admit it.
fn print_connections(connections: &Connections) -> Result<(), Failure> {
    let Connections { business, own, upkeep, listen, watch, total } = *connections;
    let rows: Vec<_> = [
        (business, "business transactions"),
        (own, "claims and other short statements of ichido's own"),
        (upkeep, "heartbeat, chores and rescue"),
        (listen, "wake-ups from other hosts (LISTEN)"),
        (watch, "sessions whose connection is silent: to ask about them and to end them"),
        (total, "in all, for each process"),
    ]
    .into_iter()
    .filter(|(most, _)| *most > 0)
    .map(|(most, what)| [most.to_string(), what.to_owned()])
    .collect();
    output::print("")?;
    output::table(["CONNECTIONS", "AT MOST, FOR"], &rows)
}

fn print(report: &Report, sql: bool) -> Result<(), Failure> {
    print_queue(&report.handlers)?;
    for (action, lines) in &report.action_handlers {
        output::print(&format!("\nactions.{action}"))?;
        print_queue(lines)?;
    }
    let row = |line: &ActionLine| [line.action.clone(), line.from.clone(), line.does.clone()];
    let rows: Vec<_> = report.actions.iter().map(row).collect();
    if !rows.is_empty() {
        output::print("")?;
        output::table(["ACTION", "FROM", "DOES"], &rows)?;
    }
    print_brokers(&report.brokers)?;
    print_connections(&report.connections)?;
    if sql {
        for statement in &report.statements {
            output::print(&format!("\n-- {}: {}\n{};", statement.queue, statement.verb, statement.sql))?;
        }
    }
    for warning in &report.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(())
}
