//! Values between databases, JSON and the built-in actions, on all three databases.

#[path = "../testenv/mod.rs"]
mod testenv;

mod copied;
mod met;
mod shown;
