//! Telling other hosts, by NOTIFY. Never inside the transaction that sends: PostgreSQL holds one lock for the whole database
//! over the commit of whoever notifies. LISTEN has a connection of its own; while it is gone, and behind a transaction pooler,
//! queues are polled. A connection on which nothing is heard is asked whether it still is one.

use std::{sync::atomic::Ordering, time::Duration};

use ichido::{error::Result, process::WakeUps, store::Wakeups};
use ichido_sql::deadline;
use sqlx::{Acquire as _, ConnectOptions as _, Executor as _, PgConnection, postgres::PgListener};

use crate::Postgres;

/// One channel for all queues; the payload is the queue's name.
const CHANNEL: &str = "ichido";

/// Until another try to listen.
const PAUSE: Duration = Duration::from_secs(5);

impl Wakeups for Postgres {
    fn wake_ups(&self) -> &WakeUps {
        &self.shared.wake_ups
    }

    async fn notify(&self, queue: &str) -> Result<()> {
        if self.shared.notify.load(Ordering::Relaxed) {
            self.own.execute(sqlx::query("select pg_notify($1, $2)").bind(CHANNEL).bind(queue)).await?;
        }
        Ok(())
    }

    async fn listen(&self, wake: impl Fn(&str)) {
        if !self.shared.notify.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        loop {
            if let Err(error) = self.hear_until_lost(&wake).await {
                tracing::debug!(%error, "no wake-ups from other hosts; polling instead");
            }
            tokio::time::sleep(PAUSE).await;
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
        self.hang_up(listener).await;
        heard
    }

    async fn hear(&self, listener: &mut PgListener, wake: &impl Fn(&str)) -> Result<()> {
        let timeout = self.shared.deadline.timeout();
        deadline(timeout, listener.listen(CHANNEL)).await?;
        loop {
            match tokio::time::timeout(timeout, listener.try_recv()).await {
                // None: the connection was lost and is there again; what was sent meanwhile, polling finds.
                Ok(heard) => heard?.iter().for_each(|heard| wake(heard.payload())),
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
            let fresh = deadline::<PgConnection, sqlx::Error>(timeout, self.shared.hosts.current().connect()).await;
            if let Ok(fresh) = fresh
                && let Ok(silent) = deadline(timeout, (&mut listener).acquire()).await
            {
                *silent = fresh;
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
