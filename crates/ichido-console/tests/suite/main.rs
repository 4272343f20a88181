//! The console from outside: as a browser shows it; and its router, asked without a network: who may do what, and what is refused.

mod desk;
mod guards;
mod pages;
mod pictures;
mod roles;
mod stage;
