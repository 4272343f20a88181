//! What the doctor looks at: the mutex rows of a broker's queue, and rows that belong to nobody who is known; and how those are
//! given back.

use std::collections::{BTreeMap, BTreeSet};

use ichido::{
    Key, Result,
    broker::{MutexFilter, MutexRow, Orphan, RawRow, RowState},
    inspect::ParkedState,
    store::ProcessId,
};
use sqlx::{AssertSqlSafe, Row, postgres::PgRow};

use crate::{Postgres, messages, quote, statements::Statements};

/// More orphans are not looked at together.
const MOST: i64 = 10_000;

impl Postgres {
    pub(crate) async fn mutexes_of(&self, queue: &str, which: MutexFilter<'_>) -> Result<Vec<MutexRow>> {
        let queue = self.queue(queue).await?;
        queue.mutex()?;
        let (mutex, outbox) = (&self.shared.schema.mutex, &self.shared.schema.outbox);
        let (after, keys, most) = match which {
            MutexFilter::After(after, most) => (after.map_or("", id), None, i64::try_from(most).unwrap_or(i64::MAX)),
            MutexFilter::These(keys) | MutexFilter::Probed(keys) => ("", Some(keys), i64::MAX),
        };
        let keys: Option<Vec<&str>> = keys.map(|keys| keys.iter().map(id).filter(|id| !id.contains('\0')).collect());
        let rows = format!(
            "select m.id, m.owner::text, o.mutex is not null, o.mutex is not null and o.published_at is null, \
             (extract(epoch from clock_timestamp() - case when o.mutex is null then m.sent_at when o.published_at is not null then o.published_at \
             when o.attempts = 0 then coalesce(o.due_at, o.created_at) else o.created_at end) * 1000)::bigint \
             from {mutex} m left join {outbox} o on o.mutex = m.id where m.queue = $1 and m.id > $2 and ($3::text[] is null or m.id = any($3)) \
             order by m.id limit $4"
        );
        let rows = sqlx::query(AssertSqlSafe(rows)).bind(&*queue.queue).bind(after).bind(keys).bind(most);
        let rows = self.own.fetch_all(rows).await?;
        let found: Vec<Key> =
            rows.iter().map(|row| Ok(Key::new([row.try_get::<&str, _>(0)?]))).collect::<Result<_>>()?;
        let parked = self.parked_states(queue, &found).await?;
        let read = |(row, key): (&PgRow, Key)| {
            let owner = row.try_get::<Option<&str>, _>(1)?.map(str::parse::<ProcessId>).transpose()?;
            let parked = parked.get(&key.to_string()).copied();
            let raw = RawRow { owner, parked, unsent: row.try_get(3)?, age_ms: row.try_get(4)? };
            Ok(MutexRow { key, state: raw.state(), kept: row.try_get(2)? })
        };
        let mut found = rows.iter().zip(found).map(read).collect::<Result<Vec<_>>>()?;
        if matches!(which, MutexFilter::Probed(_)) {
            self.probe_rows(queue, &mut found).await?;
        }
        Ok(found)
    }

    /// Marks as held what seems free and is locked.
    async fn probe_rows(&self, queue: &Statements, found: &mut [MutexRow]) -> Result<()> {
        let probe = format!(
            "select 1 from {} where id = $1 and queue = $2 and owner is null for update skip locked",
            self.shared.schema.mutex
        );
        for row in found.iter_mut() {
            if let RowState::Unsent(_) | RowState::Published(_) = row.state {
                let mut tx = self.begin_own().await?;
                let probe = sqlx::query(AssertSqlSafe(probe.clone())).bind(id(&row.key)).bind(&*queue.queue);
                let free = probe.fetch_optional(&mut *tx).await?.is_some();
                tx.rollback().await?;
                row.state = if free { row.state } else { RowState::Held };
            }
        }
        Ok(())
    }

    /// What is known about these messages, by key.
    async fn parked_states(&self, queue: &Statements, keys: &[Key]) -> Result<BTreeMap<String, ParkedState>> {
        let states = format!("select key, state from {} where queue = $1 and key = any($2)", self.shared.schema.parked);
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let states = self.own.fetch_all(sqlx::query(AssertSqlSafe(states)).bind(&*queue.queue).bind(keys)).await?;
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
                "select {out}, t.{owner}::text as owner from {table} t where {new} and t.{owner} {is} {nobody} limit {MOST}"
            );
            for row in self.own.fetch_all(sqlx::query(AssertSqlSafe(rows))).await? {
                orphans.push(Orphan { key: messages::key(queue, &row)?, owner: row.try_get("owner")? });
            }
        }
        // After the rows: who has left meanwhile has left nothing behind.
        let processes = format!("select id::text from {}", self.shared.schema.process);
        let processes = self.own.fetch_all(sqlx::query(AssertSqlSafe(processes))).await?;
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
        let mut tx = self.begin_own().await?;
        let known = format!(
            "select exists (select 1 from {} where id = $1::text::uuid) or ($1 = '{}' and exists (select 1 from {} where queue = $2 and key = $3))",
            self.shared.schema.process,
            ProcessId::NOBODY,
            self.shared.schema.parked
        );
        let known = sqlx::query(AssertSqlSafe(known)).bind(owner.to_string()).bind(&*queue.queue);
        let mut release = sqlx::query(AssertSqlSafe(queue.release.clone())).bind(owner.to_string());
        for column in messages::key_columns(queue, &[&orphan.key]) {
            release = release.bind(column);
        }
        // The row is locked by then, so that what is read afterwards stays as it is.
        let freed = release.execute(&mut *tx).await?.rows_affected() == 1;
        let known = known.bind(orphan.key.to_string()).fetch_one(&mut *tx).await?;
        if !freed || known.try_get(0)? {
            tx.rollback().await?;
            return Ok(false);
        }
        if owner != ProcessId::NOBODY {
            self.free_all_groups(&mut tx, queue, owner).await?;
        }
        self.republish(&mut tx, queue, std::slice::from_ref(&orphan.key)).await?;
        tx.commit().await?;
        Ok(true)
    }
}

fn id(key: &Key) -> &str {
    key.columns().first().map_or("", String::as_str)
}
