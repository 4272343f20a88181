//! Names that come from outside, checked here for the API and the pages alike: a queue of the configuration, the id of a message in one of them,
//! a request id. What a database could not keep never reaches one.

use ichido::{MessageId, inspect::Cursor, store::LONGEST_REQUEST_ID};

use crate::{Console, Problem};

/// No id is longer, in bytes.
const LONGEST_ID: usize = 2000;

/// A queue of the configuration.
pub(crate) fn queue(console: &Console, queue: &str) -> Result<(), Problem> {
    if console.queues().iter().any(|known| known == queue) {
        return Ok(());
    }
    Err(Problem::nowhere(format!("there is no queue `{queue}` in the configuration")))
}

/// A queue or a lane set: where messages are sent to.
pub(crate) fn destination(console: &Console, to: &str) -> Result<(), Problem> {
    if console.lanes().iter().any(|lanes| *lanes.set.name == *to) { Ok(()) } else { queue(console, to) }
}

/// The id of a message in one of the configuration's queues.
pub(crate) fn id(console: &Console, text: &str) -> Result<MessageId, Problem> {
    let id = plain_id(text)?;
    queue(console, &id.queue)?;
    Ok(id)
}

/// The id of a message. A key has been decoded then, so what is escaped in the text is looked at too.
pub(crate) fn plain_id(text: &str) -> Result<MessageId, Problem> {
    let shown: String = text.chars().take(100).collect();
    let no_id = || Problem::bad(format!("`{shown}` is not the id of a message, like orders/42"));
    if text.len() > LONGEST_ID {
        return Err(Problem::bad(format!("the id of a message has at most {LONGEST_ID} bytes")));
    }
    let id: MessageId = text.parse().map_err(|_| no_id())?;
    if text.contains('\0') || id.key.columns().iter().any(|column| column.contains('\0')) {
        return Err(Problem::bad("the id of a message must not contain NUL"));
    }
    Ok(id)
}

/// Where a list of messages goes on.
pub(crate) fn place(text: &str) -> Result<Cursor, Problem> {
    let place: Option<Cursor> = text.parse().ok();
    let is_plain = |place: &Cursor| !place.values.iter().flatten().any(|value| value.contains('\0'));
    place.filter(is_plain).ok_or_else(|| Problem::bad("`after` must be what the last page said"))
}

/// What processes serve.
pub(crate) fn request_id(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() || text.len() > LONGEST_REQUEST_ID || text.contains('\0') {
        return Err(Problem::bad(format!("a request id has 1 to {LONGEST_REQUEST_ID} bytes")));
    }
    Ok(())
}
