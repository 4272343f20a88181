//! The conformance cases on `SQLite`, each with a file of its own.

use ichido::{ProcessId, Queue, Result};
use ichido_conformance::fixture::{Fixture, TABLES};
use ichido_sqlite::Sqlite;
use sqlx::{
    AssertSqlSafe, Row, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use tempfile::TempDir;

struct OnSqlite {
    folder: TempDir,
    outside: SqlitePool,
}

impl Fixture for OnSqlite {
    type Store = Sqlite;
    const ENDING: &'static [&'static str] = &["insert or rollback into only_one (id) values (1), (1)"];

    async fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("test.db")).create_if_missing(true);
        let outside = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await.unwrap();
        sqlx::raw_sql(TABLES).execute(&outside).await.unwrap();
        OnSqlite { folder, outside }
    }

    fn store_with(&self, queues: Vec<Queue>) -> Sqlite {
        Sqlite::new(&format!("sqlite://{}", self.folder.path().join("test.db").display()), queues).unwrap()
    }

    async fn sql(&self, statements: &str) {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&self.outside).await.unwrap();
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query(AssertSqlSafe(query)).fetch_one(&self.outside).await.unwrap().get(0)
    }

    async fn through(connection: &mut SqliteConnection, statement: String) -> Result<()> {
        sqlx::query(AssertSqlSafe(statement)).execute(connection).await?;
        Ok(())
    }

    /// The lock on its lock file goes with the store.
    async fn die(&self, store: Sqlite, _: ProcessId) {
        drop(store);
    }
}

ichido_conformance::conformance!(OnSqlite);
