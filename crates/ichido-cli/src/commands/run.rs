//! `ichido run`: a process, until it is stopped, drained or ended by its handler queue.

use std::time::{Duration, Instant};

use ichido::{CancellationToken, action::Request};
use tokio::signal::unix::{SignalKind, signal};

use super::With;
use crate::{
    args::Run,
    brokers::Brokers,
    config::Config,
    failure::Failure,
    in_force,
    open::{Backend, OnStore},
    probes, program,
};

impl OnStore for With<Run> {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let stop = CancellationToken::new();
        let checked = store.clone();
        let brokers = Brokers::of(config)?;
        let mut process = program::process(store, config, self.parts.program()?, &brokers)?.stop_on(stop.clone());
        if self.args.drain {
            process = process.drain();
        }
        if let Some(messages) = self.args.max_messages {
            process = process.max_messages(messages);
        }
        let arguments = arguments(self.args.arguments.clone())?;
        process = process.in_force(in_force::settings(config, &program::masks(config), &arguments));
        probes::start(process.probe(), self.args.health)?;
        let request = request(self.args, arguments);
        stop_on_signals(stop, "finishing running messages and releasing the rest")?;
        let warnings = program::few_connections(config).into_iter().chain(program::masked_keys(config));
        let warnings = warnings.chain(crate::warnings::about_connections(&checked, config));
        for warning in warnings.chain(crate::warnings::about_brokers(config)) {
            tracing::warn!("{warning}");
        }
        match program::check_statements(&checked, config).await {
            // A database that does not answer is for the retry handler.
            Err(error) if !error.is_fault::<S>() => return Err(Failure::of::<S>(&error)),
            _ => {}
        }
        brokers.declare().await?;
        let code = process.run_request(request).await.map_err(|error| Failure::of::<S>(&error))?;
        Ok(u8::try_from(code).unwrap_or(crate::failure::UNREACHABLE))
    }
}

/// What is asked for.
fn request(args: Run, arguments: Vec<(String, String)>) -> Request {
    let mut request = match args.path.or(args.request_path) {
        Some(path) => Request::path(&path),
        None => Request::default(),
    };
    if let Some(user) = args.user_id {
        request = request.user_id(user);
    }
    arguments.into_iter().fold(request, |request, (name, value)| request.argument(name, value))
}

/// `--name value`, `--name=value` or `-name value`; what follows a name is its value, whatever it looks like.
fn arguments(words: Vec<String>) -> Result<Vec<(String, String)>, Failure> {
    let mut words = words.into_iter();
    let mut arguments = Vec::new();
    while let Some(word) = words.next() {
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|name| !name.is_empty());
        let Some(name) = name else {
            return Err(Failure::usage(format!("`{word}`: arguments after -- must look like --name value")));
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (name.to_owned(), words.next().unwrap_or_default()),
        };
        arguments.push((name, value));
    }
    Ok(arguments)
}

/// Signals so close together are one: `timeout` signals the process and then its group, a shell's job control does the same.
const ONE_SIGNAL: Duration = Duration::from_millis(200);

/// The first SIGTERM or Ctrl-C stops gracefully, the second ends the process at once.
pub(super) fn stop_on_signals(stop: CancellationToken, what_happens: &'static str) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut first: Option<Instant> = None;
        loop {
            let number = tokio::select! {
                _ = terminate.recv() => 15,
                _ = interrupt.recv() => 2,
            };
            match first {
                None => {
                    first = Some(Instant::now());
                    tracing::info!("stopping: {what_happens}; send the signal again to exit at once");
                    stop.cancel();
                }
                Some(first) if first.elapsed() < ONE_SIGNAL => {}
                Some(_) => std::process::exit(128 + number),
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::arguments;

    #[test]
    fn what_follows_a_name_is_its_value() {
        let words = |words: &[&str]| arguments(words.iter().map(|word| (*word).to_owned()).collect());
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(words(&[]).unwrap(), []);
        assert_eq!(words(&["--day", "2026-01-01", "-n", "-5"]).unwrap(), pairs(&[("day", "2026-01-01"), ("n", "-5")]));
        assert_eq!(words(&["--a=b=c", "--last"]).unwrap(), pairs(&[("a", "b=c"), ("last", "")]));
        for bad in [&["stray"][..], &["--a", "b", "c"], &["--"], &["-"]] {
            assert_eq!(words(bad).unwrap_err().code, 127, "{bad:?}");
        }
    }
}
