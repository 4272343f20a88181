//! What the cases of `ichido-testkit` need of a database, on a private MariaDB: each case has a database of its own.

use std::time::Duration;

use ichido::{Operate, Queue, Result, store::ProcessId};
use ichido_mysql::MySql;
use ichido_test_servers as servers;
use ichido_testkit::fixture::{Fixture, TABLES};
use sqlx::{AssertSqlSafe, MySqlConnection, MySqlPool, Row};
use tokio::sync::OnceCell;

pub(crate) struct OnMariaDb {
    url: String,
    outside: MySqlPool,
}

impl OnMariaDb {
    /// With all tables; it is not changed any more.
    async fn migrated() -> String {
        let fixture = OnMariaDb::at(&servers::MariaDb::shared().fresh_database()).await;
        fixture.sql(TABLES).await;
        fixture.store().migrate().await.unwrap();
        fixture.url
    }
}

impl Fixture for OnMariaDb {
    type Store = MySql;
    const ENDING: &'static [&'static str] = &[];
    const SHARE: &'static str = "lock in share mode";

    async fn empty() -> Self {
        let fixture = OnMariaDb::at(&servers::MariaDb::shared().fresh_database()).await;
        fixture.sql(TABLES).await;
        fixture
    }

    /// A copy of one that was migrated once.
    async fn fresh() -> Self {
        static MIGRATED: OnceCell<String> = OnceCell::const_new();
        let migrated = MIGRATED.get_or_init(OnMariaDb::migrated).await;
        let fixture = OnMariaDb::at(&servers::MariaDb::shared().copy_of(migrated)).await;
        // What messages at brokers carry as the place that they come from: a copy is another one.
        fixture.sql("update ichido_origin set id = uuid()").await;
        fixture
    }

    fn place(&self) -> String {
        self.url.clone()
    }

    async fn at(place: &str) -> Self {
        OnMariaDb { url: place.to_owned(), outside: MySqlPool::connect(place).await.unwrap() }
    }

    fn store_with(&self, queues: Vec<Queue>) -> MySql {
        MySql::new(&self.url, None, 6, false, queues).unwrap()
    }

    async fn sql(&self, statements: &str) {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&self.outside).await.unwrap();
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query(AssertSqlSafe(query)).fetch_one(&self.outside).await.unwrap().get(0)
    }

    async fn through(connection: &mut MySqlConnection, statement: String) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await?;
        Ok(())
    }

    /// The server renews what it tells about that only when nobody has asked for a tenth of a second, so one test asks at a time, and not
    /// too often.
    async fn lock_waits(&self) -> i64 {
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _turn = TURN.lock().await;
        // Not a wait for anything: the tenth of a second in which nobody asks.
        tokio::time::sleep(Duration::from_millis(120)).await;
        let sessions =
            "information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id";
        self.number(&format!("select count(*) from {sessions} where p.db = database() and t.trx_state = 'LOCK WAIT'"))
            .await
    }

    /// Its last heartbeat was long ago.
    async fn die(&self, _: MySql, process: ProcessId) {
        let expire = format!(
            "update ichido_process set heartbeat_at = utc_timestamp(6) - interval 1 hour where id = '{process}'"
        );
        self.sql(&expire).await;
    }
}
