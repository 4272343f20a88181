//! The tests of the command line: each runs the binary, or a program of the user's own, from outside, against real servers. One
//! module per topic; they are one binary, so that they are linked once and share their servers. What they all need is in
//! `testenv`.

#[macro_use]
mod testenv;

mod adopt;
mod adopt_asks;
mod adopt_public;
mod adopt_refusals;
mod axum_service;
mod bad_input;
mod batching;
mod clients;
mod collector;
mod commands;
mod crowded;
mod examples;
mod exec;
mod failed;
mod faults;
mod fleet;
mod handler_queue;
mod http;
mod json;
mod lanes;
mod log_programs;
mod logs;
mod lost_host;
mod measuring;
mod metrics;
mod migrating;
mod outage;
mod papers;
mod pooler;
mod probes;
mod programs;
mod rabbitmq;
mod readme;
mod roles;
mod rolling;
mod schemas;
mod sending;
mod silence;
mod snoozing;
mod sql_names;
mod stopping;
mod strangers;
mod terminal;
mod traces;
mod typed;
mod unfit_tables;
