//! Telling other hosts, by NOTIFY. Never inside the transaction that sends: PostgreSQL holds one lock for the whole server
//! over the commit of whoever notifies. At best right after it, in the same round trip. A NOTIFY is a transaction that writes, but nobody
//! needs it after a crash, so it waits neither for the disk nor for a standby. LISTEN has a connection of its own; while it is gone, and
//! behind a transaction pooler, queues are polled. A connection on which nothing is heard is asked whether it still is one.

use std::{
    fmt::Write as _,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ichido::{error::Result, process::WakeUps, store::Wakeups};
use ichido_sql::deadline;
use sqlx::{Acquire as _, AssertSqlSafe, Executor as _, postgres::PgListener};

use crate::{Postgres, quote, transaction::Tx};

/// One channel for all queues; the payload is the queue's name.
pub(crate) const CHANNEL: &str = "ichido";

/// Selected beside a NOTIFY: its commit does not wait.
const AT_ONCE: &str = "set_config('synchronous_commit', 'off', true)";

/// Selected beside a NOTIFY that a sender waits for: somebody else's may hold the lock over a slow commit, and polling finds what nobody was
/// told of.
const OR_NOT: &str = "set_config('lock_timeout', '100ms', true)";

/// Until another try to listen.
const PAUSE: Duration = Duration::from_secs(5);

impl Wakeups for Postgres {
    fn wake_ups(&self) -> &WakeUps {
        &self.shared.wake_ups
    }

    async fn notify(&self, queue: &str) -> Result<()> {
        if self.shared.notify.load(Ordering::Relaxed) {
            let words = format!("select {AT_ONCE}, pg_notify($1, $2)");
            self.own.execute(sqlx::query(AssertSqlSafe(words)).bind(CHANNEL).bind(queue)).await?;
        }
        Ok(())
    }

    async fn commit_and_notify(&self, tx: Tx, queues: &[Arc<str>]) -> Result<()> {
        let mut words = "commit".to_owned();
        for queue in queues.iter().filter(|_| self.shared.notify.load(Ordering::Relaxed)) {
            let _ = write!(words, "; select {AT_ONCE}, {OR_NOT}, pg_notify('{CHANNEL}', {})", quote::literal(queue)?);
        }
        self.end(tx, &words).await
    }

    async fn listen(&self, wake: impl Fn(&str)) {
        if !self.shared.notify.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        loop {
            if let Err(error) = self.hear_until_lost(&wake).await {
                tracing::debug!(%error, "no wake-ups from other hosts; polling instead");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl Postgres {
    /// Neither tells other hosts nor hears them: queues are polled.
    #[must_use]
    pub fn without_notify(self) -> Self {
        self.shared.notify.store(false, Ordering::Relaxed);
        self
    }

    async fn hear_until_lost(&self, wake: &impl Fn(&str)) -> Result<()> {
        let Some(mut listener) = self.own.listener().await? else { return std::future::pending().await };
        let heard = self.hear(&mut listener, wake).await;
        if heard.is_err() {
            self.hang_up(listener).await;
        }
        heard
    }

    async fn hear(&self, listener: &mut PgListener, wake: &impl Fn(&str)) -> Result<()> {
        let timeout = self.shared.deadline.timeout();
        deadline(timeout, listener.listen(CHANNEL)).await?;
        loop {
            match tokio::time::timeout(timeout, listener.try_recv()).await {
                Ok(heard) => match heard? {
                    Some(heard) => {
                        wake(heard.payload());
                        // Whoever was woken goes first, before the connection is asked for more.
                        tokio::task::yield_now().await;
                    }
                    // The connection is lost; what is sent meanwhile, polling finds.
                    None => return Ok(()),
                },
                // Nobody sends anything, or we do not hear it.
                Err(_) => {
                    deadline(timeout, listener.execute("select 'listening'")).await?;
                }
            }
        }
    }

    /// sqlx says goodbye on the connection when a listener is dropped, however long that takes: it gets another one first, as soon as
    /// there is one to be had.
    async fn hang_up(&self, mut listener: PgListener) {
        let timeout = self.shared.deadline.timeout();
        loop {
            let hosts = &self.shared.hosts;
            let fresh =
                deadline(timeout, async { Ok::<_, sqlx::Error>((hosts.beside().await?, hosts.connect().await?)) });
            if let Ok((_turn, fresh)) = fresh.await
                && let Ok(silent) = deadline(timeout, (&mut listener).acquire()).await
            {
                *silent = fresh;
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
