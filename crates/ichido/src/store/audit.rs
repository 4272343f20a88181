//! The audit: what was changed by hand, by whom, from where and why. A store carries who changes something, and writes it beside what was
//! done, in the same transaction.

use serde::Serialize;

use crate::{
    MessageId,
    error::Result,
    store::{Database, host},
};

/// What is changed by hand, and by whom.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Audit: Database {
    /// The same database, where this one changes things from now on.
    #[must_use]
    fn by(&self, by: By) -> Self;

    /// Who changes things here.
    fn acts_for(&self) -> &By;

    /// Notes something that was done to a message and has no transaction of its own.
    fn note(&self, verb: &str, id: &MessageId, detail: &str) -> impl Future<Output = Result<()>> + Send;

    /// Notes something that is done to a message in this transaction.
    fn note_in(
        &self,
        tx: &mut Self::Tx,
        verb: &str,
        id: &MessageId,
        detail: &str,
    ) -> impl Future<Output = Result<()>> + Send;

    /// What was changed by hand, the newest first: of this queue, or of all and of request ids; up to `limit` entries, after the one with
    /// this number.
    fn audit(
        &self,
        queue: Option<&str>,
        after: Option<i64>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Audited>>> + Send;
}

/// Who changes something by hand, from where, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct By {
    /// The user.
    pub user: Option<String>,
    /// The machine.
    pub host: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// No more of a name is kept.
const LONGEST: usize = 255;

impl By {
    /// Nobody that is known.
    #[must_use]
    pub const fn nobody() -> Self {
        By { user: None, host: None, reason: None }
    }

    /// This user, on this machine.
    pub fn user(user: impl Into<String>) -> Self {
        By { user: Some(user.into()), host: Some(host()), reason: None }.shortened()
    }

    /// Whoever runs this program, as the environment says, or else by number, on this machine.
    #[must_use]
    pub fn here() -> Self {
        let name = |variable: &str| std::env::var(variable).ok().filter(|name| !name.trim().is_empty());
        let user = name("SUDO_USER").or_else(|| name("USER")).or_else(|| name("LOGNAME"));
        let user = user.or_else(|| Some(format!("uid {}", rustix::process::getuid().as_raw())));
        By { user, host: Some(host()), reason: None }.shortened()
    }

    /// For this reason.
    #[must_use]
    pub fn because(mut self, reason: Option<String>) -> Self {
        self.reason = reason;
        self
    }

    /// What every database can keep.
    fn shortened(mut self) -> Self {
        for name in [&mut self.user, &mut self.host].into_iter().flatten() {
            *name = name.chars().filter(|c| *c != '\0').take(LONGEST).collect();
        }
        self
    }
}

/// Something that was changed by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Audited {
    /// Its number; later ones have higher numbers.
    pub number: i64,
    /// When, in UTC.
    pub at: String,
    /// What was done: `cancel`, `retry`, `stop`, …
    pub verb: String,
    /// To which message, `queue/key`, or to which request id.
    pub what: String,
    /// More about it: the errors of a message that was retried or discarded, the state that a cancelled one was in.
    pub detail: String,
    /// Who did it; nothing is known about what was done before the tables had version 8.
    #[serde(flatten)]
    pub by: By,
}

impl Audited {
    /// An entry of the audit. Without a queue it is about a request id.
    #[must_use]
    pub fn new(number: i64, at: String, verb: String, (queue, key): (String, String), detail: String, by: By) -> Self {
        let what = if queue.is_empty() { key } else { format!("{queue}/{key}") };
        Audited { number, at, verb, what, detail, by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_database_can_keep_is_shortened() {
        let by = By::user(format!("a\0{}", "é".repeat(300)));
        assert_eq!(by.user.map(|user| user.chars().count()), Some(LONGEST));
    }
}
