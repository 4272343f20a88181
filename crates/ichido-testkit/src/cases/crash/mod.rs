//! What must hold when whole processes die. Each case starts processes of its own test program.

pub mod deaths;
pub mod files;
