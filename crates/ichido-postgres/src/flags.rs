//! Request ids: who serves them, who must serve one alone, and what operators ask of them.

use std::collections::BTreeMap;

use ichido::{
    Result,
    process::{Flag, Flags, RequestState},
    store::{ProcessId, Registration},
};
use ichido_sql::Other;
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::Postgres;

impl Postgres {
    /// Writes down which request ids a process serves, unless another live process serves one that it must serve alone.
    pub(crate) async fn serve_requests(&self, tx: &mut PgConnection, process: &Registration) -> Result<()> {
        for request_id in &process.alone {
            self.keep_request(tx, request_id).await?;
            if let Some(other) = self.other(tx, process.id, request_id).await? {
                return Err(other.refusal());
            }
        }
        for request_id in &process.request_ids {
            let insert = format!(
                "insert into {} (process, request_id) values ($1::text::uuid, $2)",
                self.shared.schema.process_request
            );
            let insert = sqlx::query(AssertSqlSafe(insert)).bind(process.id.to_string()).bind(&**request_id);
            insert.execute(&mut *tx).await?;
        }
        Ok(())
    }

    /// The request id has a row, and nobody else changes it until this transaction ends.
    async fn keep_request(&self, tx: &mut PgConnection, request_id: &str) -> Result<()> {
        ichido::store::refuse_request_id(request_id)?;
        let keep = format!(
            "insert into {} (request_id) values ($1) on conflict (request_id) do update set request_id = excluded.request_id",
            self.shared.schema.request
        );
        sqlx::query(AssertSqlSafe(keep)).bind(request_id).execute(tx).await?;
        Ok(())
    }

    /// Another live process that serves this request id. A statement of its own: it must see who has registered while this
    /// transaction waited for the row.
    async fn other(&self, tx: &mut PgConnection, process: ProcessId, request_id: &str) -> Result<Option<Other>> {
        let other = format!(
            "select p.id::text, p.host, p.pid, p.heartbeat_at::text from {} r join {} p on p.id = r.process \
             where r.request_id = $1 and p.id <> $2::text::uuid and p.heartbeat_at > clock_timestamp() - p.lease limit 1",
            self.shared.schema.process_request, self.shared.schema.process
        );
        let other = sqlx::query(AssertSqlSafe(other)).bind(request_id).bind(process.to_string());
        let Some(row) = other.fetch_optional(tx).await? else { return Ok(None) };
        let (request_id, id) = (request_id.to_owned(), row.try_get::<&str, _>(0)?.parse()?);
        let (host, pid, beat) = (row.try_get(1)?, row.try_get(2)?, Some(row.try_get(3)?));
        Ok(Some(Other { request_id, id, host, pid, beat }))
    }

    pub(crate) async fn write_flag(&self, request_id: &str, flag: Flag, on: bool) -> Result<bool> {
        let column = match flag {
            Flag::Stop => "stopped",
            Flag::Pause => "paused",
        };
        let mut tx = self.begin_own().await?;
        self.keep_request(&mut tx, request_id).await?;
        let write = format!(
            "update {} set {column} = $2, changed_at = now() where request_id = $1 and {column} <> $2",
            self.shared.schema.request
        );
        let written = sqlx::query(AssertSqlSafe(write)).bind(request_id).bind(on).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(written.rows_affected() == 1)
    }

    pub(crate) async fn request_states(&self) -> Result<Vec<RequestState>> {
        self.queues().await?;
        let served = format!(
            "select r.request_id, p.heartbeat_at > clock_timestamp() - p.lease from {} r join {} p on p.id = r.process",
            self.shared.schema.process_request, self.shared.schema.process
        );
        let served = self.own.fetch_all(sqlx::query(AssertSqlSafe(served))).await?;
        let read = |row: &PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
        let served = served.iter().map(read).collect::<Result<Vec<_>>>()?;
        let flags =
            format!("select request_id, stopped, paused from {} where stopped or paused", self.shared.schema.request);
        let flags = self.own.fetch_all(sqlx::query(AssertSqlSafe(flags))).await?;
        Ok(ichido_sql::requests(served, flags_in(&flags, 0)?))
    }
}

/// The flags in these rows: request id, stopped, paused, from this column on. A row without a request id has none.
pub(crate) fn flags_in(rows: &[PgRow], at: usize) -> Result<BTreeMap<String, Flags>> {
    let mut flags = BTreeMap::new();
    for row in rows {
        if let Some(request_id) = row.try_get::<Option<String>, _>(at)? {
            flags.insert(request_id, Flags { stopped: row.try_get(at + 1)?, paused: row.try_get(at + 2)? });
        }
    }
    Ok(flags)
}
