//! Processes: how they become known, give a sign of life, take leave, and how what dead ones had is rescued.

use ichido::{
    Error, Key, MessageId, Result,
    message::OnBusy,
    store::{Around, ProcessId, Processes, Registration, Rescued, refuse_request_id},
};
use ichido_sql::{Note, Owned};
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use crate::{
    Sqlite,
    flags::flags_in,
    groups::{free_all_groups, hold_group},
    messages::{self, free},
    outbox::republish,
    parked::write_note,
    statements::Statements,
};

impl Processes for Sqlite {
    /// The lock comes first: a process that is known is alive.
    async fn register(&self, process: &Registration) -> Result<()> {
        process.request_ids.iter().try_for_each(|id| refuse_request_id(id))?;
        self.shared.alive.begin(process.id)?;
        let written = self.write_process(process).await;
        if matches!(written, Err(Error::Duplicate { .. })) {
            self.shared.alive.end(process.id);
        }
        written
    }

    /// Nothing is written: the lock is the sign. But a process that the others have buried must know.
    async fn beat(&self, process: ProcessId) -> Result<bool> {
        let known = sqlx::query("select 1 from ichido_process where id = ?").bind(process.to_string());
        Ok(self.shared.alive.is_ours(process) && known.fetch_optional(&self.readers).await?.is_some())
    }

    async fn mark_running(&self, process: ProcessId, suspect: Option<&MessageId>) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let mark = sqlx::query("update ichido_process set running = ?2 where id = ?1").bind(process.to_string());
        mark.bind(suspect.map(ToString::to_string)).execute(tx.connection()).await?;
        tx.commit().await
    }

    async fn leave(&self, process: ProcessId) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        for queue in self.served(tx.connection(), process).await? {
            loop {
                let owned = owned(tx.connection(), queue, process).await?;
                if owned.is_empty() {
                    break;
                }
                free(tx.connection(), queue, process, &owned).await?;
            }
            forget_queue(tx.connection(), queue, process).await?;
        }
        forget_process(tx.connection(), process).await?;
        tx.commit().await?;
        self.shared.alive.end(process);
        Ok(())
    }

    async fn quit(&self, process: ProcessId, request_id: &str) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let quit = sqlx::query("delete from ichido_process_request where process = ? and request_id = ?");
        quit.bind(process.to_string()).bind(request_id).execute(tx.connection()).await?;
        tx.commit().await
    }

    /// Others are there: whether they are dead, their locks tell.
    async fn look_around(&self, by: &Registration) -> Result<Around> {
        let look = format!(
            "select exists (select 1 from ichido_parked where state = 'waiting' and due_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), \
             exists (select 1 from ichido_process where id <> ?), r.request_id, r.stopped, r.paused, unixepoch() / 60, \
             exists (select 1 from ichido_outbox where published_at is null and due_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now') \
             and queue in (''{})) \
             from (select 1) one left join ichido_request r on (r.stopped or r.paused) and r.request_id in (''{})",
            ", ?".repeat(by.relays.len()),
            ", ?".repeat(by.request_ids.len())
        );
        let look = sqlx::query(AssertSqlSafe(look)).bind(by.id.to_string());
        let look = by.relays.iter().fold(look, |look, queue| look.bind(&**queue));
        let look = by.request_ids.iter().fold(look, |look, request_id| look.bind(&**request_id));
        let rows = look.fetch_all(&self.readers).await?;
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
        let others = sqlx::query("select id from ichido_process where id <> ?").bind(by.id.to_string());
        let others = others.fetch_all(&self.readers).await?;
        let mut rescued = Rescued::default();
        for row in others {
            let process: ProcessId = row.try_get::<&str, _>(0)?.parse()?;
            // Of two who rescue the same process, the second finds nothing left: each does it in its turn to write.
            if self.shared.alive.dead(process)?.is_some() {
                self.rescue_process(process, by, &mut rescued).await?;
            }
        }
        Ok(rescued)
    }
}

impl Sqlite {
    async fn write_process(&self, process: &Registration) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let insert =
            sqlx::query("insert into ichido_process (id, request_id, host, pid, version) values (?, ?, ?, ?, ?)");
        let insert = insert.bind(process.id.to_string()).bind(process.title()).bind(ichido::store::host());
        insert.bind(std::process::id()).bind(env!("CARGO_PKG_VERSION")).execute(tx.connection()).await?;
        for queue in process.queues.keys() {
            let place = self.queue(queue).await?.rows.place.clone();
            let insert = sqlx::query("insert into ichido_process_queue (process, queue, place) values (?, ?, ?)")
                .bind(process.id.to_string());
            insert.bind(&**queue).bind(place).execute(tx.connection()).await?;
        }
        self.serve_requests(tx.connection(), process).await?;
        tx.commit().await
    }

    /// The queues that a process has registered and that we know as the same rows.
    async fn served(&self, connection: &mut SqliteConnection, process: ProcessId) -> Result<Vec<&Statements>> {
        let served =
            sqlx::query("select queue, place from ichido_process_queue where process = ?").bind(process.to_string());
        let served = served.fetch_all(connection).await?;
        let known = self.queues().await?;
        let ours = served.iter().filter_map(|row| {
            let (queue, place): (&str, &str) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
            known.iter().find(|known| &*known.queue == queue && known.rows.place == place)
        });
        Ok(ours.collect())
    }

    /// Frees a dead process's rows as suspects, in the queues that the rescuer serves.
    async fn rescue_process(&self, dead: ProcessId, by: &Registration, rescued: &mut Rescued) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let running = sqlx::query("select running from ichido_process where id = ?").bind(dead.to_string());
        let Some(running) = running.fetch_optional(tx.connection()).await? else {
            self.shared.alive.remove(dead);
            return tx.rollback().await;
        };
        let running: Option<String> = running.try_get(0)?;
        for queue in self.served(tx.connection(), dead).await? {
            if let Some(attempts) = by.queues.get(&queue.queue) {
                rescue_queue(tx.connection(), dead, queue, running.as_deref(), *attempts, rescued).await?;
            }
        }
        let buried = forget_process(tx.connection(), dead).await?;
        tx.commit().await?;
        if buried {
            rescued.processes += 1;
            self.shared.alive.remove(dead);
        }
        Ok(())
    }
}

async fn rescue_queue(
    tx: &mut SqliteConnection,
    dead: ProcessId,
    queue: &Statements,
    running: Option<&str>,
    attempts: u32,
    rescued: &mut Rescued,
) -> Result<()> {
    loop {
        let owned = owned(tx, queue, dead).await?;
        if owned.is_empty() {
            break;
        }
        let mut freed = Vec::new();
        for owned in owned {
            let id = MessageId { queue: queue.queue.clone(), key: owned.key.clone() };
            let killed = running == Some(id.to_string().as_str());
            if killed && bury_killer(tx, queue, dead, &owned, attempts).await? {
                rescued.parked += 1;
            } else {
                suspect(tx, queue, &owned.key, killed).await?;
                freed.push(owned);
            }
        }
        free(tx, queue, dead, &freed).await?;
        if queue.mutex.as_ref().is_some_and(|mutex| mutex.rules.on_busy == OnBusy::DeadLetter) {
            // Its copies may all be among the dead letters, as busy.
            let keys: Vec<_> = freed.iter().map(|owned| owned.key.clone()).collect();
            republish(tx, queue, &keys).await?;
        }
        rescued.messages += freed.len() as u64;
    }
    forget_queue(tx, queue, dead).await
}

/// A message that ran alone when its process died, for the last time: parked for good.
async fn bury_killer(
    tx: &mut SqliteConnection,
    queue: &Statements,
    dead: ProcessId,
    owned: &Owned,
    most: u32,
) -> Result<bool> {
    let key = &owned.key;
    let attempts = past_attempts(tx, queue, key).await? + 1;
    if attempts < most {
        return Ok(false);
    }
    let mut park = sqlx::query(AssertSqlSafe(queue.park_dead.clone())).bind(dead.to_string());
    for column in key.columns() {
        park = park.bind(column);
    }
    park.execute(&mut *tx).await?;
    hold_group(tx, queue, dead, owned.group.as_ref(), key).await?;
    write_note(tx, queue, key, Note::killer(attempts)).await?;
    Ok(true)
}

async fn suspect(tx: &mut SqliteConnection, queue: &Statements, key: &Key, killed: bool) -> Result<()> {
    let attempts = past_attempts(tx, queue, key).await?;
    write_note(tx, queue, key, Note::suspect(attempts, killed)).await
}

async fn past_attempts(tx: &mut SqliteConnection, queue: &Statements, key: &Key) -> Result<u32> {
    let past = sqlx::query(
        "select attempts from ichido_parked where queue = ? and key = ? and state not in ('dead', 'discarded')",
    );
    let past = past.bind(&*queue.queue).bind(key.to_string()).fetch_optional(tx).await?;
    Ok(past.map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

async fn owned(tx: &mut SqliteConnection, queue: &Statements, process: ProcessId) -> Result<Vec<Owned>> {
    let owned = sqlx::query(AssertSqlSafe(queue.owned.clone())).bind(process.to_string()).fetch_all(tx).await?;
    let read = |row| Ok(Owned { key: messages::key(queue, row)?, group: row.try_get("ichido_group_key")? });
    owned.iter().map(read).collect()
}

async fn forget_queue(tx: &mut SqliteConnection, queue: &Statements, process: ProcessId) -> Result<()> {
    free_all_groups(&mut *tx, queue, process).await?;
    let forget =
        sqlx::query("delete from ichido_process_queue where process = ? and queue = ?").bind(process.to_string());
    forget.bind(&*queue.queue).execute(tx).await?;
    Ok(())
}

async fn forget_process(tx: &mut SqliteConnection, process: ProcessId) -> Result<bool> {
    let forget = sqlx::query(
        "delete from ichido_process where id = ?1 and not exists (select 1 from ichido_process_queue where process = ?1)",
    );
    Ok(forget.bind(process.to_string()).execute(tx).await?.rows_affected() == 1)
}
