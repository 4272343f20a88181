//! Traces across processes. Sends, publications, claims, actions and commits are spans of [`TARGET`], beside the span of each message; whoever
//! collects them tells us, through [`Traces`], how the context of a span is written into the header `traceparent`, and which span goes on
//! with one. Without a collector nothing is made and nothing is written; a context that came with a message is passed on. No span has a payload.

use std::{borrow::Cow, sync::OnceLock};

use tracing::{Metadata, Span};

use crate::{Headers, NewMessage};

/// The target of the spans that are made for traces alone.
pub const TARGET: &str = "ichido::trace";

/// The header in which the context of a trace travels, as W3C has it.
pub const TRACEPARENT: &str = "traceparent";

/// How spans and the header belong together; a collector of spans knows it.
pub trait Traces: Send + Sync + 'static {
    /// The context of a span, as the header has it; none if the span is not collected.
    fn traceparent(&self, span: &Span) -> Option<String>;

    /// The span goes on with this context. It has just been made.
    fn follow(&self, span: &Span, traceparent: &str);

    /// The span ends with an error of this kind.
    fn fail(&self, span: &Span, code: &'static str);
}

static TRACES: OnceLock<Box<dyn Traces>> = OnceLock::new();

/// From now on this program's traces are collected. The first one stays.
pub fn install(traces: impl Traces) {
    let _ = TRACES.set(Box::new(traces));
}

/// Is this span of ichido's part of a trace? Its others are for log lines.
#[must_use]
pub fn is_traced(about: &Metadata<'_>) -> bool {
    about.target() == TARGET || about.name() == "message"
}

/// A span for traces, of this name.
macro_rules! span {
    (parent: None, $name:literal $(, $($field:tt)*)?) => {
        tracing::info_span!(target: $crate::trace::TARGET, parent: None, $name $(, $($field)*)?)
    };
    ($name:literal $(, $($field:tt)*)?) => {
        tracing::info_span!(target: $crate::trace::TARGET, $name $(, $($field)*)?)
    };
}

pub(crate) use span;

/// The span goes on with what the headers say.
pub(crate) fn follow(span: &Span, headers: &Headers) {
    if let (Some(traces), Some(traceparent)) = (TRACES.get(), headers.get(TRACEPARENT)) {
        traces.follow(span, traceparent);
    }
}

/// The span ends with an error, if there is a code for one.
pub(crate) fn fail(span: &Span, code: Option<&'static str>) {
    if let (Some(traces), Some(code)) = (TRACES.get(), code) {
        traces.fail(span, code);
    }
}

/// The context of a span.
pub(crate) fn traceparent(span: &Span) -> Option<String> {
    TRACES.get().and_then(|traces| traces.traceparent(span))
}

/// The span of a send, and the messages that carry it. What a sender itself says about the trace of the first message comes first.
pub(crate) fn sending<'a>(to: &str, messages: &'a [NewMessage]) -> (Span, Cow<'a, [NewMessage]>) {
    let span = span!("send", queue = to, messages = messages.len(), otel.kind = "producer");
    let Some(first) = messages.first().filter(|_| TRACES.get().is_some()) else { return (span, messages.into()) };
    follow(&span, &first.headers);
    let Some(traceparent) = traceparent(&span) else { return (span, messages.into()) };
    let same = |message: &&mut NewMessage| message.headers.get(TRACEPARENT) == first.headers.get(TRACEPARENT);
    let mut carrying = messages.to_vec();
    carrying.iter_mut().filter(same).for_each(|message| message.traceparent = Some(traceparent.clone()));
    (span, carrying.into())
}
