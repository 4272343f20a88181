//! For your own tests: what an action does, without a process and without leaving anything behind; a process that runs until
//! its queues are empty; a clock that stands still; and processes that die where you say. Nothing in here is used by ichido itself.
//!
//! | what a test wants | how |
//! | --- | --- |
//! | to run an action in a transaction that is rolled back, and to look inside | [`Run`], [`Ran`] |
//! | to know what it sent | [`Ran::assert_sent`] |
//! | to run a process until nothing is left, and to count | [`drain`] |
//! | to stop the clock and to move it | [`Dial`] |
//! | a process that dies at a step of its messages | [`crash_at`], [`Step`] |

mod crash;
mod dial;
mod drain;
mod ran;
mod run;
mod sent;

pub use self::{
    crash::{Step, crash_at},
    dial::Dial,
    drain::{Attempt, Drained, drain},
    ran::Ran,
    run::Run,
    sent::{Expected, Sent},
};
