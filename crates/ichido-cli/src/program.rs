//! From the configuration to a process: its actions, their pools, the process's settings.

use ichido::{
    Error, Pool, Process, RetryPolicy, Settings,
    handlers::{Limit, Retry, Single},
    sql::SqlAction,
};

use crate::{
    config::{Action, ActionKind, Config, RetryLimit},
    failure::Failure,
    open::Backend,
};

/// The process that the configuration describes, not started yet.
pub(crate) fn process<S: Backend>(store: S, config: &Config, drain: bool) -> Result<Process<S>, Failure> {
    let mut process = Process::new(store).settings(settings(config, drain)).retry(retry(config));
    if let Some(single) = single(config) {
        process = process.single(single);
    }
    for (name, action) in &config.actions {
        let ActionKind::Sql(texts) = &action.kind else {
            let reason =
                "this program has no Rust action of that name; give it `sql`, or register it in a program of your own";
            return Err(Failure::usage(format!("actions.{name}: {reason}")));
        };
        let made = SqlAction::new(texts).map_err(|error| Failure::usage(format!("actions.{name}.sql: {error}")))?;
        process = process.action(pool(name, action, config), made);
    }
    Ok(process)
}

/// Workers wait for each other when there are more of them than connections for their transactions.
pub(crate) fn few_connections(config: &Config) -> Option<String> {
    let workers: u32 = config.actions.values().map(|action| action.concurrency).sum();
    let connections = config.pool().saturating_sub(2).max(1);
    let sqlite = config.database.url.scheme() == "sqlite";
    (!sqlite && workers > connections).then(|| {
        format!("{workers} workers share {connections} connections; raise database.pool if the server allows it, or lower the concurrency")
    })
}

fn settings(config: &Config, drain: bool) -> Settings {
    let process = &config.process;
    Settings {
        lease: process.lease,
        poll: process.poll,
        grace: process.grace,
        check: process.check,
        check_every: process.check_every,
        drain,
        progress: config.log.progress,
    }
}

fn single(config: &Config) -> Option<Single> {
    let process = &config.process;
    process.single.then(|| Single::default().exempt(process.exempt.iter().cloned()).exit(process.exit_duplicate))
}

fn retry(config: &Config) -> Retry {
    let retry = &config.process.retry;
    let limit = match retry.limit {
        RetryLimit::Count(count) => Limit::Count(count),
        RetryLimit::Time(time) => Limit::Time(time),
    };
    Retry { limit, interval: retry.interval, window: retry.window, exit: retry.exit }
}

fn pool(name: &str, action: &Action, config: &Config) -> Pool {
    let retry = &action.retry;
    let policy = RetryPolicy { attempts: retry.attempts, first: retry.first, max: retry.max, factor: retry.factor };
    let ahead = config.read_ahead(action.concurrency);
    let pool = Pool::new(name).from(action.from.as_str()).concurrency(action.concurrency as usize);
    let pool = pool.read_ahead(ahead as usize).retry(policy);
    let pool = pool.isolation(action.isolation).commit_interval(action.commit_interval as usize);
    let pool = action.commit_on.iter().fold(pool, |pool, failure| pool.commit_on(*failure));
    match action.timeout {
        Some(limit) => pool.timeout(limit),
        None => pool,
    }
}

/// Asks the store about the transactions of all actions, the server about their statements, and the tables about their names: what would be refused for every
/// message is refused at start.
pub(crate) async fn check_statements<S: Backend>(store: &S, config: &Config) -> Result<(), Error> {
    for (name, action) in &config.actions {
        store.admits(&pool(name, action, config).terms()).map_err(|error| match error {
            Error::Setup(text) => Error::Setup(format!("actions.{name}.isolation: {text}")),
            fault => fault,
        })?;
        if let ActionKind::Sql(texts) = &action.kind {
            let sql = SqlAction::new(texts)?;
            check_action(store, &action.from, &sql).await.map_err(|error| match error {
                Error::Setup(text) => Error::Setup(format!("actions.{name}.sql: {text}")),
                fault => fault,
            })?;
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
                let hint = ichido::suggestion(name, known());
                return Err(Error::Setup(format!("`:{name}` is no column of the queue `{queue}`{hint}")));
            }
        }
        store.check_sql(statement).await?;
    }
    Ok(())
}
