//! Priority by service level. A [`LaneSet`] is a list of levels, highest first, each with a queue of its own, and the policy by
//! which they share the workers of an action. Senders name a level, the reader of the set asks the [`Chooser`] whose turn
//! it is, and [`Simulation`] plays the same chooser against arrivals that were drawn by lot.

mod chooser;
#[cfg(test)]
mod chooser_tests;
mod cycle;
mod forecast;
mod routes;
mod set;
mod simulation;
#[cfg(test)]
mod simulation_tests;

pub use self::{
    chooser::{Chooser, LevelState, Pick},
    forecast::{Forecast, LevelForecast},
    routes::{LevelBy, Routes, Sent},
    set::{LaneSet, Level, MOST_LEVELS, Policy},
    simulation::{Load, Simulation, Spread, Start},
};
