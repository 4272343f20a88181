//! What a process tells about itself: the line at its start, the settings in force, the line at its end, and each failure,
//! once for the monitor and once for analysis. The context carries it; handlers count in it.

use std::{
    borrow::Cow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{Context, Delivery, Error, Masks, Store, store::Failure};

/// The target of the lines for monitoring: one per failure, with a code and the ids, without the message.
pub const MONITOR: &str = "ichido::monitor";

/// The target of the lines for analysing a failure: the error and the message, masked.
pub const ANALYSIS: &str = "ichido::analysis";

/// Of a long payload this many bytes are logged.
const LONGEST_PAYLOAD: usize = 4096;

#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) masks: Masks,
    /// The settings in force, as they may be shown.
    settings: String,
    begun: Instant,
    /// The request id of a process that has started.
    started: OnceLock<Arc<str>>,
    pub(crate) done: AtomicU64,
    /// Failed for good.
    pub(crate) failed: AtomicU64,
    /// Failed, and run again.
    pub(crate) retried: AtomicU64,
    /// Run again later, because the action said so; nothing had failed.
    pub(crate) snoozed: AtomicU64,
    /// Rolled back because the claim was gone.
    pub(crate) lost: AtomicU64,
    /// Rolled back because an operator cancelled the message.
    pub(crate) cancelled: AtomicU64,
}

impl Journal {
    pub(crate) fn new(masks: Masks, settings: String, begun: Instant) -> Self {
        let [done, failed, retried, snoozed, lost, cancelled] = [const { AtomicU64::new(0) }; 6];
        Journal { masks, settings, begun, started: OnceLock::new(), done, failed, retried, snoozed, lost, cancelled }
    }

    /// The lines at the start; once, however often the process begins anew.
    pub(crate) fn start<S: Store>(&self, cx: &Context<S>) {
        if self.started.set(cx.identity.request_id.clone()).is_err() {
            return;
        }
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            host = crate::store::host(),
            pid = std::process::id(),
            action = cx.request.action,
            request_id = named(cx.request_id()),
            user_id = named(cx.user_id()),
            language = cx.language(),
            time_zone = cx.time_zone(),
            "ichido starts"
        );
        tracing::info!("settings: {}", self.settings);
    }

    /// The line at the end of a process that has started.
    pub(crate) fn end(&self, exit_code: Option<i32>, now: Instant) {
        let Some(request_id) = self.started.get() else { return };
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (done, failed) = (count(&self.done), count(&self.failed));
        let (retried, snoozed, lost) = (count(&self.retried), count(&self.snoozed), count(&self.lost));
        let elapsed_seconds = (now.saturating_duration_since(self.begun).as_secs_f64() * 1000.0).round() / 1000.0;
        let (cancelled, request_id) = (count(&self.cancelled), named(request_id));
        tracing::info!(
            exit_code,
            elapsed_seconds,
            done,
            failed,
            retried,
            snoozed,
            lost,
            cancelled,
            request_id,
            "ichido ends"
        );
    }

    /// A message has failed, or is only snoozed.
    pub(crate) fn failure(&self, delivery: &Delivery, failure: &Failure) {
        let (message, attempt) = (&delivery.message, delivery.attempt);
        let Failure { error, code, .. } = failure;
        let id = message.id();
        if let Some(after) = failure.retry_after.filter(|_| failure.is_snooze()) {
            tracing::debug!(target: MONITOR, code, attempt, "{id} snoozed; runs again in {after:.1?}");
            return;
        }
        let payload = shortened(&self.masks.payload(&message.payload));
        let headers = serde_json::to_string(&self.masks.headers(&message.headers)).ok();
        let headers = headers.filter(|_| !message.headers.is_empty());
        let fate = fate(delivery, failure);
        if delivery.claim.is_some() && failure.retry_after.is_none() {
            tracing::error!(target: MONITOR, code, attempt, "{id} failed {fate}");
            tracing::error!(target: ANALYSIS, code, attempt, payload, headers, "{error}");
        } else {
            tracing::warn!(target: MONITOR, code, attempt, "{id} failed {fate}");
            tracing::warn!(target: ANALYSIS, code, attempt, payload, headers, "{error}");
        }
    }

    /// The process has failed.
    pub(crate) fn process_failure<S: Store>(cx: &Context<S>, error: &Error, status: i32) {
        let process_id = cx.process_id().map(tracing::field::display);
        let (request_id, user_id) = (named(cx.request_id()), named(cx.user_id()));
        tracing::error!(target: MONITOR, code = "process", status, process_id, request_id, user_id, "the process failed");
        let process_id = cx.process_id().map(tracing::field::display);
        tracing::error!(target: ANALYSIS, code = "process", status, process_id, request_id, user_id, "{error:#}");
    }
}

/// What becomes of a message that has failed. Of one that was not claimed only its reader knows.
fn fate(delivery: &Delivery, failure: &Failure) -> Cow<'static, str> {
    match failure.retry_after {
        _ if delivery.claim.is_none() => "and goes back to its reader".into(),
        None => "for good".into(),
        Some(after) => format!("and runs again in {after:.1?}").into(),
    }
}

/// What is not empty.
pub(crate) fn named(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn shortened(payload: &str) -> String {
    let end = payload.floor_char_boundary(LONGEST_PAYLOAD);
    if end == payload.len() { payload.to_owned() } else { format!("{}… ({} bytes)", &payload[..end], payload.len()) }
}
