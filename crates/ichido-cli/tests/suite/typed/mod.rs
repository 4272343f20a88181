//! Values between databases, JSON and the built-in actions, on all three databases.

mod copied;
mod expressions;
mod met;
mod shown;
