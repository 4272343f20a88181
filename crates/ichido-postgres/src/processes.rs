//! Processes: how they become known, give a sign of life, take leave, and how what dead ones had is rescued.

use ichido::{
    Key, MessageId, Result,
    message::OnBusy,
    store::{Around, ProcessId, Processes, Registration, Rescued, refuse_request_id},
};
use ichido_sql::{Note, Owned};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::{Postgres, flags::flags_in, messages, statements::Statements};

impl Processes for Postgres {
    async fn register(&self, process: &Registration) -> Result<()> {
        process.request_ids.iter().try_for_each(|id| refuse_request_id(id))?;
        self.warn_of_pooler().await?;
        let mut tx = self.begin_own().await?;
        let insert = format!(
            "insert into {} (id, request_id, host, pid, version, lease) values ($1::text::uuid, $2, $3, $4, $5, $6 * interval '1 millisecond')",
            self.shared.schema.process
        );
        let lease = i64::try_from(process.lease.as_millis()).unwrap_or(i64::MAX);
        let insert = sqlx::query(AssertSqlSafe(insert))
            .bind(process.id.to_string())
            .bind(process.title())
            .bind(ichido::store::host());
        let insert = insert.bind(i64::from(std::process::id())).bind(env!("CARGO_PKG_VERSION")).bind(lease);
        insert.execute(&mut *tx).await?;
        for queue in process.queues.keys() {
            let insert = format!(
                "insert into {} (process, queue, place) values ($1::text::uuid, $2, $3)",
                self.shared.schema.process_queue
            );
            let insert = sqlx::query(AssertSqlSafe(insert)).bind(process.id.to_string()).bind(&**queue);
            insert.bind(&self.queue(queue).await?.rows.place).execute(&mut *tx).await?;
        }
        self.serve_requests(&mut tx, process).await?;
        tx.commit().await?;
        Ok(())
    }

    /// A process that is past its lease stays dead: it must come back under another id.
    async fn beat(&self, process: ProcessId) -> Result<bool> {
        let beat = format!(
            "update {} set heartbeat_at = clock_timestamp() where id = $1::text::uuid and heartbeat_at > clock_timestamp() - lease",
            self.shared.schema.process
        );
        let beat = self.own.execute(sqlx::query(AssertSqlSafe(beat)).bind(process.to_string())).await?;
        Ok(beat.rows_affected() == 1)
    }

    async fn mark_running(&self, process: ProcessId, suspect: Option<&MessageId>) -> Result<()> {
        let mark = format!("update {} set running = $2 where id = $1::text::uuid", self.shared.schema.process);
        let mark = sqlx::query(AssertSqlSafe(mark)).bind(process.to_string()).bind(suspect.map(ToString::to_string));
        self.own.execute(mark).await?;
        Ok(())
    }

    /// Frees what the process has, except rows that are being completed right now; those are rescued later.
    async fn leave(&self, process: ProcessId) -> Result<()> {
        let mut tx = self.begin_own().await?;
        self.stop_claims(&mut tx, process).await?;
        for queue in self.served(&mut tx, process).await? {
            loop {
                let owned = owned(&mut tx, queue, process).await?;
                if owned.is_empty() {
                    break;
                }
                self.free(&mut tx, queue, process, &owned).await?;
            }
            self.forget_queue(&mut tx, queue, process).await?;
        }
        self.forget_process(&mut tx, process).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn quit(&self, process: ProcessId, request_id: &str) -> Result<()> {
        let quit = format!(
            "delete from {} where process = $1::text::uuid and request_id = $2",
            self.shared.schema.process_request
        );
        self.own.execute(sqlx::query(AssertSqlSafe(quit)).bind(process.to_string()).bind(request_id)).await?;
        Ok(())
    }

    async fn look_around(&self, by: &Registration) -> Result<Around> {
        let queues: Vec<&str> = by.queues.keys().map(AsRef::as_ref).collect();
        let look = format!(
            "select exists (select 1 from {} where state = 'waiting' and due_at <= now() and queue = any($1)), \
             exists (select 1 from {} where heartbeat_at <= clock_timestamp() - lease and id <> $2::text::uuid), \
             r.request_id, r.stopped, r.paused, extract(epoch from clock_timestamp())::bigint / 60, \
             exists (select 1 from {} where published_at is null and due_at <= clock_timestamp() and queue = any($4)) \
             from (select 1) one left join {} r on (r.stopped or r.paused) and r.request_id = any($3)",
            self.shared.schema.parked,
            self.shared.schema.process,
            self.shared.schema.outbox,
            self.shared.schema.request
        );
        let relays: Vec<&str> = by.relays.iter().map(AsRef::as_ref).collect();
        let requests: Vec<&str> = by.request_ids.iter().map(AsRef::as_ref).collect();
        let look = sqlx::query(AssertSqlSafe(look)).bind(queues).bind(by.id.to_string()).bind(requests).bind(relays);
        let rows = self.own.fetch_all(look).await?;
        let Some(row) = rows.first() else { return Ok(Around::default()) };
        let minute = row.try_get(5)?;
        Ok(Around {
            due: row.try_get(0)?,
            dead: row.try_get(1)?,
            unsent: row.try_get(6)?,
            minute,
            flags: flags_in(&rows, 2)?,
        })
    }

    async fn rescue(&self, by: &Registration) -> Result<Rescued> {
        let dead = format!(
            "select id::text from {} where heartbeat_at <= clock_timestamp() - lease and id <> $1::text::uuid",
            self.shared.schema.process
        );
        let dead = self.own.fetch_all(sqlx::query(AssertSqlSafe(dead)).bind(by.id.to_string())).await?;
        let mut rescued = Rescued::default();
        for row in dead {
            self.rescue_process(row.try_get::<&str, _>(0)?.parse()?, by, &mut rescued).await?;
        }
        Ok(rescued)
    }
}

impl Postgres {
    /// The queues that a process has registered and that we know as the same rows.
    async fn served(&self, tx: &mut PgConnection, process: ProcessId) -> Result<Vec<&Statements>> {
        let served =
            format!("select queue, place from {} where process = $1::text::uuid", self.shared.schema.process_queue);
        let served = sqlx::query(AssertSqlSafe(served)).bind(process.to_string()).fetch_all(tx).await?;
        let known = self.queues().await?;
        let ours = served.iter().filter_map(|row| {
            let (queue, place): (&str, &str) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
            known.iter().find(|known| &*known.queue == queue && known.rows.place == place)
        });
        Ok(ours.collect())
    }

    /// Forgets that a process served a queue, when it owns nothing there any more, not even a group.
    async fn forget_queue(&self, tx: &mut PgConnection, queue: &Statements, process: ProcessId) -> Result<()> {
        let left =
            sqlx::query(AssertSqlSafe(queue.owns_any.clone())).bind(process.to_string()).fetch_one(&mut *tx).await?;
        if !left.try_get::<bool, _>(0)? {
            self.free_all_groups(&mut *tx, queue, process).await?;
            let forget = format!(
                "delete from {} where process = $1::text::uuid and queue = $2",
                self.shared.schema.process_queue
            );
            sqlx::query(AssertSqlSafe(forget)).bind(process.to_string()).bind(&*queue.queue).execute(tx).await?;
        }
        Ok(())
    }

    async fn forget_process(&self, tx: &mut PgConnection, process: ProcessId) -> Result<bool> {
        let forget = format!(
            "delete from {} where id = $1::text::uuid and not exists (select 1 from {} where process = $1::text::uuid)",
            self.shared.schema.process, self.shared.schema.process_queue
        );
        let forgotten = sqlx::query(AssertSqlSafe(forget)).bind(process.to_string()).execute(tx).await?;
        Ok(forgotten.rows_affected() == 1)
    }

    /// Frees a dead process's rows as suspects, in the queues that the rescuer serves, unless somebody else is at it.
    async fn rescue_process(&self, dead: ProcessId, by: &Registration, rescued: &mut Rescued) -> Result<()> {
        let mut tx = self.begin_own().await?;
        let Some(running) = self.lock_dead(&mut tx, dead).await? else { return Ok(()) };
        for queue in self.served(&mut tx, dead).await? {
            if let Some(attempts) = by.queues.get(&queue.queue) {
                self.rescue_queue(&mut tx, dead, queue, running.as_deref(), *attempts, rescued).await?;
            }
        }
        let buried = self.forget_process(&mut tx, dead).await?;
        tx.commit().await?;
        rescued.processes += u64::from(buried);
        Ok(())
    }

    /// Rows that are still locked by a stopped process's transaction are left for another time.
    async fn rescue_queue(
        &self,
        tx: &mut PgConnection,
        dead: ProcessId,
        queue: &Statements,
        running: Option<&str>,
        attempts: u32,
        rescued: &mut Rescued,
    ) -> Result<()> {
        let mut freed = Vec::new();
        for owned in owned(tx, queue, dead).await? {
            let id = MessageId { queue: queue.queue.clone(), key: owned.key.clone() };
            let killed = running == Some(id.to_string().as_str());
            if killed && self.bury_killer(tx, queue, dead, &owned, attempts).await? {
                rescued.parked += 1;
            } else {
                self.suspect(tx, queue, &owned.key, killed).await?;
                freed.push(owned);
            }
        }
        self.free(tx, queue, dead, &freed).await?;
        if queue.mutex.as_ref().is_some_and(|mutex| mutex.rules.on_busy == OnBusy::DeadLetter) {
            // Its copies may all be among the dead letters, as busy.
            let keys: Vec<_> = freed.iter().map(|owned| owned.key.clone()).collect();
            self.republish(tx, queue, &keys).await?;
        }
        rescued.messages += freed.len() as u64;
        self.forget_queue(tx, queue, dead).await
    }

    /// What the dead process was running, if it is still dead and nobody else is at it. From now on it cannot claim any
    /// more, not even with a claim that waits for this lock: the row it then finds says that it is dead.
    async fn lock_dead(&self, tx: &mut PgConnection, dead: ProcessId) -> Result<Option<Option<String>>> {
        let lock = format!(
            "with dead as (select id from {process} where id = $1::text::uuid and heartbeat_at <= clock_timestamp() - lease for update skip locked) \
             update {process} p set heartbeat_at = '-infinity' from dead where p.id = dead.id returning p.running",
            process = self.shared.schema.process
        );
        let locked = sqlx::query(AssertSqlSafe(lock)).bind(dead.to_string()).fetch_optional(tx).await?;
        Ok(locked.map(|row| row.try_get(0)).transpose()?)
    }

    /// Waits for a claim of this process that is still on its way, even one whose reply was lost, and lets no other begin:
    /// what it claims would belong to nobody.
    async fn stop_claims(&self, tx: &mut PgConnection, process: ProcessId) -> Result<()> {
        let table = &self.shared.schema.process;
        let lock = format!("select 1 from {table} where id = $1::text::uuid for update");
        sqlx::query(AssertSqlSafe(lock)).bind(process.to_string()).execute(&mut *tx).await?;
        let expire = format!("update {table} set heartbeat_at = '-infinity' where id = $1::text::uuid");
        sqlx::query(AssertSqlSafe(expire)).bind(process.to_string()).execute(tx).await?;
        Ok(())
    }

    async fn past_attempts(&self, tx: &mut PgConnection, queue: &Statements, key: &Key) -> Result<u32> {
        let past = format!(
            "select attempts from {} where queue = $1 and key = $2 and state not in ('dead', 'discarded') for update",
            self.shared.schema.parked
        );
        let past =
            sqlx::query(AssertSqlSafe(past)).bind(&*queue.queue).bind(key.to_string()).fetch_optional(tx).await?;
        Ok(past.map(|row| row.try_get::<i32, _>(0)).transpose()?.unwrap_or_default().unsigned_abs())
    }

    /// A message that ran alone when its process died, for the last time: parked for good.
    async fn bury_killer(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        dead: ProcessId,
        owned: &Owned,
        most: u32,
    ) -> Result<bool> {
        let key = &owned.key;
        let attempts = self.past_attempts(tx, queue, key).await? + 1;
        if attempts < most {
            return Ok(false);
        }
        let mut park = sqlx::query(AssertSqlSafe(queue.park_dead.clone())).bind(dead.to_string());
        for column in key.columns() {
            park = park.bind(column);
        }
        park.execute(&mut *tx).await?;
        self.hold_group(tx, queue, dead, owned.group.as_ref(), key).await?;
        self.write_note(tx, queue, key, Note::killer(attempts)).await?;
        Ok(true)
    }

    async fn suspect(&self, tx: &mut PgConnection, queue: &Statements, key: &Key, killed: bool) -> Result<()> {
        let attempts = self.past_attempts(tx, queue, key).await?;
        self.write_note(tx, queue, key, Note::suspect(attempts, killed)).await
    }
}

async fn owned(tx: &mut PgConnection, queue: &Statements, process: ProcessId) -> Result<Vec<Owned>> {
    let owned = sqlx::query(AssertSqlSafe(queue.owned.clone())).bind(process.to_string()).fetch_all(tx).await?;
    let read = |row| Ok(Owned { key: messages::key(queue, row)?, group: row.try_get("group_key")? });
    owned.iter().map(read).collect()
}
