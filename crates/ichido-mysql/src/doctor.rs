//! What the doctor looks at: the mutex rows of a broker's queue, and rows that belong to nobody who is known; and how those are
//! given back.

use std::collections::{BTreeMap, BTreeSet};

use ichido::{
    Key, Result,
    broker::{MutexFilter, MutexRow, Orphan, RawRow, RowState},
    inspect::ParkedState,
    store::ProcessId,
};
use sqlx::{AssertSqlSafe, Row, mysql::MySqlRow};

use crate::{MySql, messages, quote, statements::Statements};

/// More orphans are not looked at together.
const MOST: i64 = 10_000;

impl MySql {
    pub(crate) async fn mutexes_of(&self, queue: &str, which: MutexFilter<'_>) -> Result<Vec<MutexRow>> {
        let queue = self.queue(queue).await?;
        queue.mutex()?;
        let (which_rows, ids, most) = match which {
            MutexFilter::After(after, most) => ("m.id > ?".to_owned(), vec![after.map_or("", id)], most as u64),
            MutexFilter::These([]) | MutexFilter::Probed([]) => return Ok(Vec::new()),
            MutexFilter::These(keys) | MutexFilter::Probed(keys) => {
                let places = vec!["?"; keys.len()].join(", ");
                (format!("m.id in ({places})"), keys.iter().map(id).collect(), u64::MAX)
            }
        };
        let rows = format!(
            "select cast(m.id as char), m.owner, o.mutex is not null, o.mutex is not null and o.published_at is null, \
             cast(timestampdiff(microsecond, case when o.mutex is null then m.sent_at when o.published_at is not null then o.published_at \
             when o.attempts = 0 then coalesce(o.due_at, o.created_at) else o.created_at end, utc_timestamp(6)) div 1000 as signed) \
             from {} m left join {} o on o.mutex = m.id where m.queue = ? and {which_rows} order by m.id limit ?",
            self.shared.schema.mutex, self.shared.schema.outbox
        );
        let rows = sqlx::query(AssertSqlSafe(rows)).bind(&*queue.queue);
        let rows = ids.iter().fold(rows, |rows, id| rows.bind(*id)).bind(most).fetch_all(&self.own).await?;
        let found: Vec<Key> =
            rows.iter().map(|row| Ok(Key::new([row.try_get::<String, _>(0)?]))).collect::<Result<_>>()?;
        let parked = self.parked_states(queue, &found).await?;
        let read = |(row, key): (&MySqlRow, Key)| {
            let owner = row.try_get::<Option<String>, _>(1)?.map(|owner| owner.parse::<ProcessId>()).transpose()?;
            let parked = parked.get(&key.to_string()).copied();
            let raw = RawRow { owner, parked, unsent: row.try_get::<i64, _>(3)? == 1, age_ms: row.try_get(4)? };
            Ok(MutexRow { key, state: raw.state(), kept: row.try_get::<i64, _>(2)? == 1 })
        };
        let mut found = rows.iter().zip(found).map(read).collect::<Result<Vec<_>>>()?;
        if matches!(which, MutexFilter::Probed(_)) {
            self.probe_rows(queue, &mut found).await?;
        }
        Ok(found)
    }

    /// Marks as held what seems free and is locked.
    async fn probe_rows(&self, queue: &Statements, found: &mut [MutexRow]) -> Result<()> {
        for row in found.iter_mut() {
            if let RowState::Unsent(_) | RowState::Published(_) = row.state {
                let mut tx = self.begin_own().await?;
                let free = self.is_unowned(&mut tx, queue, &row.key).await?;
                tx.rollback().await?;
                row.state = if free { row.state } else { RowState::Held };
            }
        }
        Ok(())
    }

    /// What is known about these messages, by key.
    async fn parked_states(&self, queue: &Statements, keys: &[Key]) -> Result<BTreeMap<String, ParkedState>> {
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let states = format!(
            "select convert(`key` using utf8mb4), state from {} where queue = ? and `key` in ({})",
            self.shared.schema.parked,
            vec!["?"; keys.len()].join(", ")
        );
        let states = sqlx::query(AssertSqlSafe(states)).bind(&*queue.queue);
        let states = keys.iter().fold(states, |states, key| states.bind(key.to_string().into_bytes()));
        let states = states.fetch_all(&self.own).await?;
        states.iter().map(|row| Ok((row.try_get(0)?, ParkedState::read(&row.try_get::<String, _>(1)?)))).collect()
    }

    pub(crate) async fn orphans_of(&self, queue: &str) -> Result<Vec<Orphan>> {
        let queue = self.queue(queue).await?;
        let conditions = queue.rows.mapping.conditions(quote::literal)?;
        let (out, table, owner) = (queue.rows.key_out(), &queue.rows.table, &queue.rows.owner.quoted);
        let (new, nobody) = (&conditions.new, &conditions.nobody);
        let mut orphans = Vec::new();
        for is in ["<>", "="] {
            let rows = format!(
                "select {out}, cast(t.{owner} as char) as ichido_owner from {table} t where {new} and t.{owner} {is} {nobody} limit {MOST}"
            );
            for row in sqlx::query(AssertSqlSafe(rows)).fetch_all(&self.own).await? {
                orphans.push(Orphan { key: messages::key(queue, &row)?, owner: row.try_get("ichido_owner")? });
            }
        }
        // After the rows: who has left meanwhile has left nothing behind.
        let processes = format!("select id from {}", self.shared.schema.process);
        let processes = sqlx::query(AssertSqlSafe(processes)).fetch_all(&self.own).await?;
        let processes: BTreeSet<ProcessId> =
            processes.iter().map(|row| Ok(row.try_get::<String, _>(0)?.parse()?)).collect::<Result<_>>()?;
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
        let release = queue.of_many(&queue.release, 1, "");
        let release = sqlx::query(AssertSqlSafe(release)).bind(owner.to_string());
        let release = orphan.key.columns().iter().fold(release, sqlx::query::Query::bind);
        // The row is locked by then, so that what is read afterwards stays as it is.
        let freed = release.execute(&mut *tx).await?.rows_affected() == 1;
        let known = if owner == ProcessId::NOBODY {
            let known = format!("select 1 from {} where queue = ? and `key` = ?", self.shared.schema.parked);
            let known = sqlx::query(AssertSqlSafe(known)).bind(&*queue.queue);
            known.bind(orphan.key.to_string().into_bytes()).fetch_optional(&mut *tx).await?.is_some()
        } else {
            let known = format!("select 1 from {} where id = ?", self.shared.schema.process);
            sqlx::query(AssertSqlSafe(known)).bind(owner.to_string()).fetch_optional(&mut *tx).await?.is_some()
        };
        if !freed || known {
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
