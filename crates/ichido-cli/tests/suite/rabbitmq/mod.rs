//! Queues that RabbitMQ keeps, through the command line: what is refused, what a relay does alone, what a broker that is away
//! costs, and several processes that receive. On all three databases.

mod cluster;
mod doctor;
mod dying;
mod failing;
mod hostile;
mod inbox;
mod interop;
pub(crate) mod ledger;
mod mended;
mod moving;
mod purged;
mod quiet;
mod receiving;
mod refusing;
mod relaying;
mod silence;
mod storm;
mod waiting;
pub(crate) mod world;
