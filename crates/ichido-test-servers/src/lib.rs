//! Real servers for ichido's own tests, started by the tests themselves on free ports of 127.0.0.1, each in a temporary folder
//! of its own; [`proxy`], which cuts their connections at the worst moments, and [`injector`], which makes SQS misbehave. One file per kind of server; what they share
//! is `guardian` (the process that ends a server when the test process ends, however it ends), `starting` (how it comes up),
//! `user` (as whom it runs), `programs` (where its commands are), `processes` and `port`.
//!
//! A missing server makes the test fail with the command that installs it; it is never skipped.

#![forbid(unsafe_code)]
#![allow(clippy::missing_panics_doc, reason = "a test harness speaks by panicking")]

mod browser;
pub mod certificates;
mod chromium;
mod guardian;
mod host;
pub mod injector;
mod mariadb;
mod pgbouncer;
mod port;
mod postgres;
mod processes;
mod programs;
mod prometheus;
pub mod proxy;
mod rabbitmq;
mod rabbitmq_cluster;
mod rabbitmq_modules;
mod rabbitmq_tls;
mod sqs;
mod sqs_api;
mod starting;
mod unused;
mod user;

pub use browser::{Browser, Look};
pub use chromium::Chromium;
pub use host::Host;
pub use mariadb::MariaDb;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use prometheus::Prometheus;
pub use rabbitmq::{DEPTH, RabbitMq};
pub use rabbitmq_cluster::RabbitMqCluster;
pub use sqs::Sqs;
pub use sqs_api::{Api as SqsApi, REGION as SQS_REGION, Waiting};
pub use unused::Lent;
