//! What the doctor looks at: the mutex rows of a broker's queue, and rows that belong to nobody who is known; and how those are
//! given back. There are no row locks here, so nothing is to be probed.

use std::collections::{BTreeMap, BTreeSet};

use ichido::{
    Key, Result,
    broker::{MutexFilter, MutexRow, Orphan, RawRow},
    inspect::ParkedState,
    store::ProcessId,
};
use sqlx::{AssertSqlSafe, Row, sqlite::SqliteRow};

use crate::{
    Sqlite,
    groups::free_all_groups,
    messages::{self, key_list},
    outbox::republish,
    quote,
    statements::Statements,
};

/// More orphans are not looked at together.
const MOST: i64 = 10_000;

impl Sqlite {
    pub(crate) async fn mutexes_of(&self, queue: &str, which: MutexFilter<'_>) -> Result<Vec<MutexRow>> {
        let queue = self.queue(queue).await?;
        queue.mutex()?;
        let (after, keys, most) = match which {
            MutexFilter::After(after, most) => (after.map_or("", id), None, i64::try_from(most).unwrap_or(i64::MAX)),
            MutexFilter::These(keys) | MutexFilter::Probed(keys) => ("", Some(keys), i64::MAX),
        };
        let keys = keys.map(|keys| serde_json::to_string(&keys.iter().map(id).collect::<Vec<_>>())).transpose()?;
        let rows = sqlx::query(
            "select m.id, m.owner, o.mutex is not null, o.mutex is not null and o.published_at is null, \
             cast(round((julianday('now') - julianday(case when o.mutex is null then m.sent_at when o.published_at is not null then o.published_at \
             when o.attempts = 0 then coalesce(o.due_at, o.created_at) else o.created_at end)) * 86400000) as integer) \
             from ichido_mutex m left join ichido_outbox o on o.mutex = m.id where m.queue = ?1 and m.id > ?2 \
             and (?3 is null or m.id in (select value from json_each(?3))) order by m.id limit ?4",
        );
        let rows = rows.bind(&*queue.queue).bind(after).bind(keys).bind(most).fetch_all(&self.readers).await?;
        let found: Vec<Key> =
            rows.iter().map(|row| Ok(Key::new([row.try_get::<&str, _>(0)?]))).collect::<Result<_>>()?;
        let parked = self.parked_states(queue, &found).await?;
        let read = |(row, key): (&SqliteRow, Key)| {
            let owner = row.try_get::<Option<&str>, _>(1)?.map(str::parse::<ProcessId>).transpose()?;
            let parked = parked.get(&key.to_string()).copied();
            let raw = RawRow { owner, parked, unsent: row.try_get(3)?, age_ms: row.try_get(4)? };
            Ok(MutexRow { key, state: raw.state(), kept: row.try_get(2)? })
        };
        rows.iter().zip(found).map(read).collect()
    }

    /// What is known about these messages, by key.
    async fn parked_states(&self, queue: &Statements, keys: &[Key]) -> Result<BTreeMap<String, ParkedState>> {
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let states = sqlx::query(
            "select key, state from ichido_parked where queue = ?1 and key in (select value from json_each(?2))",
        );
        let states = states.bind(&*queue.queue).bind(serde_json::to_string(&keys)?).fetch_all(&self.readers).await?;
        states.iter().map(|row| Ok((row.try_get(0)?, ParkedState::read(row.try_get(1)?)))).collect()
    }

    pub(crate) async fn orphans_of(&self, queue: &str) -> Result<Vec<Orphan>> {
        let queue = self.queue(queue).await?;
        let conditions = queue.rows.mapping.conditions(quote::literal)?;
        let (out, table, owner) = (queue.rows.key_out(), &queue.rows.table, &queue.rows.owner.quoted);
        let (new, nobody) = (&conditions.new, &conditions.nobody);
        let mut orphans = Vec::new();
        for is in ["<>", "="] {
            let rows = format!(
                "select {out}, cast(t.{owner} as text) as ichido_owner from {table} t where {new} and t.{owner} {is} {nobody} limit {MOST}"
            );
            for row in sqlx::query(AssertSqlSafe(rows)).fetch_all(&self.readers).await? {
                orphans.push(Orphan { key: messages::key(queue, &row)?, owner: row.try_get("ichido_owner")? });
            }
        }
        // After the rows: who has left meanwhile has left nothing behind.
        let processes = sqlx::query("select id from ichido_process").fetch_all(&self.readers).await?;
        let processes: BTreeSet<ProcessId> =
            processes.iter().map(|row| Ok(row.try_get::<&str, _>(0)?.parse()?)).collect::<Result<_>>()?;
        let aside: Vec<Key> =
            orphans.iter().filter(|orphan| orphan.is_aside()).map(|orphan| orphan.key.clone()).collect();
        let known = self.parked_states(queue, &aside).await?;
        orphans.retain(|orphan| !orphan.is_known(&processes, &known));
        Ok(orphans)
    }

    pub(crate) async fn give_back_orphan(&self, queue: &str, orphan: &Orphan) -> Result<bool> {
        let queue = self.queue(queue).await?;
        queue.refuse_key(&orphan.key)?;
        let Ok(owner) = orphan.owner.parse::<ProcessId>() else { return Ok(false) };
        let mut tx = self.begin_tx().await?;
        let known = sqlx::query(
            "select exists (select 1 from ichido_process where id = ?1) \
             or (?1 = ?4 and exists (select 1 from ichido_parked where queue = ?2 and key = ?3))",
        );
        let known = known.bind(owner.to_string()).bind(&*queue.queue).bind(orphan.key.to_string());
        let known = known.bind(ProcessId::NOBODY.to_string()).fetch_one(tx.connection()).await?;
        let release = sqlx::query(AssertSqlSafe(queue.release.clone())).bind(owner.to_string());
        let release = release.bind(key_list([&orphan.key])).execute(tx.connection()).await?;
        if release.rows_affected() != 1 || known.try_get(0)? {
            tx.rollback().await?;
            return Ok(false);
        }
        if owner != ProcessId::NOBODY {
            free_all_groups(tx.connection(), queue, owner).await?;
        }
        republish(tx.connection(), queue, std::slice::from_ref(&orphan.key)).await?;
        tx.commit().await?;
        Ok(true)
    }
}

fn id(key: &Key) -> &str {
    key.columns().first().map_or("", String::as_str)
}
