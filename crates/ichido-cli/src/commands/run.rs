//! `ichido run`: a process, until it is stopped, drained or ended by its handler queue.

use ichido::{CancellationToken, Request};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::Run,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    program,
};

impl OnStore for Run {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let stop = CancellationToken::new();
        let checked = store.clone();
        let process = program::process(store, config, self.drain)?.stop_on(stop.clone());
        let mut request = match self.path.or(self.request_path) {
            Some(path) => Request::path(&path),
            None => Request::default(),
        };
        if let Some(user) = self.user_id {
            request = request.user_id(user);
        }
        stop_on_signals(stop)?;
        if let Some(warning) = program::few_connections(config) {
            tracing::warn!("{warning}");
        }
        match program::check_statements(&checked, config).await {
            // A database that does not answer is for the retry handler.
            Err(error) if !error.is_fault::<S>() => return Err(Failure::of::<S>(&error)),
            _ => {}
        }
        let code = process.run_request(request).await.map_err(|error| Failure::of::<S>(&error))?;
        Ok(u8::try_from(code).unwrap_or(crate::failure::UNREACHABLE))
    }
}

/// The first SIGTERM or Ctrl-C stops gracefully, the second ends the process at once.
fn stop_on_signals(stop: CancellationToken) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            let number = tokio::select! {
                _ = terminate.recv() => 15,
                _ = interrupt.recv() => 2,
            };
            if stop.is_cancelled() {
                std::process::exit(128 + number);
            }
            tracing::info!(
                "stopping: running messages come to their end, the rest is released; once more to end at once"
            );
            stop.cancel();
        }
    });
    Ok(())
}
