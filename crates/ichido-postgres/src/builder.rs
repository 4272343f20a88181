//! The builder of the store: where the database is, how it is connected to, and how many connections it may open.

use std::fmt;

use ichido::Error;
use ichido_sql::{OWN, Plan};
use sqlx::postgres::PgConnectOptions;

use crate::Postgres;

/// Describes a [`Postgres`] store; [`build`](PostgresBuilder::build) makes it.
///
/// ```
/// # use ichido_postgres::{Postgres, sqlx::postgres::PgConnectOptions};
/// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Postgres::builder()
///     .url("postgres://shop@db-1,db-2/shop?target_session_attrs=read-write&sslmode=require")
///     .before_connect(|options: PgConnectOptions| async move { Ok(options.password(&token().await?)) })
///     .queues([ichido::Queue::managed("mail")])
///     .connections(4, 20)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct PostgresBuilder {
    plan: Plan<PgConnectOptions>,
    notify: bool,
}

impl Postgres {
    /// A store with options. `url` or `options` must be called, everything else has a default.
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder { plan: Plan::new(OWN, 16), notify: true }
    }
}

impl PostgresBuilder {
    ichido_sql::builder!(PgConnectOptions);
    ichido_sql::server_builder!(PgConnectOptions);

    /// Does it tell other hosts about new messages, and hear from them (NOTIFY and LISTEN)? It does if nothing else is said; without,
    /// queues are polled.
    pub fn notify(mut self, notify: bool) -> Self {
        self.notify = notify;
        self
    }

    /// The store. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Setup`] if neither `url` nor `options` was called, the URL cannot be read, the schema cannot be a name, or the
    /// numbers of connections cannot be meant.
    pub fn build(self) -> Result<Postgres, Error> {
        let store = Postgres::planned(self.plan)?;
        Ok(if self.notify { store } else { store.without_notify() })
    }
}

/// Without the options: they have a password.
impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBuilder").finish_non_exhaustive()
    }
}
