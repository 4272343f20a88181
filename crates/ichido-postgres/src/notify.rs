//! Telling other hosts, by NOTIFY. Never inside the transaction that sends: PostgreSQL holds one lock for the whole database
//! over the commit of whoever notifies. LISTEN has a connection of its own; while it is gone, queues are polled.

use std::{sync::atomic::Ordering, time::Duration};

use ichido::Result;
use sqlx::postgres::PgListener;

use crate::{Postgres, connect::listener_pool};

/// One channel for all queues; the payload is the queue's name.
const CHANNEL: &str = "ichido";

/// Until another try to listen.
const PAUSE: Duration = Duration::from_secs(5);

impl Postgres {
    /// Neither tells other hosts nor hears them: queues are polled.
    #[must_use]
    pub fn without_notify(self) -> Self {
        self.shared.notify.store(false, Ordering::Relaxed);
        self
    }

    pub(crate) async fn tell_hosts(&self, queue: &str) -> Result<()> {
        if self.shared.notify.load(Ordering::Relaxed) {
            sqlx::query("select pg_notify($1, $2)").bind(CHANNEL).bind(queue).execute(&self.own).await?;
        }
        Ok(())
    }

    pub(crate) async fn hear_hosts(&self, ring: impl Fn(&str)) {
        if !self.shared.notify.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        loop {
            if let Err(error) = self.hear_until_lost(&ring).await {
                tracing::debug!(%error, "other hosts are not heard; the queues are polled");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn hear_until_lost(&self, ring: &impl Fn(&str)) -> Result<()> {
        let mut listener = PgListener::connect_with(&listener_pool(&self.shared)).await?;
        listener.listen(CHANNEL).await?;
        loop {
            // None: the connection was lost and is there again; what was sent meanwhile, polling finds.
            if let Some(heard) = listener.try_recv().await? {
                ring(heard.payload());
            }
        }
    }
}
