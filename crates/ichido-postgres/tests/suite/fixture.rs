//! What the cases of `ichido-testkit` need of a database, on a private `PostgreSQL`: each case has a database of its own.

use ichido::{Operate, Queue, Result, store::ProcessId};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::fixture::{Fixture, TABLES};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row};
use tokio::sync::OnceCell;

/// The sessions of the database that wait for a lock.
pub(crate) const WAITING: &str = "pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

pub(crate) struct OnPostgres {
    url: String,
    outside: PgPool,
    /// For the fixture that made it.
    _lent: Option<servers::Lent>,
}

impl OnPostgres {
    async fn lent(url: &str) -> Self {
        OnPostgres { _lent: Some(servers::Postgres::shared().lend(url)), ..OnPostgres::at(url).await }
    }

    /// With all tables; it is not changed any more.
    async fn migrated() -> String {
        let fixture = OnPostgres::at(&servers::Postgres::shared().fresh_database()).await;
        fixture.sql(TABLES).await;
        fixture.store().migrate().await.unwrap();
        fixture.url
    }
}

impl Fixture for OnPostgres {
    type Store = Postgres;
    const ENDING: &'static [&'static str] = &["insert into only_one (id) values (1), (1)"];
    const SHARE: &'static str = "for key share";

    async fn empty() -> Self {
        let fixture = OnPostgres::lent(&servers::Postgres::shared().fresh_database()).await;
        fixture.sql(TABLES).await;
        fixture
    }

    /// A copy of one that was migrated once.
    async fn fresh() -> Self {
        static MIGRATED: OnceCell<String> = OnceCell::const_new();
        let migrated = MIGRATED.get_or_init(OnPostgres::migrated).await;
        let fixture = OnPostgres::lent(&servers::Postgres::shared().copy_of(migrated)).await;
        // What messages at brokers carry as the place that they come from: a copy is another one.
        fixture.sql("update ichido_origin set id = gen_random_uuid()").await;
        fixture
    }

    fn place(&self) -> String {
        self.url.clone()
    }

    async fn at(place: &str) -> Self {
        OnPostgres { url: place.to_owned(), outside: PgPool::connect(place).await.unwrap(), _lent: None }
    }

    fn store_with(&self, queues: Vec<Queue>) -> Postgres {
        Postgres::new(&self.url, None, 6, queues).unwrap()
    }

    async fn sql(&self, statements: &str) {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&self.outside).await.unwrap();
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query(AssertSqlSafe(query)).fetch_one(&self.outside).await.unwrap().get(0)
    }

    async fn through(connection: &mut PgConnection, statement: String) -> Result<()> {
        sqlx::query(AssertSqlSafe(statement)).execute(connection).await?;
        Ok(())
    }

    async fn lock_waits(&self) -> i64 {
        self.number(&format!("select count(*) from {WAITING}")).await
    }

    /// Its last heartbeat was long ago.
    async fn die(&self, _: Postgres, process: ProcessId) {
        let expire =
            format!("update ichido_process set heartbeat_at = now() - interval '1 hour' where id = '{process}'");
        self.sql(&expire).await;
    }
}
