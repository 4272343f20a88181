//! Request ids: who serves them, who must serve one alone, and what operators ask of them.

use std::collections::BTreeMap;

use ichido::{
    Result,
    process::{Flag, Flags, RequestState},
    store::{ProcessId, Registration},
};
use ichido_sql::Other;
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use crate::Sqlite;

impl Sqlite {
    /// Writes down which request ids a process serves, unless another live process serves one that it must serve alone.
    /// Whoever writes has the turn: nobody registers meanwhile.
    pub(crate) async fn serve_requests(&self, tx: &mut SqliteConnection, process: &Registration) -> Result<()> {
        for request_id in &process.alone {
            if let Some(other) = self.other(tx, process.id, request_id).await? {
                return Err(other.refusal());
            }
        }
        for request_id in &process.request_ids {
            let insert = sqlx::query("insert into ichido_process_request (process, request_id) values (?, ?)")
                .bind(process.id.to_string());
            insert.bind(&**request_id).execute(&mut *tx).await?;
        }
        Ok(())
    }

    /// Another process that serves this request id and whose lock says that it is alive.
    async fn other(&self, tx: &mut SqliteConnection, process: ProcessId, request_id: &str) -> Result<Option<Other>> {
        let others = sqlx::query(
            "select p.id, p.host, p.pid from ichido_process_request r join ichido_process p on p.id = r.process \
             where r.request_id = ? and p.id <> ?",
        );
        for row in others.bind(request_id).bind(process.to_string()).fetch_all(tx).await? {
            let id = row.try_get::<&str, _>(0)?.parse()?;
            if self.shared.alive.dead(id)?.is_none() {
                let (request_id, host, pid) = (request_id.to_owned(), row.try_get(1)?, row.try_get(2)?);
                return Ok(Some(Other { request_id, id, host, pid, beat: None }));
            }
        }
        Ok(None)
    }

    pub(crate) async fn write_flag(&self, request_id: &str, flag: Flag, on: bool) -> Result<bool> {
        ichido::store::refuse_request_id(request_id)?;
        self.queues().await?;
        let column = match flag {
            Flag::Stop => "stopped",
            Flag::Pause => "paused",
        };
        let mut tx = self.begin_tx().await?;
        let keep =
            sqlx::query("insert into ichido_request (request_id) values (?) on conflict (request_id) do nothing");
        keep.bind(request_id).execute(tx.connection()).await?;
        let write = format!(
            "update ichido_request set {column} = ?2, changed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') \
             where request_id = ?1 and {column} <> ?2"
        );
        let write = sqlx::query(AssertSqlSafe(write)).bind(request_id).bind(on);
        let written = write.execute(tx.connection()).await?.rows_affected() == 1;
        tx.commit().await?;
        Ok(written)
    }

    pub(crate) async fn request_states(&self) -> Result<Vec<RequestState>> {
        self.queues().await?;
        let served = sqlx::query("select request_id, process from ichido_process_request").fetch_all(&self.readers);
        let read = |row: &SqliteRow| {
            let alive = self.shared.alive.dead(row.try_get::<&str, _>(1)?.parse()?)?.is_none();
            Ok((row.try_get(0)?, alive))
        };
        let served = served.await?.iter().map(read).collect::<Result<Vec<_>>>()?;
        let flags = sqlx::query("select request_id, stopped, paused from ichido_request where stopped or paused");
        Ok(ichido_sql::requests(served, flags_in(&flags.fetch_all(&self.readers).await?, 0)?))
    }
}

/// The flags in these rows: request id, stopped, paused, from this column on. A row without a request id has none.
pub(crate) fn flags_in(rows: &[SqliteRow], at: usize) -> Result<BTreeMap<String, Flags>> {
    let mut flags = BTreeMap::new();
    for row in rows {
        if let Some(request_id) = row.try_get::<Option<String>, _>(at)? {
            flags.insert(request_id, Flags { stopped: row.try_get(at + 1)?, paused: row.try_get(at + 2)? });
        }
    }
    Ok(flags)
}
