//! What operators do by hand, written once: the command line prints it, the console shows it and answers with it. Everything is built on the verbs
//! of [`store`](crate::store) and changes nothing that they do not; texts about a message pass [`Masks`](crate::Masks) here.

mod cancel;
mod findings;
mod flags;
mod moved;
mod publishing;
mod repair;
mod sending;
mod shown;
mod standing;
mod times;

pub use self::{
    cancel::{CancelReport, Canceller},
    findings::{Done, Examination, Finding, QueueFindings, orphans},
    flags::{request_state, set_flag},
    moved::{Moved, reschedule, run_now},
    publishing::{Publishing, Unpublished},
    repair::{FailedPages, Repair, Repaired, repair, wake},
    sending::{Batch, Unsent},
    shown::{ShownFailure, ShownMessage, hidden, hide, nowhere, show_failure, show_message},
    standing::{LaneTargets, Standing},
    times::{parse_duration, parse_time, quoted},
};
