//! What an action wants of its business transactions: the isolation, the time that a run may take, and which failures commit
//! what was written all the same. A [`Pool`](crate::Pool) has them; stores begin transactions on them.

use std::{error::Error as StdError, fmt, time::Duration};

use crate::{
    Error, Outcome,
    error::{Result, chain},
};

/// How a business transaction is to be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Terms {
    /// What it sees of others.
    pub isolation: Isolation,
    /// The server ends a statement that takes longer. Whose action takes longer is out of time by then.
    pub limit: Option<Duration>,
}

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what others have committed.
    #[default]
    ReadCommitted,
    /// All statements see the same rows.
    RepeatableRead,
    /// As if nobody else were there.
    Serializable,
}

impl Isolation {
    /// Its name in SQL.
    #[must_use]
    pub fn as_sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// A failure after which what the action has written is committed all the same, in one transaction with the record that the
/// message has failed for good: it cannot run again by itself, or its effects would be there twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOn {
    /// The action said [`Outcome::Park`].
    Park,
    /// The action returned an error and its transaction is whole.
    Error,
}

/// The failures of a pool that commit.
#[derive(Clone, Default)]
pub(crate) struct Committing {
    pub(crate) kinds: Vec<CommitOn>,
    pub(crate) types: Vec<fn(&(dyn StdError + 'static)) -> bool>,
}

impl Committing {
    /// Only what the action itself has said: a panic or a run that was out of time stopped anywhere, and a database fault
    /// says nothing about the message.
    pub(crate) fn commits(&self, result: &Result<Outcome>) -> bool {
        match result {
            Ok(Outcome::Park(_)) => self.kinds.contains(&CommitOn::Park),
            Err(Error::Failed(cause)) => {
                self.kinds.contains(&CommitOn::Error)
                    || chain(cause.as_ref()).any(|cause| self.types.iter().any(|is| is(cause)))
            }
            _ => false,
        }
    }
}

impl fmt::Debug for Committing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} and {} types", self.kinds, self.types.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_action_has_said_commits() {
        let all = Committing { kinds: vec![CommitOn::Park, CommitOn::Error], types: Vec::new() };
        assert!(all.commits(&Ok(Outcome::park("no"))) && all.commits(&Err("no".into())));
        for other in [Ok(Outcome::retry()), Err(Error::Panic("no".into())), Err(Error::TimedOut(Duration::ZERO))] {
            assert!(!all.commits(&other), "{other:?}");
        }
        assert!(!Committing::default().commits(&Ok(Outcome::park("no"))));
    }

    #[derive(Debug)]
    struct Outer(fmt::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("outer")
        }
    }

    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_commits_by_its_type_also_as_the_source_of_another() {
        let typed = Committing { kinds: Vec::new(), types: vec![|cause| cause.is::<fmt::Error>()] };
        assert!(typed.commits(&Err(Error::failed(fmt::Error))));
        assert!(typed.commits(&Err(Error::failed(Outer(fmt::Error)))));
        assert!(!typed.commits(&Err("no".into())) && !typed.commits(&Ok(Outcome::park("no"))));
    }
}
