//! What the cases of `ichido-testkit` need of a database, on `SQLite`: each case has a file of its own.

use std::path::PathBuf;

use ichido::{Queue, Result, store::ProcessId};
use ichido_sqlite::Sqlite;
use ichido_testkit::fixture::{Fixture, TABLES};
use sqlx::{
    AssertSqlSafe, Row, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use tempfile::TempDir;

pub(crate) struct OnSqlite {
    file: PathBuf,
    outside: SqlitePool,
    /// Removed with the fixture that made it.
    _folder: Option<TempDir>,
}

impl Fixture for OnSqlite {
    type Store = Sqlite;
    const LOCKS: bool = false;
    const ENDING: &'static [&'static str] = &["insert or rollback into only_one (id) values (1), (1)"];

    async fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = OnSqlite::at(&folder.path().join("test.db").display().to_string()).await;
        fixture.sql(TABLES).await;
        OnSqlite { _folder: Some(folder), ..fixture }
    }

    fn place(&self) -> String {
        self.file.display().to_string()
    }

    async fn at(place: &str) -> Self {
        let options = SqliteConnectOptions::new().filename(place).create_if_missing(true);
        let outside = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await.unwrap();
        OnSqlite { file: place.into(), outside, _folder: None }
    }

    fn store_with(&self, queues: Vec<Queue>) -> Sqlite {
        Sqlite::new(&format!("sqlite://{}", self.file.display()), queues).unwrap()
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
