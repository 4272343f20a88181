//! `ichido status`: queues, processes, what they run and request ids, what was measured in the last minutes, and what to tune. For
//! monitors: whether one of the conditions of `--fail-if` holds. `tables` writes the lines; with `--watch` on a terminal, `watch` shows
//! them on a screen of their own.

pub(crate) mod fail_if;
mod order;
mod page;
mod tables;
mod watch;

use std::time::Duration;

use ichido::by_hand::Standing;
use serde::Serialize;

use self::{fail_if::Exceeded, order::Order};
use crate::{
    args::Status,
    config::Config,
    failure::{FOUND, Failure},
    lanes::targets,
    open::{Backend, OnStore},
    output, screen,
};

/// How often `--watch` looks again.
const AGAIN: Duration = Duration::from_secs(2);

impl Status {
    /// Has it a screen of its own? Whoever reads what it prints, a program or a file, gets it as text.
    pub(crate) fn has_screen(&self) -> bool {
        self.watch && !self.json && screen::is_possible()
    }
}

impl OnStore for Status {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        if self.has_screen() {
            return watch::watch(&store, config).await;
        }
        loop {
            let mut view = View::of(&store, config).await.map_err(|error| Failure::of::<S>(&error))?;
            view.exceeded = fail_if::exceeded(&self.fail_if, &view.standing.overview);
            let text = (!self.json).then(|| view.text());
            let read = output::refresh(text.as_deref(), &view, self.watch)?;
            view.exceeded.iter().for_each(|limit| output::complain(&limit.to_string()));
            if !read || !self.watch {
                return Ok(if view.exceeded.is_empty() { 0 } else { FOUND });
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                _ = tokio::signal::ctrl_c() => return Ok(0),
            }
        }
    }
}

/// All that is shown.
#[derive(Serialize)]
struct View {
    #[serde(flatten)]
    standing: Standing,
    /// The conditions of `--fail-if` that hold.
    exceeded: Vec<Exceeded>,
}

impl View {
    async fn of<S: Backend>(store: &S, config: &Config) -> ichido::error::Result<Self> {
        Ok(View { standing: Standing::of(store, &targets(config)).await?, exceeded: Vec::new() })
    }

    fn text(&self) -> String {
        let parts = tables::parts(&self.standing, &Order::default());
        parts.iter().map(|part| part.join("\n")).collect::<Vec<_>>().join("\n\n")
    }
}
