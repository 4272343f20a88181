//! What a lane set would do under a load: a simulation, event by event, on the same [`Chooser`] that runs it. Arrivals are a Poisson
//! process per level. The same seed gives the same messages whatever the policy, so that policies can be compared; nothing
//! is waited for and nothing is read or written.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

use super::{Chooser, Forecast, LaneSet, LevelForecast, LevelState};
use crate::{Error, error::Result};

/// More messages than this are no prediction but a wait.
const MOST_MESSAGES: f64 = 2e7;

/// What arrives at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Messages that arrive, on average.
    pub per_second: f64,
    /// How long one takes, on average.
    pub service: Duration,
    /// How much that differs from message to message.
    pub spread: Spread,
    /// Messages that wait at the beginning.
    pub backlog: u64,
}

/// How much the time that messages take differs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Spread {
    /// A lot: many are short and some are long (exponential).
    #[default]
    Exponential,
    /// Not at all.
    Fixed,
}

/// A lane set, what arrives, and for how long.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The lane set.
    pub set: LaneSet,
    /// The workers of its action.
    pub slots: usize,
    /// What arrives at each level.
    pub loads: Vec<Load>,
    /// How long it is watched.
    pub duration: Duration,
    /// Other messages for another seed.
    pub seed: u64,
}

/// A message that starts in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// When.
    pub at: Duration,
    /// Its level, counted from the highest.
    pub level: usize,
    /// For how long it had waited.
    pub waited: Duration,
}

impl Simulation {
    /// Plays it.
    ///
    /// # Errors
    /// [`Error::Setup`] if the set cannot work, a load is no load, or there would be more messages than anybody waits for.
    pub fn run(&self) -> Result<Forecast> {
        self.watch(|_| {})
    }

    /// Plays it and tells of every start.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn watch(&self, mut watcher: impl FnMut(Start)) -> Result<Forecast> {
        self.check()?;
        let mut world = World::new(self);
        world.fill_slots(0, &mut watcher);
        while let Some(now) = world.next_event() {
            world.fill_slots(now, &mut watcher);
        }
        Ok(world.forecast(self))
    }

    fn check(&self) -> Result<()> {
        self.set.check(self.slots)?;
        let refuse = |text: &str| Err(Error::Setup(text.into()));
        if self.loads.len() != self.set.levels.len() {
            return refuse("a simulation needs one load for each level");
        }
        if self.loads.iter().any(|load| !load.per_second.is_finite() || load.per_second < 0.0) {
            return refuse("a rate must be a number of messages per second, 0 or more");
        }
        let seconds = self.duration.as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "it is compared with a round number")]
        let expected: f64 = self.loads.iter().map(|load| load.per_second * seconds + load.backlog as f64).sum();
        if expected > MOST_MESSAGES {
            return refuse("more than 20 million messages; simulate a shorter time or a lower rate");
        }
        Ok(())
    }
}

/// In nanoseconds since the beginning.
type Time = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End(usize),
    Arrival(usize),
}

/// A message that waits: when it arrived, and how long it will take.
struct Waiting {
    since: Time,
    takes: Time,
}

struct SimulatedLevel {
    load: Load,
    arrivals: fastrand::Rng,
    services: fastrand::Rng,
    waiting: VecDeque<Waiting>,
    running: usize,
    /// What the messages waited, those that are left at the end included.
    waits: Vec<Time>,
    started: u64,
    done: u64,
    busy: Time,
}

impl SimulatedLevel {
    fn arrive(&mut self, now: Time) {
        let mean = self.load.service.as_secs_f64();
        let takes = match self.load.spread {
            Spread::Exponential => drawn(&mut self.services, mean),
            Spread::Fixed => nanoseconds(mean),
        };
        self.waiting.push_back(Waiting { since: now, takes });
    }
}

struct World {
    chooser: Chooser,
    lanes: Vec<SimulatedLevel>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    end: Time,
    age_after: Time,
}

impl World {
    fn new(simulation: &Simulation) -> Self {
        let mut lot = fastrand::Rng::with_seed(simulation.seed);
        let lane = |load: &Load| SimulatedLevel {
            load: *load,
            // Two lots per level: who arrives when does not depend on who was served.
            arrivals: lot.fork(),
            services: lot.fork(),
            waiting: VecDeque::new(),
            running: 0,
            waits: Vec::new(),
            started: 0,
            done: 0,
            busy: 0,
        };
        let mut world = World {
            chooser: Chooser::new(&simulation.set, simulation.slots),
            lanes: simulation.loads.iter().map(lane).collect(),
            events: BinaryHeap::new(),
            end: nanoseconds(simulation.duration.as_secs_f64()),
            age_after: simulation.set.age_after.map_or(Time::MAX, |wait| nanoseconds(wait.as_secs_f64())),
        };
        for level in 0..world.lanes.len() {
            (0..world.lanes[level].load.backlog).for_each(|_| world.lanes[level].arrive(0));
            world.expect_arrival(level, 0);
        }
        world
    }

    fn expect_arrival(&mut self, level: usize, now: Time) {
        let lane = &mut self.lanes[level];
        if lane.load.per_second > 0.0 {
            let at = now.saturating_add(drawn(&mut lane.arrivals, 1.0 / lane.load.per_second));
            self.events.push(Reverse((at, Event::Arrival(level))));
        }
    }

    /// What happens next, up to the end.
    fn next_event(&mut self) -> Option<Time> {
        let Reverse((now, event)) = self.events.pop().filter(|Reverse((at, _))| *at <= self.end)?;
        match event {
            Event::Arrival(level) => {
                self.lanes[level].arrive(now);
                self.expect_arrival(level, now);
            }
            Event::End(level) => {
                self.lanes[level].running -= 1;
                self.lanes[level].done += 1;
            }
        }
        Some(now)
    }

    fn fill_slots(&mut self, now: Time, watcher: &mut impl FnMut(Start)) {
        while let Some(pick) = self.chooser.choose(&self.standings(now)) {
            let (level, end) = (pick.level(), self.end);
            let lane = &mut self.lanes[level];
            let Some(message) = lane.waiting.pop_front() else { return };
            self.chooser.start(pick);
            let (ends, waited) = (now.saturating_add(message.takes), now - message.since);
            lane.running += 1;
            lane.started += 1;
            lane.busy += ends.min(end) - now;
            lane.waits.push(waited);
            self.events.push(Reverse((ends, Event::End(level))));
            watcher(Start { at: Duration::from_nanos(now), level, waited: Duration::from_nanos(waited) });
        }
    }

    fn standings(&self, now: Time) -> Vec<LevelState> {
        let standing = |lane: &SimulatedLevel| LevelState {
            ready: !lane.waiting.is_empty(),
            running: lane.running,
            aged: lane.waiting.front().is_some_and(|message| now - message.since >= self.age_after),
        };
        self.lanes.iter().map(standing).collect()
    }

    fn forecast(self, simulation: &Simulation) -> Forecast {
        let end = self.end;
        let level = |(mut lane, level): (SimulatedLevel, &super::Level)| {
            let left = lane.waiting.len() as u64;
            lane.waits.extend(lane.waiting.iter().map(|message| end - message.since));
            lane.waits.sort_unstable();
            let counts = (lane.started, lane.done, left);
            LevelForecast::new(&level.name, lane.waits, counts, Duration::from_nanos(lane.busy))
        };
        let levels = self.lanes.into_iter().zip(&simulation.set.levels).map(level).collect();
        Forecast::new(levels, simulation.duration, simulation.slots)
    }
}

/// From an exponential distribution with this mean, in seconds.
fn drawn(lot: &mut fastrand::Rng, mean: f64) -> Time {
    nanoseconds(-(1.0 - lot.f64()).ln() * mean)
}

fn nanoseconds(seconds: f64) -> Time {
    let time = Duration::try_from_secs_f64(seconds).map(|time| time.as_nanos());
    time.ok().and_then(|time| time.try_into().ok()).unwrap_or(Time::MAX)
}
