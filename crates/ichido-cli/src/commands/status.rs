//! `ichido status`: queues, processes, what they run and request ids, what was measured in the last minutes, and what to tune. For
//! monitors: whether one of the conditions of `--fail-if` holds. `tables` writes the lines; with `--watch` on a terminal, `watch` shows
//! them on a screen of their own.

pub(crate) mod fail_if;
mod order;
mod page;
mod tables;
mod watch;

use std::time::Duration;

use ichido::{
    inspect::Overview,
    lanes::Policy,
    stat::{self, Advice, Lane, Load, Summary, WINDOW},
};
use serde::Serialize;

use self::{fail_if::Exceeded, order::Order};
use crate::{
    args::Status,
    config::{Config, LaneSet},
    failure::{FOUND, Failure},
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
            view.exceeded = fail_if::exceeded(&self.fail_if, &view.overview);
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
    overview: Overview,
    measured: Vec<Summary>,
    advice: Vec<Advice>,
    /// The conditions of `--fail-if` that hold.
    exceeded: Vec<Exceeded>,
    #[serde(skip)]
    loads: Vec<Load>,
}

impl View {
    async fn of<S: Backend>(store: &S, config: &Config) -> ichido::error::Result<Self> {
        let overview = store.overview().await?;
        let mut loads = stat::loads_of(&overview, &store.stats(WINDOW).await?);
        for load in &mut loads {
            name_level(load, config);
        }
        let measured = loads.iter().map(Load::summary).collect();
        Ok(View { measured, advice: stat::advise(&loads), exceeded: Vec::new(), overview, loads })
    }

    fn text(&self) -> String {
        let parts = tables::parts(self, &Order::default());
        parts.iter().map(|part| part.join("\n")).collect::<Vec<_>>().join("\n\n")
    }
}

/// The configuration knows which level a queue is, also before a message of it has run; and only it knows the target.
fn name_level(load: &mut Load, config: &Config) {
    for LaneSet { set, tuning, .. } in config.lanes.values() {
        let levels = (0..).zip(set.levels.iter().zip(tuning));
        for (rank, (level, tuning)) in levels.filter(|(_, (level, _))| *level.queue == *load.queue) {
            load.lane = Some(Lane { lanes: set.name.clone(), level: level.name.clone(), rank });
            load.target = tuning.target;
            load.own_slots = set.policy == Policy::Dedicated { borrow: false };
        }
    }
}
