//! How long a server may be silent. Past that time a wait ends with an error like that of a connection that was cut: it is a fault,
//! spends no attempt, and whoever waited drops the connection.

use std::{
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// If nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Waits this long for something that a server says, and no longer.
///
/// # Errors
/// What it said; of kind [`io::ErrorKind::TimedOut`] if it said nothing.
pub async fn deadline<T, E: From<io::Error>>(
    timeout: Duration,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| Err(silence(timeout).into()))
}

/// What a user reads then.
fn silence(timeout: Duration) -> io::Error {
    let text = format!("the server did not answer within {timeout:?} (database.timeout)");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// The deadline of all connections of a store, and how often it has passed.
#[derive(Debug, Clone)]
pub struct Deadline(Arc<State>);

#[derive(Debug)]
struct State {
    timeout_ms: AtomicU64,
    silences: AtomicU64,
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline::new(TIMEOUT)
    }
}

impl Deadline {
    /// So long.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        let deadline = Deadline(Arc::new(State { timeout_ms: AtomicU64::new(0), silences: AtomicU64::new(0) }));
        deadline.set(timeout);
        deadline
    }

    /// So long from now on.
    pub fn set(&self, timeout: Duration) {
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        self.0.timeout_ms.store(ms, Ordering::Relaxed);
    }

    /// So long from now on, and connections from before are not to be trusted.
    pub fn hurry(&self, timeout: Duration) {
        self.set(timeout);
        self.0.silences.fetch_add(1, Ordering::AcqRel);
    }

    /// How long the server may be silent.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.0.timeout_ms.load(Ordering::Relaxed))
    }

    /// How often a statement was not answered in time: connections that were idle before the last time are not to be trusted.
    #[must_use]
    pub fn silences(&self) -> u64 {
        self.0.silences.load(Ordering::Acquire)
    }

    /// Waits for the answer to a statement; silence is counted.
    ///
    /// # Errors
    /// As [`deadline`].
    pub async fn within<T, E: From<io::Error>>(&self, answer: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let timeout = self.timeout();
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| Err(self.silence(timeout).into()))
    }

    /// Waits for the answer to an operator's statement, which may be long, for as long as the server says that it works on it. Between two
    /// statements it is idle for a moment: two looks in a row that find it so are silence, which is counted.
    ///
    /// # Errors
    /// As [`deadline`].
    pub async fn while_working<T, E: From<io::Error>, F: Future<Output = bool>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
        works: impl Fn() -> F,
    ) -> Result<T, E> {
        let (mut answer, mut idle) = (pin!(answer), false);
        loop {
            let timeout = self.timeout();
            if let Ok(answer) = tokio::time::timeout(timeout, &mut answer).await {
                return answer;
            }
            let was_idle = std::mem::replace(&mut idle, !works().await);
            if was_idle && idle {
                return Err(self.silence(timeout).into());
            }
        }
    }

    fn silence(&self, timeout: Duration) -> io::Error {
        self.0.silences.fetch_add(1, Ordering::AcqRel);
        silence(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silence_is_an_error_that_says_where_to_look() {
        let patience = Deadline::new(Duration::from_millis(2));
        let answered: io::Result<u8> = patience.within(async { Ok(1) }).await;
        assert_eq!((answered.unwrap(), patience.silences()), (1, 0));
        let silent: io::Result<u8> = patience.within(std::future::pending()).await;
        let error = silent.unwrap_err();
        assert_eq!((error.kind(), patience.silences()), (io::ErrorKind::TimedOut, 1));
        assert_eq!(error.to_string(), "the server did not answer within 2ms (database.timeout)");
    }

    #[tokio::test]
    async fn a_long_statement_is_waited_for_while_the_server_works_on_it() {
        let (patience, looks) = (Deadline::new(Duration::from_millis(2)), AtomicU64::new(0));
        let look = |least: u64| {
            let looks = &looks;
            move || async move { looks.fetch_add(1, Ordering::Relaxed) % 3 < least }
        };
        let long = async {
            while looks.load(Ordering::Relaxed) < 9 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(1)
        };
        let answered: io::Result<u8> = patience.while_working(long, look(2)).await;
        assert_eq!((answered.unwrap(), patience.silences()), (1, 0), "idle at every third look");
        let silent: io::Result<u8> = patience.while_working(std::future::pending(), look(1)).await;
        assert_eq!((silent.unwrap_err().kind(), patience.silences()), (io::ErrorKind::TimedOut, 1));
    }

    #[tokio::test]
    async fn connecting_in_silence_says_nothing_about_other_connections() {
        let patience = Deadline::new(Duration::from_millis(2));
        let silent: io::Result<u8> = deadline(patience.timeout(), std::future::pending()).await;
        assert!(silent.is_err() && patience.silences() == 0);
    }
}
