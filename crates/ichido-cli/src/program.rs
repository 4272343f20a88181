//! From the configuration to a process: its actions, their pools, the process's settings.

use std::{fmt, sync::Arc};

use ichido::{
    Error, Masks, Pool, Process, Registry,
    handlers::Single,
    process::Settings,
    sql::{SqlAction, placeholder},
};

use crate::{
    actions::{exec::ExecAction, http::HttpAction},
    brokers::Brokers,
    config::{Action, ActionKind, Config, QueueKind},
    failure::Failure,
    lanes::lane_sets,
    open::Backend,
    own::Program,
};

/// The process that the configuration and the program describe, not started yet.
pub(crate) fn process<S: Backend>(
    store: S,
    config: &Config,
    own: Program<S>,
    brokers: &Brokers,
) -> Result<Process<S>, Failure> {
    let Program { mut actions, registry, changes, states, needs } = own;
    let registered = actions.keys().cloned().collect::<Vec<_>>().join(", ");
    let process = Process::new(store).settings(settings(config)).retry(config.process.retry);
    let mut process = process.paths(config.dispatch.clone()).mask(masks(config));
    if let Some(single) = single(config) {
        process = process.single(single);
    }
    process = brokers.join(lane_sets(config).fold(process, Process::lanes));
    for (name, action) in &config.actions {
        let needs = needs.iter().filter(|(of, _)| of == name);
        let pool = needs.fold(pool(name, action, config), |pool, (_, need)| need(pool));
        let refused = |key: &str, why: &dyn fmt::Display| Failure::usage(format!("actions.{name}.{key}: {why}"));
        process = match (&action.kind, actions.remove(name)) {
            (ActionKind::Sql(texts), _) => {
                process.action(pool, SqlAction::new(S::SYNTAX, texts).map_err(|error| refused("sql", &error))?)
            }
            (ActionKind::Http(http), _) => {
                process.action(pool, HttpAction::new(http).map_err(|why| refused("http", &why))?)
            }
            (ActionKind::Exec(exec), _) => {
                process.action(pool, ExecAction::new(exec).map_err(|why| refused("exec", &why))?)
            }
            (_, Some(own)) => own.join(process, pool, &action.from).map_err(|why| refused("from", &why))?,
            (_, None) => return Err(no_rust_action(name, &registered)),
        };
    }
    let process = states.into_iter().fold(process, |process, give| give(process));
    let process = changes.into_iter().fold(process, Process::handlers);
    Ok(configured_handlers(process, config, registry))
}

fn no_rust_action(name: &str, registered: &str) -> Failure {
    let there = if registered.is_empty() { "it has none".into() } else { format!("it has: {registered}") };
    let way_out = "add `sql`, `http` or `exec`, or register it in your own program";
    Failure::usage(format!("actions.{name}: this program has no Rust action of this name ({there}); {way_out}"))
}

/// What `handlers` in `[process]` and `[actions.A]` make of the queue.
fn configured_handlers<S: Backend>(mut process: Process<S>, config: &Config, registry: Registry<S>) -> Process<S> {
    let registry = Arc::new(registry);
    if let Some(entries) = &config.process.handlers {
        let (registry, entries) = (registry.clone(), entries.clone());
        process = process.handlers(move |queue| {
            let named = |error| Error::Setup(format!("process.handlers: {error:#}"));
            registry.apply(&queue, &entries).map_err(named)
        });
    }
    for (name, action) in &config.actions {
        if let Some(entries) = &action.handlers {
            let (registry, entries) = (registry.clone(), entries.clone());
            process = process.action_handlers(name.as_str(), move |queue| registry.apply(&queue, &entries));
        }
    }
    process
}

/// What must not be seen.
pub(crate) fn masks(config: &Config) -> Masks {
    Masks::new(&config.log.mask)
}

/// An id is shown everywhere, or nobody could ask for a message; a key column in it cannot be masked.
pub(crate) fn masked_keys(config: &Config) -> Vec<String> {
    let masks = masks(config);
    let keys = config.queues.iter().filter_map(|(name, queue)| match &queue.kind {
        QueueKind::Table(table) => Some((name, &table.key)),
        _ => None,
    });
    let told = |(name, column): (&String, &String)| {
        format!(
            "log.mask: `{column}` is in the key of the queue `{name}`; it is masked in messages, but visible in their ids"
        )
    };
    let columns = keys.flat_map(|(name, key)| key.iter().map(move |column| (name, column)));
    columns.filter(|(_, column)| masks.covers(column)).map(told).collect()
}

/// Workers wait for each other when there are more of them than connections for their transactions.
pub(crate) fn few_connections(config: &Config) -> Option<String> {
    let workers = config.actions.values().map(|action| workers(action, config));
    // The default is for the action with most workers: others may not be at work at the same time.
    let workers: usize = if config.database.pool.is_some() { workers.sum() } else { workers.max().unwrap_or_default() };
    let connections = config.pool().saturating_sub(2).max(1);
    let sqlite = config.database.url.scheme() == "sqlite";
    (!sqlite && workers > connections as usize).then(|| {
        format!("{workers} workers share {connections} connections; raise database.pool if the server allows it, or lower the concurrency")
    })
}

fn settings(config: &Config) -> Settings {
    let process = &config.process;
    Settings {
        lease: process.lease,
        poll: process.poll,
        grace: process.grace,
        check: process.check,
        check_every: process.check_every,
        progress: config.log.progress,
        retention: config.retention,
        ..Settings::default()
    }
}

fn single(config: &Config) -> Option<Single> {
    let process = &config.process;
    process.single.then(|| Single::default().exempt(process.exempt.iter().cloned()).exit(process.exit_duplicate))
}

/// The workers of an action: those of its levels if they have slots of their own.
pub(crate) fn workers(action: &Action, config: &Config) -> usize {
    config.lanes.get(&action.from).map_or(action.concurrency, |lanes| lanes.set.slots(action.concurrency))
}

/// The queues that an action works on.
pub(crate) fn queues<'a>(action: &'a Action, config: &'a Config) -> Vec<&'a str> {
    match config.lanes.get(&action.from) {
        Some(lanes) => lanes.set.levels.iter().map(|level| &*level.queue).collect(),
        None => vec![&action.from],
    }
}

fn pool(name: &str, action: &Action, config: &Config) -> Pool {
    let pool = Pool::new(name).concurrency(action.concurrency);
    let pool = match config.lanes.get(&action.from) {
        Some(lanes) => pool.from_lanes(lanes.set.clone()),
        None => pool.from(action.from.as_str()),
    };
    // What nobody has set, the reader finds out.
    let ahead = config.process.read_ahead.map(|_| config.read_ahead(workers(action, config)));
    let pool = ahead.into_iter().fold(pool, Pool::read_ahead).retry(action.retry);
    let pool = pool.isolation(action.isolation).commit_interval(action.commit_interval);
    let pool = action.commit_on.iter().fold(pool, |pool, failure| pool.commit_on(*failure));
    match action.timeout {
        Some(limit) => pool.timeout(limit),
        None => pool,
    }
}

/// Asks the store about the transactions of all actions, the server about their statements, and the tables about their names:
/// what would be refused for every message is refused at start.
pub(crate) async fn check_statements<S: Backend>(store: &S, config: &Config) -> Result<(), Error> {
    store.prepare().await?; // what is wrong with a queue is not the statements' fault
    for (name, action) in &config.actions {
        store.admits(&pool(name, action, config).terms()).map_err(|error| match error {
            Error::Setup(text) => Error::Setup(format!("actions.{name}.isolation: {text}")),
            fault => fault,
        })?;
        if let ActionKind::Sql(texts) = &action.kind {
            let sql = SqlAction::new(S::SYNTAX, texts)?;
            for queue in queues(action, config) {
                check_action(store, queue, &sql).await.map_err(|error| match error {
                    Error::Setup(text) => Error::Setup(format!("actions.{name}.sql: {text}")),
                    fault => fault,
                })?;
            }
        }
    }
    Ok(())
}

async fn check_action<S: Backend>(store: &S, queue: &str, sql: &SqlAction) -> Result<(), Error> {
    let columns = store.columns(queue).await?;
    for statement in sql.statements() {
        for name in statement.names() {
            let known = || columns.iter().flatten().map(String::as_str);
            if columns.is_some() && !known().any(|column| column == name) {
                let quoted = known().find(|column| column.starts_with(name) && placeholder(column).contains('"'));
                let hint = match quoted {
                    Some(column) => format!("; the column `{column}` is written `{}`", placeholder(column)),
                    None => ichido::handlers::suggestion(name, known()),
                };
                return Err(Error::Setup(format!("`:{name}` is not a column of the queue `{queue}`{hint}")));
            }
        }
        store.check_sql(statement, queue).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(database: &str, action: &str) -> Option<String> {
        let text = format!(
            "[database]\nurl = \"postgres://h/d\"\n{database}\n[queues.q]\n[queues.r]\n\
             [actions.A]\nfrom = \"q\"\nsql = [\"select 1\"]\n{action}\n[actions.B]\nfrom = \"r\"\nsql = [\"select 1\"]\n"
        );
        few_connections(&Config::parse(&text, "ichido.toml", &|_| None).unwrap())
    }

    #[test]
    fn defaults_draw_no_warning_and_a_small_pool_does() {
        assert_eq!(warning("", ""), None);
        assert!(warning("pool = 6", "").unwrap().starts_with("8 workers share 4 connections"));
        assert!(warning("", "concurrency = 40").unwrap().starts_with("40 workers share 14 connections"));
        assert_eq!(warning("pool = 10", ""), None);
    }
}
