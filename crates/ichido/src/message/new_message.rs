//! What is sent: a payload in JSON, headers, and how it is to be treated. Senders make it, stores write it down.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::{Error, Headers, error::Result};

/// A unique key or a group has at most so many bytes: databases index them.
const LONGEST_KEY: usize = 255;

/// The end of the year 9999, in milliseconds: databases know no later time.
const LATEST: i64 = 253_402_300_799_000;

/// A message to be sent.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct NewMessage {
    /// JSON; for a table queue an object whose fields are columns.
    pub payload: Vec<u8>,
    /// Texts beside it; a table queue has no place for them.
    pub headers: Headers,
    /// When it may run; none: at once.
    pub due: Option<Due>,
    /// While a message with this key is neither done nor failed, no second one is sent. Managed queues only.
    pub unique: Option<String>,
    /// Messages of a group run one at a time and in order. Managed queues, and FIFO queues of SQS: a table queue has `group_by`.
    pub group: Option<String>,
    /// The level of the lane set that it is sent to.
    pub level: Option<String>,
    /// How many attempts it gets, in place of its action's `retry`; a table queue has no place for it.
    pub attempts: Option<u32>,
    /// The trace that it belongs to, in place of what its headers say; a table queue has no place for it.
    pub traceparent: Option<String>,
}

/// When a message may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after it was sent, by the database's clock.
    After(Duration),
    /// At this time.
    At(SystemTime),
}

impl NewMessage {
    /// A message with this JSON.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        NewMessage { payload: payload.into(), ..NewMessage::default() }
    }

    /// A message with this value as JSON.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn encode(value: &impl Serialize) -> Result<Self> {
        Ok(NewMessage::new(serde_json::to_vec(value)?))
    }

    /// It may run only after this time.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Some(Due::After(delay));
        self
    }

    /// It may run only from this time on.
    #[must_use]
    pub fn at(mut self, time: SystemTime) -> Self {
        self.due = Some(Due::At(time));
        self
    }

    /// While a message with this key is neither done nor failed, no second one is sent.
    #[must_use]
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.unique = Some(key.into());
        self
    }

    /// Messages of a group run one at a time and in order.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// It is sent to this level of a lane set.
    #[must_use]
    pub fn level(mut self, level: impl Into<String>) -> Self {
        self.level = Some(level.into());
        self
    }

    /// It gets so many attempts, in place of what its action's `retry` says.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// A text beside the payload.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Refuses a unique key or a group that no database can keep.
    ///
    /// # Errors
    /// [`Error::Refused`] if one of them is empty or too long.
    pub fn refuse_keys(&self) -> Result<()> {
        for (what, key) in [("unique key", &self.unique), ("group", &self.group)] {
            let Some(key) = key else { continue };
            if key.is_empty() || key.len() > LONGEST_KEY || key.contains('\0') {
                return Err(Error::Refused(format!(
                    "a {what} must have 1 to {LONGEST_KEY} bytes and no NUL; this one has {} bytes",
                    key.len()
                )));
            }
        }
        Ok(())
    }
}

impl From<Duration> for Due {
    fn from(delay: Duration) -> Self {
        Due::After(delay)
    }
}

impl From<SystemTime> for Due {
    fn from(time: SystemTime) -> Self {
        Due::At(time)
    }
}

impl Due {
    /// Milliseconds from now, or since 1970, whichever this is.
    #[must_use]
    pub fn millis(self) -> (Option<i64>, Option<i64>) {
        match self {
            Due::After(delay) => (Some(wait_ms(delay)), None),
            Due::At(time) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                (None, Some(i64::try_from(since.as_millis()).unwrap_or(i64::MAX).min(LATEST)))
            }
        }
    }
}

/// Databases cannot count further than some time; ten years are for ever enough.
const LONGEST_WAIT: Duration = Duration::from_hours(10 * 365 * 24);

/// A wait in milliseconds, capped at what databases can add to a time.
#[must_use]
pub fn wait_ms(wait: Duration) -> i64 {
    i64::try_from(wait.min(LONGEST_WAIT).as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_database_can_keep_are_refused() {
        for key in [String::new(), "x".repeat(256), "a\0b".into()] {
            assert!(NewMessage::new("1").unique(&*key).refuse_keys().is_err(), "{key:?}");
            assert!(NewMessage::new("1").group(&*key).refuse_keys().is_err(), "{key:?}");
        }
        assert!(NewMessage::new("1").unique("x".repeat(255)).group("日本").refuse_keys().is_ok());
    }
}
