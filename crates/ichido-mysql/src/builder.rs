//! The builder of the store: where the database is, how it is connected to, and how many connections it may open.

use std::fmt;

use ichido::Error;
use ichido_sql::{OWN, Plan};
use sqlx::mysql::MySqlConnectOptions;

use crate::MySql;

/// Describes a [`MySql`] store; [`build`](MySqlBuilder::build) makes it.
///
/// ```
/// # use ichido_mysql::{MySql, sqlx::mysql::MySqlConnectOptions};
/// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MySql::builder()
///     .url("mysql://shop@db-1,db-2/shop?target_session_attrs=primary&ssl-mode=VERIFY_IDENTITY")
///     .before_connect(|options: MySqlConnectOptions| async move { Ok(options.password(&token().await?)) })
///     .queues([ichido::Queue::managed("mail")])
///     .connections(4, 20)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct MySqlBuilder {
    plan: Plan<MySqlConnectOptions>,
    single_writer: bool,
}

impl MySql {
    /// A store with options. `url` or `options` must be called, everything else has a default.
    pub fn builder() -> MySqlBuilder {
        MySqlBuilder { plan: Plan::new(OWN, 16), single_writer: false }
    }
}

impl MySqlBuilder {
    ichido_sql::builder!(MySqlConnectOptions);
    ichido_sql::server_builder!(MySqlConnectOptions);

    /// Do all writes go to one node of a Galera cluster? If not, a cluster is refused.
    pub fn single_writer(mut self, single_writer: bool) -> Self {
        self.single_writer = single_writer;
        self
    }

    /// The store. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Setup`] if neither `url` nor `options` was called, they name no database, the URL cannot be read, the schema cannot
    /// be a name, or the numbers of connections cannot be meant.
    pub fn build(self) -> Result<MySql, Error> {
        MySql::planned(self.plan, self.single_writer)
    }
}

/// Without the options: they have a password.
impl fmt::Debug for MySqlBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlBuilder").finish_non_exhaustive()
    }
}
