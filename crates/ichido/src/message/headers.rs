//! Headers: small texts beside the payload. Senders write them, stores keep them as JSON, brokers carry them. Names that begin with
//! `x-ichido-` are ichido's own; one of them says how many attempts a message gets, and is read here, whoever has written it.

use std::collections::BTreeMap;

use crate::{Error, Message, NewMessage, error::Result, trace::TRACEPARENT};

/// Small texts sent along with the payload.
pub type Headers = BTreeMap<String, String>;

/// How many attempts a message gets, in place of its action's `retry`.
pub const ATTEMPTS: &str = "x-ichido-attempts";

/// The group of a message whose broker keeps the order of groups.
pub const GROUP: &str = "x-ichido-group";

/// More attempts than this nobody can ask for.
pub const MOST_ATTEMPTS: u32 = 1_000_000;

/// A message has at most so many headers.
const MOST_HEADERS: usize = 64;

/// So many bytes they have together, as JSON: brokers take them in one frame.
const MOST_BYTES: usize = 32 * 1024;

/// AMQP's limit for names.
const LONGEST_NAME: usize = 255;

/// What names a message at a broker, today and in earlier libraries.
const MUTEX_IDS: [&str; 2] = ["x-message-mutex", "x-mutex-id"];

/// Is a header of this name ichido's own?
#[must_use]
pub fn is_own_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("x-ichido-") || MUTEX_IDS.contains(&&*name)
}

impl Message {
    /// With these headers, as they were kept or received. How many attempts it gets is taken out of them.
    #[must_use]
    pub fn with_headers(mut self, mut headers: Headers) -> Self {
        self.attempts = headers.remove(ATTEMPTS).and_then(|text| read_attempts(&text));
        self.headers = headers;
        self
    }

    /// Its headers as JSON, as stores keep them.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn written_headers(&self) -> Result<String> {
        write(&self.headers, self.attempts)
    }
}

impl NewMessage {
    /// Its headers as JSON, as stores keep them.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn written_headers(&self) -> Result<String> {
        let Some(traceparent) = &self.traceparent else { return write(&self.headers, self.attempts) };
        let mut headers = self.headers.clone();
        headers.insert(TRACEPARENT.into(), traceparent.clone());
        write(&headers, self.attempts)
    }

    /// The same as the outbox keeps them, with its group: a broker has no column for that.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn broker_headers(&self) -> Result<String> {
        let Some(group) = &self.group else { return self.written_headers() };
        let mut message = self.clone();
        message.headers.insert(GROUP.into(), group.clone());
        message.written_headers()
    }

    /// Refuses headers that are ichido's own, or more than brokers can carry, and numbers of attempts that are none.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason.
    pub fn refuse_headers(&self) -> Result<()> {
        let refused = |text: String| Err(Error::Refused(text));
        for name in self.headers.keys() {
            if is_own_header(name) {
                return refused(format!("the header `{name}` is ichido's own; choose another name"));
            }
            if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
                return refused(format!(
                    "a header's name must have 1 to {LONGEST_NAME} bytes and no control characters; found {name:.40?}"
                ));
            }
        }
        let (count, size) = (self.headers.len(), self.written_headers()?.len());
        if count > MOST_HEADERS {
            return refused(format!("a message has at most {MOST_HEADERS} headers; this one has {count}"));
        }
        if size > MOST_BYTES {
            return refused(format!(
                "the headers of a message have at most {MOST_BYTES} bytes as JSON; these have {size}"
            ));
        }
        match self.attempts {
            Some(attempts) if !(1..=MOST_ATTEMPTS).contains(&attempts) => {
                refused(format!("a message gets 1 to {MOST_ATTEMPTS} attempts, not {attempts}"))
            }
            _ => Ok(()),
        }
    }
}

/// Those of a kept message that say how many attempts it gets; what cannot be read says nothing.
#[must_use]
pub fn attempts_in(written: &str) -> Option<u32> {
    read_attempts(serde_json::from_str::<Headers>(written).ok()?.get(ATTEMPTS)?)
}

/// Anybody can write it: what is no number or none says nothing, and what is too much is the most.
fn read_attempts(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let attempts = digits.then(|| text.parse().unwrap_or(MOST_ATTEMPTS).min(MOST_ATTEMPTS))?;
    (attempts > 0).then_some(attempts)
}

fn write(headers: &Headers, attempts: Option<u32>) -> Result<String> {
    let Some(attempts) = attempts else { return Ok(serde_json::to_string(headers)?) };
    let mut all = headers.clone();
    all.insert(ATTEMPTS.into(), attempts.to_string());
    Ok(serde_json::to_string(&all)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn received(value: &str) -> Message {
        let headers = [(ATTEMPTS, value), ("tenant", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Message::new("orders", Key::new(["1"]), *b"{}").with_headers(headers.into())
    }

    #[test]
    fn the_number_of_attempts_is_read_and_hidden_and_written_again() {
        let message = received("7");
        assert_eq!((message.attempts, message.headers.len()), (Some(7), 1));
        let written = message.written_headers().unwrap();
        assert_eq!(attempts_in(&written), Some(7));
        assert_eq!(attempts_in("{}"), None);
    }

    #[test]
    fn hostile_numbers_of_attempts_say_nothing_or_the_most() {
        for text in ["", "0", "000", "-1", "+3", "3.5", "1e3", " 3", "three", "٣", "0x10", "NaN", "null", "3\0"] {
            assert_eq!(received(text).attempts, None, "{text:?}");
        }
        for text in ["1000001", "4294967296", "99999999999999999999999999"] {
            assert_eq!(received(text).attempts, Some(MOST_ATTEMPTS), "{text}");
        }
        assert_eq!(received("007").attempts, Some(7));
        for rubbish in ["", "[]", r#"{"x-ichido-attempts":3}"#, r#"{"x-ichido-attempts":null}"#] {
            assert_eq!(attempts_in(rubbish), None, "{rubbish}");
        }
    }

    #[test]
    fn headers_that_are_ichidos_or_too_large_are_refused() {
        let refused = |message: NewMessage, part: &str| {
            let error = message.refuse_headers().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        for name in ["x-ichido-attempts", "X-Ichido-Anything", "x-message-mutex", "X-Mutex-ID"] {
            refused(NewMessage::new("1").header(name, "v"), "ichido's own");
        }
        for name in [String::new(), "n".repeat(256), "a\nb".into()] {
            refused(NewMessage::new("1").header(name, "v"), "a header's name");
        }
        let many = (0..65).fold(NewMessage::new("1"), |message, n| message.header(format!("h{n}"), "v"));
        refused(many, "at most 64 headers; this one has 65");
        refused(NewMessage::new("1").header("long", "v".repeat(MOST_BYTES)), "as JSON");
        refused(NewMessage::new("1").attempts(0), "not 0");
        refused(NewMessage::new("1").attempts(MOST_ATTEMPTS + 1), "1 to 1000000");
        NewMessage::new("1").header("tenant", "日本\n").attempts(1).refuse_headers().unwrap();
    }
}
