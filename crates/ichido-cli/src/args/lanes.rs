//! `ichido lanes` as clap reads it.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Lanes {
    /// Predict waiting times per level by simulating random arrivals; needs no database
    Simulate(Simulate),
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The lane set; may be left out if the configuration has only one
    pub(crate) lanes: Option<String>,
    /// Arrival rate: LEVEL=50/s, also /m, /h and /d; without LEVEL=, for every level. Repeatable
    #[arg(long, value_name = "[LEVEL=]RATE")]
    pub(crate) rate: Vec<String>,
    /// Time to process a message: LEVEL=40ms; without LEVEL=, for every level. Repeatable
    #[arg(long, value_name = "[LEVEL=]TIME", required = true)]
    pub(crate) service: Vec<String>,
    /// Messages already waiting at the start: LEVEL=1000; without LEVEL=, for every level. Repeatable
    #[arg(long, value_name = "[LEVEL=]NUMBER")]
    pub(crate) backlog: Vec<String>,
    /// Every message takes exactly that long [default: exponentially distributed]
    #[arg(long)]
    pub(crate) fixed: bool,
    /// Number of workers [default: as configured for the action of the lane set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// Policy to simulate [default: the configured one]
    #[arg(long, value_parser = ["dedicated", "strict", "weighted"])]
    pub(crate) policy: Option<String>,
    /// Simulated time
    #[arg(long, default_value = "10m", value_parser = crate::config::parse_duration)]
    pub(crate) duration: Duration,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write a plot of the waiting times to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
