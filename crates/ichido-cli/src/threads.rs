//! How many threads the async runtime of `ichido run` has. A process whose actions only wait, for a database, a server or a program, needs few:
//! with more of them each message is handed from thread to thread, and 64 processes of two workers do an eighth less
//! (bench/README.md). Whoever writes actions in Rust may compute in them, and keeps a thread per core.

use crate::{
    args::Run,
    config::{Action, ActionKind, Config},
    program::workers,
};

/// A thread keeps so many workers busy, and the claims for them.
const WORKERS_A_THREAD: usize = 4;

/// As many threads as the workers of this process need; none where tokio knows better, by the number of cores or by `TOKIO_WORKER_THREADS`.
pub(crate) fn of(run: &Run, config: &Config) -> Option<usize> {
    if std::env::var_os("TOKIO_WORKER_THREADS").is_some() {
        return None;
    }
    let workers = workers_of(run, config)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (workers < cores * WORKERS_A_THREAD).then(|| workers.div_ceil(WORKERS_A_THREAD).max(1))
}

/// The workers of all actions that this process runs; unknown if one of them is written in Rust.
fn workers_of(run: &Run, config: &Config) -> Option<usize> {
    let path = run.path.as_deref().or(run.request_path.as_deref());
    let asked = path.and_then(|path| config.actions.get(path.split('/').next()?));
    let waits = |action: &Action| (action.kind != ActionKind::Rust).then(|| workers(action, config));
    match asked {
        Some(action) => waits(action),
        None => config.actions.values().map(waits).sum(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    const CONFIG: &str = r#"
[queues.orders]
[queues.mail]

[actions.Small]
from        = "orders"
concurrency = 2
sql         = ["select 1"]

[actions.Large]
from        = "orders"
concurrency = 7
exec        = ["true"]

[actions.Computes]
from = "mail"
"#;

    fn workers(config: &str, arguments: &[&str]) -> Option<usize> {
        let config = Config::parse(config, "ichido.toml", &|_| None).unwrap();
        let command = Cli::try_parse_from(["ichido", "run"].iter().chain(arguments)).unwrap().command;
        let Command::Run(run) = command else { panic!("{arguments:?}") };
        workers_of(&run, &config)
    }

    #[test]
    fn workers_that_only_wait_are_counted() {
        assert_eq!(workers(CONFIG, &["Small"]), Some(2));
        assert_eq!(workers(CONFIG, &["--request-path", "Large/night"]), Some(7));
        assert_eq!(workers(CONFIG, &["Computes"]), None, "what is written in Rust may need a thread per core");
        assert_eq!(workers(CONFIG, &[]), None);
        let without = CONFIG.split("[actions.Computes]").next().unwrap();
        assert_eq!(workers(without, &[]), Some(9), "all actions of the configuration run");
    }
}
