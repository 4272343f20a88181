//! Finds what an error decides, also where its type is hidden: an anyhow or eyre error that becomes a `Box<dyn Error>` hides its top
//! error, which can no longer be downcast to and is not among its own sources. But its text is still written by its own `Display`. So
//! our errors say what they decide when their text is written, and `said_by` listens while it writes one.

use std::{cell::RefCell, error::Error as StdError, fmt, fmt::Write as _, time::Duration};

use super::Error;

/// What an error decides.
pub(super) enum Said {
    Permanent,
    RetryAfter(Duration),
    Retryable,
    Fault,
    Error(Box<Error>),
}

thread_local! {
    /// What was said since somebody on this thread began to listen; none: nobody listens.
    static HEARD: RefCell<Option<Vec<Said>>> = const { RefCell::new(None) };
}

/// Says it to whoever listens.
pub(super) fn say(what: impl FnOnce() -> Option<Said>) {
    if HEARD.with_borrow(Option::is_none) {
        return;
    }
    let said = what();
    HEARD.with_borrow_mut(|heard| heard.get_or_insert_default().extend(said));
}

/// What this error says while its text is written.
pub(super) fn said_by(link: &(dyn StdError + 'static)) -> Vec<Said> {
    let _listening = Listening(HEARD.replace(Some(Vec::new())));
    // Its text goes nowhere; that it cannot be written is nothing it has said.
    let _ = write!(Nowhere, "{link}");
    HEARD.take().unwrap_or_default()
}

/// Who listened before listens again, also after a `Display` that panics.
struct Listening(Option<Vec<Said>>);

impl Drop for Listening {
    fn drop(&mut self) {
        HEARD.set(self.0.take());
    }
}

struct Nowhere;

impl fmt::Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}
