//! The console's router, asked without a network: who may do what, and what is refused.

mod desk;
mod guards;
mod roles;
