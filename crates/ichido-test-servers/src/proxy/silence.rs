//! Who hears nothing any more. A test silences all open connections at once, or
//! plans it: when the n-th statement that it is waiting for passes, all of them,
//! or that one connection, fall silent. Each connection has an ear, which it
//! shows each statement and asks before it forwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::watch;

/// What is thrown away from now on. Neither side learns that the other has hung up, unless it says so here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// What the server sends. What the client sends still arrives, the end of its stream too.
    Answers,
    /// What either sends, the statement that began it included: the server keeps the session, and its locks.
    Both,
}

/// Who falls silent when a planned silence begins. New connections never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// All connections that are open then.
    Everyone,
    /// The connection on which the statement passes.
    Speaker,
}

impl Silence {
    /// Of both sides, or of the server's answers only.
    #[must_use]
    pub fn of(both: bool) -> Self {
        if both { Silence::Both } else { Silence::Answers }
    }
}

impl Whom {
    /// Everyone, or the speaker only.
    #[must_use]
    pub fn of(everyone: bool) -> Self {
        if everyone { Whom::Everyone } else { Whom::Speaker }
    }
}

/// The silences of one proxy.
#[derive(Debug, Default)]
pub(super) struct Silences {
    open: Mutex<Vec<Weak<OnceLock<Silence>>>>,
    planned: Mutex<Option<Planned>>,
    begun: watch::Sender<u32>,
    passed: AtomicU64,
}

#[derive(Debug)]
struct Planned {
    silence: Silence,
    whom: Whom,
    pattern: String,
    left: u32,
}

impl Silences {
    /// Silences all open connections.
    pub(super) fn begin(&self, silence: Silence) {
        for own in locked(&self.open).drain(..).filter_map(|own| own.upgrade()) {
            // One that is silent already stays as silent as it is.
            own.get_or_init(|| silence);
        }
        self.begun.send_modify(|begun| *begun += 1);
    }

    /// Replaces what was planned before.
    pub(super) fn plan(&self, silence: Silence, whom: Whom, pattern: &str, nth: u32) {
        let pattern = pattern.to_lowercase();
        *locked(&self.planned) = Some(Planned { silence, whom, pattern, left: nth.max(1) });
        self.begun.send_replace(0);
    }

    /// Waits until a silence has begun.
    pub(super) async fn begun(&self) {
        let mut begun = self.begun.subscribe();
        begun.wait_for(|begun| *begun > 0).await.expect("the sender is ours");
    }

    /// How many statements have passed, on all connections.
    pub(super) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// For a new connection.
    pub(super) fn ear(self: &Arc<Self>) -> Ear {
        let own = Arc::default();
        let mut open = locked(&self.open);
        open.retain(|own| own.strong_count() > 0);
        open.push(Arc::downgrade(&own));
        Ear { silences: Arc::clone(self), own }
    }

    /// The planned silence, if this statement is the one that begins it.
    fn due(&self, statement: &[u8]) -> Option<Planned> {
        let mut planned = locked(&self.planned);
        let plan = planned.as_mut()?;
        let text = String::from_utf8_lossy(statement).trim().to_lowercase();
        if is_like(&text, &plan.pattern) {
            plan.left -= 1;
        }
        planned.take_if(|plan| plan.left == 0)
    }
}

/// What one connection hears.
#[derive(Clone, Debug)]
pub(super) struct Ear {
    silences: Arc<Silences>,
    own: Arc<OnceLock<Silence>>,
}

impl Ear {
    /// Shows a statement (for RabbitMQ, a step's name) that passes; it may be the one at which a silence begins.
    pub(super) fn passes(&self, statement: &[u8]) {
        self.silences.passed.fetch_add(1, Ordering::Relaxed);
        match self.silences.due(statement) {
            Some(Planned { silence, whom: Whom::Everyone, .. }) => self.silences.begin(silence),
            Some(Planned { silence, whom: Whom::Speaker, .. }) => {
                self.own.get_or_init(|| silence);
                self.silences.begun.send_modify(|begun| *begun += 1);
            }
            None => {}
        }
    }

    /// Whether the client hears the server.
    pub(super) fn client_hears(&self) -> bool {
        self.own.get().is_none()
    }

    /// Whether the server hears the client.
    pub(super) fn server_hears(&self) -> bool {
        self.own.get() != Some(&Silence::Both)
    }
}

/// As LIKE, without `_`.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('%') else {
        return text == pattern;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('%').unwrap_or(("", rest));
    for part in middle.split('%') {
        match text.split_once(part) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(end)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_what_like_takes() {
        for (text, pattern) in [("commit", "commit"), ("a b c", "a%c"), ("abc", "%b%"), ("ab", "%"), ("aab", "a%ab")] {
            assert!(is_like(text, pattern), "{text} like {pattern}");
        }
        for (text, pattern) in [("commit;", "commit"), ("a b", "a%c"), ("abc", "%d%"), ("ab", "ab%b"), ("a", "%b")] {
            assert!(!is_like(text, pattern), "{text} like {pattern}");
        }
    }

    #[test]
    fn the_second_that_matches_silences_its_connection_or_all_but_new_ones() {
        for whom in [Whom::Speaker, Whom::Everyone] {
            let silences = Arc::new(Silences::default());
            let (one, other) = (silences.ear(), silences.ear());
            silences.plan(Silence::Answers, whom, "COMMIT", 2);
            for statement in ["commit", "select 1", "begin"] {
                one.passes(statement.as_bytes());
            }
            assert!(one.client_hears() && *silences.begun.borrow() == 0);
            one.passes(b"COMMIT");
            assert!(!one.client_hears() && one.server_hears());
            assert_eq!(other.client_hears(), whom == Whom::Speaker);
            assert!(silences.ear().client_hears());
            silences.begin(Silence::Both);
            assert!(one.server_hears(), "it stays as silent as it was");
            assert_eq!(other.server_hears(), whom == Whom::Everyone);
        }
    }
}
