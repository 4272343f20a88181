//! Messages of a group run one at a time and in order: only the first unprocessed row of a group can be claimed, and while it
//! is, a row in `ichido_group` holds the group. A message that waits for a retry is still the first of its group; one that has
//! failed goes on holding it until an operator has decided.

use std::sync::Arc;

use ichido::{Delivery, Error, error::Result, store::ProcessId};
use ichido_sql::{Conditions, Grouping, Heads, Owned, group_head, next_group, verbs};
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use crate::{
    Sqlite,
    messages::{key, key_list},
    statements::{Rows, Statements},
};

/// How the groups of a queue are claimed.
pub(crate) struct Groups {
    /// The first rows of groups that nobody holds. `?1` is how many, `?2` the group after which to look, `?3` how many groups
    /// to look at, `?4` the queue.
    pub(crate) look: Arc<str>,
    /// The part of it that finds a group, for the planner to explain.
    pub(crate) walk: Arc<str>,
    /// Is there a message in a group?
    there: Arc<str>,
    /// The messages of `?1` with the keys in `?2`.
    read: Arc<str>,
}

impl Groups {
    pub(crate) fn new(rows: &Rows, conditions: &Conditions) -> Option<Self> {
        let group = rows.mapping.group.as_ref()?;
        let (table, owner, new) = (&rows.mapping.table, &rows.owner.quoted, &conditions.new);
        let mine = format!("t.{owner} = ?1 and {new}");
        let read = format!(
            "select {} from json_each(?2) k, {table} t where {} and {mine} order by {}",
            rows.message(),
            rows.key_in_keys(),
            conditions.order_by()
        );
        Some(Groups {
            look: look(rows, conditions, group).into(),
            walk: next_group(&rows.mapping, conditions, group, &format!("t.{group} is not null")).into(),
            there: format!("select 1 from {table} t where {new} and t.{group} is not null limit 1").into(),
            read: read.into(),
        })
    }
}

/// The groups are walked along their index. The answer always has a row, which tells how far the walk went. Whether a group is
/// held is asked with its column on the left, by whose affinity and collation values are compared.
fn look(rows: &Rows, conditions: &Conditions, group: &str) -> String {
    let (table, owner, new, order) = (&rows.mapping.table, &rows.owner.quoted, &conditions.new, conditions.order_by());
    let head = |column: &str| group_head(&rows.mapping, conditions, group, column);
    let next = |after: &str| next_group(&rows.mapping, conditions, group, after);
    format!(
        "with recursive walk(g, n) as materialized (select case when ?2 is null then ({first}) else ({after}) end, 1 union all select ({next}), n + 1 from walk w where w.g is not null and n < ?3) \
         select f.*, (select count(g) from walk) as looked_at, (select cast(g as text) from walk where g is not null order by n desc limit 1) as last \
         from (select 1) left join (select {key}, {text} as ichido_group_key from walk w join {table} t on {head} \
         where {new} and t.{owner} is null and not exists (select 1 from ichido_group h where h.queue = ?4 and t.{group} = h.group_key) \
         order by {order} limit ?1) f on true",
        first = next(&format!("t.{group} is not null")),
        after = next(&format!("t.{group} > ?2")),
        next = next(&format!("t.{group} > w.g")),
        key = rows.each_key(", ", |at, column| format!("{} as k{at}", column.out("t."))),
        text = rows.group_out(),
        head = rows.each_key(" and ", |_, column| format!("t.{} = ({})", column.quoted, head(&column.quoted))),
    )
}

impl Grouping for Sqlite {
    /// Claims the first messages of groups that nobody holds. They are looked for without the right to write; whether each is
    /// still claimable and its group free shows when it is taken.
    async fn claim_heads(&self, process: ProcessId, queue: &Statements, count: usize) -> Result<Vec<Delivery>> {
        let Some(groups) = &queue.groups else { return Ok(Vec::new()) };
        let heads = self.look_at_heads(queue, groups, count).await?;
        if heads.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.begin_tx().await?;
        if !self.is_known(tx.connection(), process).await? {
            tx.rollback().await?;
            return Err(Error::LostClaim);
        }
        let mut taken = Vec::new();
        for head in heads {
            if self.take(&mut tx, queue, process, &head).await? {
                taken.push(head.key);
            }
        }
        let read = sqlx::query(AssertSqlSafe(groups.read.clone())).bind(process.to_string());
        let rows = read.bind(key_list(taken.iter())).fetch_all(tx.connection()).await?;
        let found = self.deliveries(&mut tx, queue, process, &rows).await?;
        tx.commit().await?;
        Ok(found)
    }
}

impl Sqlite {
    /// Are there messages in groups?
    pub(crate) async fn any_grouped(&self, groups: &Groups) -> Result<bool> {
        let there = sqlx::query(AssertSqlSafe(groups.there.clone())).fetch_optional(&self.readers).await?;
        Ok(there.is_some())
    }

    async fn look_at_heads(&self, queue: &Statements, groups: &Groups, count: usize) -> Result<Vec<Owned>> {
        let mut heads = Vec::new();
        let Some(known) = &queue.grouped else { return Ok(heads) };
        let mut walk = known.heads.walk();
        loop {
            let look = sqlx::query(AssertSqlSafe(groups.look.clone()));
            let look = look.bind(i64::try_from(count - heads.len()).unwrap_or(i64::MAX)).bind(walk.after());
            let rows = look.bind(Heads::window()).bind(&*queue.queue).fetch_all(&self.readers).await?;
            for row in rows.iter().filter(|row| row.try_get::<Option<&str>, _>(0).is_ok_and(|key| key.is_some())) {
                heads.push(Owned { key: key(queue, row)?, group: row.try_get("ichido_group_key")? });
            }
            let Some(first) = rows.first() else { return Ok(heads) };
            let (looked_at, last): (u32, Option<String>) = (first.try_get("looked_at")?, first.try_get("last")?);
            if !walk.goes_on(looked_at, last) || heads.len() >= count {
                return Ok(heads);
            }
        }
    }

    /// Takes a group and claims its first message; false if somebody else was faster.
    async fn take(
        &self,
        tx: &mut SqliteConnection,
        queue: &Statements,
        process: ProcessId,
        head: &Owned,
    ) -> Result<bool> {
        let hold = sqlx::query("insert or ignore into ichido_group (queue, group_key, owner) values (?, ?, ?)");
        let hold = hold.bind(&*queue.queue).bind(&head.group).bind(process.to_string());
        if hold.execute(&mut *tx).await?.rows_affected() != 1 {
            return Ok(false);
        }
        let claim = sqlx::query(AssertSqlSafe(queue.claim.clone())).bind(process.to_string());
        if claim.bind(key_list([&head.key])).execute(&mut *tx).await?.rows_affected() == 1 {
            return Ok(true);
        }
        verbs::groups::free(self, tx, queue, process, head.group.clone().into_iter().collect()).await?;
        Ok(false)
    }
}
