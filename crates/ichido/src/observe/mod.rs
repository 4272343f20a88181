//! What operators see of a running process: the journal, with its masks, what is counted for `status` and its advice, and
//! progress. Watches; decides nothing.

pub(crate) mod journal;
pub(crate) mod masks;
pub(crate) mod progress;
pub(crate) mod span;
pub mod stat;
pub mod trace;

pub use self::{
    journal::{ANALYSIS, MONITOR},
    masks::{Hidden, MASK, Masks},
};
