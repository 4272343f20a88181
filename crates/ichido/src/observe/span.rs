//! The ids on every log line about a message: the span in which `read` and `each` run the rest. It is of the highest level, so that
//! lines of every level carry it. In a trace it goes on with what its message's headers say.

use tracing::Span;

use crate::{Context, Store, error::Result, observe::journal::named, trace};

/// The span of the message in hand; of several, that of the first.
pub(crate) fn message_span<S: Store>(cx: &Context<S>) -> Result<Span> {
    let (delivery, count) = (cx.delivery()?, cx.deliveries().len());
    let process_id = delivery.owner().or_else(|| cx.process_id());
    let span = tracing::error_span!(
        "message",
        message_id = %delivery.message.id(),
        together = (count > 1).then_some(count),
        execution_id = cx.execution_id(),
        process_id = process_id.map(tracing::field::display),
        request_id = cx.request_id(),
        user_id = named(cx.user_id()),
        language = cx.language(),
        time_zone = cx.time_zone(),
    );
    trace::follow(&span, &delivery.message.headers);
    Ok(span)
}
