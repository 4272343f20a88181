//! The proxy does to a connection what it says, and the database shows it: the
//! effect is there or it is not, as it must be, a hundred times each. `cases`
//! are the same for all databases; each protocol's file adds what is its own.

mod amqp;
mod bench;
mod cases;
mod mysql;
mod postgres;
