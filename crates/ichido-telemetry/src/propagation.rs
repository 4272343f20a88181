//! The context of a trace, between spans and the header `traceparent`: what the core asks for when it sends, publishes and runs messages.

use std::collections::HashMap;

use ichido::trace::{TRACEPARENT, Traces};
use opentelemetry::{
    propagation::TextMapPropagator as _,
    trace::{Status, TraceContextExt as _},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// From now on sends, publications and messages of this program carry the context of spans that a layer of `tracing-opentelemetry` knows.
pub fn propagate() {
    ichido::trace::install(OpenTelemetry);
}

struct OpenTelemetry;

impl Traces for OpenTelemetry {
    fn traceparent(&self, span: &Span) -> Option<String> {
        let context = span.context();
        if !context.span().span_context().is_valid() {
            return None;
        }
        let mut carrier = HashMap::new();
        TraceContextPropagator::new().inject_context(&context, &mut carrier);
        carrier.remove(TRACEPARENT)
    }

    fn follow(&self, span: &Span, traceparent: &str) {
        let carrier = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
        let context = TraceContextPropagator::new().extract(&carrier);
        // A header that says nothing leaves the span where it is.
        if context.span().span_context().is_valid() {
            let _ = span.set_parent(context);
        }
    }

    fn fail(&self, span: &Span, code: &'static str) {
        span.set_status(Status::error(code));
    }
}
