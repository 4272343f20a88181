//! What an action sent, and what a test expects of it. Each expectation narrows down what was sent; when nothing is left, the
//! test fails and says what was expected and what was sent.

use std::{fmt, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{Due, MessageId, NewMessage, error::Result};

/// A message that an action sent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sent {
    /// The queue; of what was published to an exchange, the exchange and the routing key with a slash between.
    pub queue: String,
    /// The id that it got.
    pub id: MessageId,
    /// The message.
    pub message: NewMessage,
}

impl Sent {
    pub(crate) fn new(queue: &str, id: MessageId, message: NewMessage) -> Self {
        Sent { queue: queue.to_owned(), id, message }
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.message.payload)?)
    }

    pub(super) fn list(sent: &[Sent]) -> String {
        match sent {
            [] => "nothing was sent".into(),
            sent => sent.iter().map(|sent| format!("sent: {sent}")).collect::<Vec<_>>().join("\n"),
        }
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NewMessage { payload, headers, due, unique, group, level, attempts, traceparent: _ } = &self.message;
        write!(f, "{}: {}", self.queue, String::from_utf8_lossy(payload))?;
        match due {
            Some(Due::After(delay)) => write!(f, ", delay {delay:?}")?,
            Some(due) => write!(f, ", {due:?}")?,
            None => {}
        }
        for (name, text) in [("unique", unique), ("group", group), ("level", level)] {
            if let Some(text) = text {
                write!(f, ", {name} `{text}`")?;
            }
        }
        if let Some(attempts) = attempts {
            write!(f, ", attempts {attempts}")?;
        }
        headers.iter().try_for_each(|(name, value)| write!(f, ", {name}: {value}"))
    }
}

/// What a test expects of the messages that were sent to a queue.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> ichido::Result<()> {
/// # use ichido::Operate;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}", folder.path().join("test.db").display());
/// # let store = ichido_sqlite::Sqlite::new(&url, vec![ichido::Queue::managed("mail")])?;
/// # store.migrate().await?;
/// use std::time::Duration;
/// use ichido::{Context, NewMessage, Outcome, Result, testing::Run};
/// use ichido_sqlite::Sqlite;
///
/// async fn remind(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
///     let reminder = NewMessage::encode(&format!("dear {name}"))?.delay(Duration::from_secs(3600)).unique(name);
///     cx.send_new("mail", reminder).await?;
///     Ok(Outcome::Done)
/// }
///
/// let ran = Run::new(store).message(&"anna").action_fn(remind).await;
/// ran.assert_sent("mail").with(&"dear anna").delay(Duration::from_secs(3600)).unique("anna").once();
/// # let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(ran.assert_sent("mail").with(&"dear ben"))));
/// # let text = failure.unwrap_err().downcast_ref::<String>().unwrap().clone();
/// # assert_eq!(text, "expected to `mail`: \"dear ben\"\nsent: mail: \"dear anna\", delay 3600s, unique `anna`");
/// # ran.roll_back().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "say what it must be: `with`, `once`, …"]
pub struct Expected<'a> {
    all: &'a [Sent],
    left: Vec<&'a Sent>,
    said: String,
}

impl<'a> Expected<'a> {
    #[track_caller]
    pub(super) fn new(all: &'a [Sent], queue: &str) -> Self {
        let left = all.iter().filter(|sent| sent.queue == queue).collect();
        Expected { all, left, said: format!("expected to `{queue}`:") }.narrow("", |_| true)
    }

    #[track_caller]
    fn narrow(mut self, what: &str, fits: impl Fn(&Sent) -> bool) -> Self {
        self.said.push_str(what);
        self.left.retain(|sent| fits(sent));
        assert!(!self.left.is_empty(), "{}\n{}", self.said, Sent::list(self.all));
        self
    }

    /// With this payload.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn with(self, message: &impl Serialize) -> Self {
        let value = serde_json::to_value(message).expect("a message can be written as JSON");
        self.narrow(&format!(" {value}"), |sent| sent.decode::<Value>().is_ok_and(|sent| sent == value))
    }

    /// With this delay.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn delay(self, delay: Duration) -> Self {
        self.narrow(&format!(", delay {delay:?}"), |sent| sent.message.due == Some(Due::After(delay)))
    }

    /// With this unique key.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn unique(self, key: &str) -> Self {
        self.narrow(&format!(", unique `{key}`"), |sent| sent.message.unique.as_deref() == Some(key))
    }

    /// In this group.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn group(self, group: &str) -> Self {
        self.narrow(&format!(", group `{group}`"), |sent| sent.message.group.as_deref() == Some(group))
    }

    /// With this header.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn header(self, name: &str, value: &str) -> Self {
        let there = |sent: &Sent| sent.message.headers.get(name).is_some_and(|there| there == value);
        self.narrow(&format!(", {name}: {value}"), there)
    }

    /// Exactly this many.
    ///
    /// # Panics
    /// If there are more or fewer.
    #[track_caller]
    pub fn times(self, count: usize) {
        let found = self.left.len();
        assert!(found == count, "{}, {count} times, not {found}\n{}", self.said, Sent::list(self.all));
    }

    /// Exactly one.
    ///
    /// # Panics
    /// If there are more.
    #[track_caller]
    pub fn once(self) {
        self.times(1);
    }
}
