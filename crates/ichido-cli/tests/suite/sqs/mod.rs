//! Queues that SQS keeps, through the command line, behind an injector of what Amazon's does on its bad days. On all three databases.

mod bodies;
mod commands;
mod failing;
mod fifo;
mod lanes;
mod receiving;
mod storm;
mod world;
