//! How a test looks at its database from outside, past the code under test.

use std::time::Duration;

use ichido_testkit::eventually;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Decode, MySql, MySqlConnection, PgConnection, Postgres, Row, Sqlite,
    SqliteConnection, Type, sqlite::SqliteConnectOptions,
};
use tokio::sync::Mutex;

use super::{Env, Kind};

/// The session of a test at its server, once it has looked: tests look many times a second, and to open one costs more than to look.
pub type Kept = Mutex<Option<Session>>;

pub enum Session {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

/// What a column may be, whatever the database.
trait Value: Read<Sqlite> + Read<Postgres> + Read<MySql> {}

impl<T: Read<Sqlite> + Read<Postgres> + Read<MySql>> Value for T {}

trait Read<D: sqlx::Database>: for<'r> Decode<'r, D> + Type<D> {}

impl<D: sqlx::Database, T: for<'r> Decode<'r, D> + Type<D>> Read<D> for T {}

impl Session {
    async fn one<T: Value>(&mut self, query: &str) -> sqlx::Result<T> {
        let query = AssertSqlSafe(query);
        match self {
            Session::Postgres(session) => sqlx::query(query).fetch_one(session).await?.try_get(0),
            Session::MariaDb(session) => sqlx::query(query).fetch_one(session).await?.try_get(0),
        }
    }
}

impl Env {
    /// Runs statements from outside, as an operator would.
    pub async fn sql(&self, statements: &str) {
        let statements = AssertSqlSafe(statements);
        match self.kind {
            Kind::Sqlite => sqlx::raw_sql(statements).execute(&mut self.sqlite().await).await.map(|_| ()).unwrap(),
            Kind::Postgres => sqlx::raw_sql(statements).execute(&mut self.postgres().await).await.map(|_| ()).unwrap(),
            Kind::MariaDb => sqlx::raw_sql(statements).execute(&mut self.mariadb().await).await.map(|_| ()).unwrap(),
        }
    }

    /// The single number that a query gives.
    pub async fn number(&self, query: &str) -> i64 {
        self.one(query).await
    }

    /// The single text that a query gives.
    pub async fn text(&self, query: &str) -> String {
        self.one(query).await
    }

    async fn one<T: Value>(&self, query: &str) -> T {
        if self.kind == Kind::Sqlite {
            return sqlx::query(AssertSqlSafe(query)).fetch_one(&mut self.sqlite().await).await.unwrap().get(0);
        }
        let mut kept = self.session.lock().await;
        if let Some(session) = &mut *kept
            && let Ok(value) = session.one(query).await
        {
            return value;
        }
        // The first look, or the server was away meanwhile, or a table has changed.
        let session = match self.kind {
            Kind::Postgres => Session::Postgres(self.postgres().await),
            _ => Session::MariaDb(self.mariadb().await),
        };
        kept.insert(session).one(query).await.unwrap()
    }

    async fn sqlite(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.folder().join("test.db")).create_if_missing(true);
        options.busy_timeout(Duration::from_secs(30)).connect().await.unwrap()
    }

    async fn postgres(&self) -> PgConnection {
        connected(&self.url).await
    }

    async fn mariadb(&self) -> MySqlConnection {
        connected(&self.url).await
    }
}

/// Connects; a server that is still closing the connections of a process that has ended may refuse for a moment.
async fn connected<C: Connection>(url: &str) -> C {
    eventually(format!("a connection to {url}"), async || C::connect(url).await).await
}
