//! Request ids: who serves them, who must serve one alone, and what operators ask of them.

use std::collections::BTreeMap;

use ichido::{
    Result,
    process::{Flag, Flags, RequestState},
    store::{ProcessId, Registration},
};
use ichido_sql::Other;
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use crate::MySql;

impl MySql {
    /// Writes down which request ids a process serves, unless another live process serves one that it must serve alone.
    pub(crate) async fn serve_requests(&self, tx: &mut MySqlConnection, process: &Registration) -> Result<()> {
        for request_id in &process.alone {
            self.keep_request(tx, request_id).await?;
            if let Some(other) = self.other(tx, process.id, request_id).await? {
                return Err(other.refusal());
            }
        }
        for request_id in &process.request_ids {
            let insert =
                format!("insert into {} (process, request_id) values (?, ?)", self.shared.schema.process_request);
            let insert = sqlx::query(AssertSqlSafe(insert)).bind(process.id.to_string()).bind(request_id.as_bytes());
            insert.execute(&mut *tx).await?;
        }
        Ok(())
    }

    /// The request id has a row, and nobody else changes it until this transaction ends.
    async fn keep_request(&self, tx: &mut MySqlConnection, request_id: &str) -> Result<()> {
        ichido::store::refuse_request_id(request_id)?;
        let keep = format!(
            "insert into {} (request_id) values (?) on duplicate key update request_id = request_id",
            self.shared.schema.request
        );
        sqlx::query(AssertSqlSafe(keep)).bind(request_id.as_bytes()).execute(tx).await?;
        Ok(())
    }

    /// Another live process that serves this request id. A statement of its own: it must see who has registered while this
    /// transaction waited for the row.
    async fn other(&self, tx: &mut MySqlConnection, process: ProcessId, request_id: &str) -> Result<Option<Other>> {
        let other = format!(
            "select p.id, p.host, p.pid, cast(p.heartbeat_at as char) from {} r join {} p on p.id = r.process \
             where r.request_id = ? and p.id <> ? and p.heartbeat_at > utc_timestamp(6) - interval p.lease_us microsecond limit 1",
            self.shared.schema.process_request, self.shared.schema.process
        );
        let other = sqlx::query(AssertSqlSafe(other)).bind(request_id.as_bytes()).bind(process.to_string());
        let Some(row) = other.fetch_optional(tx).await? else { return Ok(None) };
        let (request_id, id) = (request_id.to_owned(), row.try_get::<String, _>(0)?.parse()?);
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
            "update {} set {column} = ?, changed_at = current_timestamp(6) where request_id = ? and {column} <> ?",
            self.shared.schema.request
        );
        let write = sqlx::query(AssertSqlSafe(write)).bind(on).bind(request_id.as_bytes()).bind(on);
        let written = write.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(written.rows_affected() == 1)
    }

    pub(crate) async fn request_states(&self) -> Result<Vec<RequestState>> {
        self.queues().await?;
        let served = format!(
            "select convert(r.request_id using utf8mb4), p.heartbeat_at > utc_timestamp(6) - interval p.lease_us microsecond \
             from {} r join {} p on p.id = r.process",
            self.shared.schema.process_request, self.shared.schema.process
        );
        let served = sqlx::query(AssertSqlSafe(served)).fetch_all(&self.own).await?;
        let read = |row: &MySqlRow| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)? == 1));
        let served = served.iter().map(read).collect::<Result<Vec<_>>>()?;
        let flags = format!(
            "select convert(request_id using utf8mb4), stopped, paused from {} where stopped or paused",
            self.shared.schema.request
        );
        let flags = sqlx::query(AssertSqlSafe(flags)).fetch_all(&self.own).await?;
        Ok(ichido_sql::requests(served, flags_in(&flags, 0)?))
    }
}

/// The flags in these rows: request id, stopped, paused, from this column on. A row without a request id has none.
pub(crate) fn flags_in(rows: &[MySqlRow], at: usize) -> Result<BTreeMap<String, Flags>> {
    let mut flags = BTreeMap::new();
    for row in rows {
        if let Some(request_id) = row.try_get::<Option<String>, _>(at)? {
            let is = |at: usize| Ok::<_, sqlx::Error>(row.try_get::<i8, _>(at)? == 1);
            flags.insert(request_id, Flags { stopped: is(at + 1)?, paused: is(at + 2)? });
        }
    }
    Ok(flags)
}
