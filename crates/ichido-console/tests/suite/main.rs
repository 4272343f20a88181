//! The console's router, asked without a network: who may do what, and what is refused. And its pages, as a browser shows them.

mod audit;
mod desk;
mod guards;
mod keyboard;
mod lists;
mod live;
mod metrics;
mod mounted;
mod pages;
mod pictures;
mod roles;
mod rubbish;
mod stage;
mod visitor;
