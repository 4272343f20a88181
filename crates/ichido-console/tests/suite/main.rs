//! The console from outside: as a browser shows it.

mod pages;
mod pictures;
mod stage;
