//! `migrate`: creates the file, and brings ichido's own tables to the newest version while processes are at work. There is one writer
//! at a time, so it is one transaction: it is done as a whole or not at all. Whoever does not get its turn tries again.

use std::{
    io,
    time::{Duration, Instant},
};

use ichido::{
    Error, Operate,
    error::Result,
    store::{MigrateOptions, Migration},
};
use ichido_sql::Waiting;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::{
    Sqlite,
    connect::setup_error,
    fault,
    schema::{migrations, version},
};

impl Operate for Sqlite {
    ichido_sql::operate!();

    async fn pending(&self) -> Result<Migration> {
        let from = if self.path().exists() {
            let mut connection = self.readers.acquire().await.map_err(|error| self.unreachable(error))?;
            version(&mut connection).await?.0
        } else {
            0
        };
        Ok(migrations().migration(from, &migrations().steps(from, &MigrateOptions::default())))
    }

    /// Creates the file and ichido's tables, or upgrades them, one process at a time.
    async fn migrate_with(&self, options: MigrateOptions) -> Result<Migration> {
        let mut waiting = Waiting::new(options.wait);
        loop {
            let began = Instant::now();
            let error = match self.try_migrate(&options).await {
                Err(error) if is_busy(&error) => error,
                mut migrated => {
                    if let Ok(migration) = &mut migrated {
                        migration.retries = waiting.retries();
                    }
                    return migrated;
                }
            };
            let Some(pause) = waiting.again(began.elapsed()) else { return Err(self.still_busy(options.wait)) };
            tracing::info!("{} is in use ({error:#}); retrying in {pause:?}", self.path().display());
            tokio::time::sleep(pause).await;
        }
    }
}

impl Sqlite {
    async fn try_migrate(&self, options: &MigrateOptions) -> Result<Migration> {
        let _turn = self.shared.line.wait().await.map_err(|error| self.unreachable(error))?;
        let mut connection = self.creating().connect().await.map_err(|error| self.unreachable(error))?;
        let mut tx = connection.begin_with("begin immediate").await.map_err(|error| self.unreachable(error))?;
        let (from, _) = version(&mut tx).await?;
        let steps = migrations().steps(from, options);
        for step in &steps {
            sqlx::raw_sql(AssertSqlSafe(step.sql.clone())).execute(&mut *tx).await.map_err(setup_error)?;
        }
        tx.commit().await?;
        connection.close().await?;
        Ok(migrations().migration(from, &steps))
    }

    fn still_busy(&self, wait: Duration) -> Error {
        let text = format!(
            "another program kept {} locked for {wait:?}; nothing was changed. Find it with `fuser {0}`, end its \
             transaction, and run `ichido migrate` again",
            self.path().display()
        );
        Error::Failed(text.into())
    }
}

/// Somebody else writes, in our line or beside it.
fn is_busy(error: &Error) -> bool {
    let (Error::Unreachable { source: cause, .. } | Error::Failed(cause)) = error else { return false };
    let late = cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
    let locked =
        cause.downcast_ref::<sqlx::Error>().and_then(fault::code).is_some_and(|code| matches!(code & 0xff, 5 | 6));
    late || locked
}
