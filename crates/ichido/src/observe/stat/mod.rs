//! What is measured and what it means. Workers count into a `meter`, `upkeep` hands what is new to the store once per sign
//! of life, and `status` adds the rows of the last minutes up to a [`Load`] per queue, from which [`advise`] says what to tune.
//! Nothing here talks to a database.

mod advice;
#[cfg(test)]
mod advice_tests;
mod erlang;
mod flush;
mod histogram;
mod load;
mod measures;
mod meter;
#[cfg(test)]
mod simulated;
mod tally;

pub use self::{
    advice::{Advice, advise, spell},
    erlang::slots_for,
    histogram::{ERROR, Histogram, bounds},
    load::{Backlog, Load, Quantiles, Summary, loads, loads_of},
    measures::{ActionSlots, Measures, QueueMeasures},
    tally::{Lane, Stat, StatRow, Tally},
};
pub(crate) use self::{
    flush::Flush,
    measures::Backlogs,
    meter::{Meter, Meters},
};

/// What `status` looks back on.
pub const WINDOW: std::time::Duration = std::time::Duration::from_mins(5);
