//! Messages of a group run one at a time and in order: only the first unprocessed row of a group can be claimed, and while it
//! is, a row in `ichido_group` holds the group. A message that waits for a retry is still the first of its group; one that has
//! failed goes on holding it until an operator has decided.

use std::{collections::BTreeSet, sync::Arc};

use ichido::{Delivery, Key, error::Result, store::ProcessId};
use ichido_sql::{Conditions, Grouping, Heads, Kind, SqlStore, Tables, group_head, next_group, padded};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::{
    MySql, fault,
    messages::key,
    quote,
    sending::powers,
    statements::{Rows, Statements},
};

/// How the groups of a queue are claimed.
pub(crate) struct Groups {
    /// The first rows of groups that nobody holds. The parameters: the group after which to look, twice; how many groups to
    /// look at; the queue; how many rows.
    pub(crate) look: Arc<str>,
    /// Is there a message in a group?
    pub(crate) there: Arc<str>,
    /// Locks rows that are still claimable; [`Statements::of_many`] completes it.
    lock: Arc<str>,
}

impl Groups {
    pub(crate) fn new(tables: &Tables, rows: &Rows, conditions: &Conditions) -> Result<Option<Self>> {
        let Some(group) = &rows.mapping.group else { return Ok(None) };
        let (table, owner, new) = (&rows.mapping.table, &rows.owner.quoted, &conditions.new);
        let message = rows.message(if rows.mapping.kind == Kind::Table { "?" } else { "" })?;
        Ok(Some(Groups {
            look: look(tables, rows, conditions, group)?.into(),
            there: format!("exists (select 1 from {table} t where {new} and t.{group} is not null)").into(),
            lock: format!("select {message} from {table} t where t.{owner} is null and {new} and ").into(),
        }))
    }
}

/// The groups are walked along their index. The answer always has a row, which tells how far the walk went.
fn look(tables: &Tables, rows: &Rows, conditions: &Conditions, group: &str) -> Result<String> {
    let (table, owner, new, order) = (&rows.mapping.table, &rows.owner.quoted, &conditions.new, conditions.order_by());
    let column = rows.column(group)?;
    let head = |column: &str| group_head(&rows.mapping, conditions, group, column);
    let next = |after: &str| next_group(&rows.mapping, conditions, group, after);
    Ok(format!(
        "with recursive walk(g, n) as (select case when ? is null then ({first}) else ({after}) end, 1 union all select ({next}), n + 1 from walk w where w.g is not null and n < ?) \
         select f.*, (select count(g) from walk), (select {last} from walk t where t.g is not null order by t.n desc limit 1) \
         from (select 1) one left join (select {key}, {text} as ichido_group_key from walk w join {table} t on {head} \
         where {new} and t.{owner} is null and not exists (select 1 from {held} h where h.queue = ? and h.group_key = {text}) \
         order by {order} limit ?) f on true",
        first = next(&format!("t.{group} is not null")),
        after = next(&format!("t.{group} > {}", column.value_of("?"))),
        next = next(&format!("t.{group} > w.g")),
        last = column.out().replace(&format!("t.{}", column.quoted), "t.g"),
        key = rows
            .key
            .iter()
            .enumerate()
            .map(|(at, key)| format!("{} as k{at}", key.out()))
            .collect::<Vec<_>>()
            .join(", "),
        text = rows.group_out()?,
        head = rows.each_key(" and ", |key| format!("t.{} = ({})", key.quoted, head(&key.quoted))),
        held = tables.group,
    ))
}

impl Grouping for MySql {
    /// Claims the first messages of groups that nobody holds. They are looked for without a lock; whether each is still
    /// claimable and its group free shows when it is taken.
    async fn claim_heads(&self, process: ProcessId, queue: &Statements, count: usize) -> Result<Vec<Delivery>> {
        let Some(groups) = &queue.groups else { return Ok(Vec::new()) };
        let heads = self.look_at_heads(queue, groups, count).await?;
        if heads.is_empty() {
            return Ok(Vec::new());
        }
        let (mut tx, _) = self.begin_claim(process, queue).await?;
        let mut lock = sqlx::query(AssertSqlSafe(queue.of_many(&groups.lock, heads.len(), " for update skip locked")));
        if queue.rows.mapping.kind == Kind::Table {
            lock = lock.bind(process.to_string());
        }
        for column in padded(&heads).flat_map(Key::columns) {
            lock = lock.bind(column);
        }
        let picked = self.within(lock.fetch_all(&mut *tx)).await?;
        let mut found = self.deliveries(&mut tx, queue, process, &picked).await?;
        let held = self.held(&mut tx, queue, &found).await?;
        found.retain(|delivery| group_of(delivery).is_some_and(|group| !held.contains(group)));
        if !self.hold_all(&mut tx, queue, process, &found).await? {
            Self::rollback_own(tx).await?;
            return Ok(Vec::new());
        }
        self.claim_picked(&mut tx, queue, process, &found).await?;
        Self::commit_own(tx).await?;
        Ok(found)
    }
}

impl MySql {
    async fn look_at_heads(&self, queue: &Statements, groups: &Groups, count: usize) -> Result<Vec<Key>> {
        let (mut heads, width) = (Vec::new(), queue.rows.key.len());
        let Some(known) = &queue.grouped else { return Ok(heads) };
        let mut walk = known.heads.walk();
        loop {
            let (after, most) = (walk.after(), i64::try_from(count - heads.len()).unwrap_or(i64::MAX));
            let look = || {
                let look = sqlx::query(AssertSqlSafe(groups.look.clone())).bind(after.clone()).bind(after.clone());
                look.bind(Heads::window()).bind(queue.queue.to_string()).bind(most)
            };
            let rows = self.rows_alone(look).await?;
            for row in rows.iter().filter(|row| row.try_get::<Option<String>, _>(0).is_ok_and(|key| key.is_some())) {
                heads.push(key(queue, row)?);
            }
            let Some(first) = rows.first() else { return Ok(heads) };
            let (looked_at, last): (i64, Option<String>) = (first.try_get(width + 1)?, first.try_get(width + 2)?);
            if !walk.goes_on(u32::try_from(looked_at).unwrap_or(u32::MAX), last) || heads.len() >= count {
                return Ok(heads);
            }
        }
    }

    /// Which groups of these messages somebody holds.
    async fn held(&self, tx: &mut MySqlConnection, queue: &Statements, found: &[Delivery]) -> Result<BTreeSet<String>> {
        if found.is_empty() {
            return Ok(BTreeSet::new());
        }
        let places = quote::places(found);
        let held = format!(
            "select convert(group_key using utf8mb4) from {} where queue = ? and group_key in ({places})",
            self.shared.known.tables.group
        );
        let mut held = sqlx::query(AssertSqlSafe(held)).bind(&*queue.queue);
        for delivery in padded(found) {
            held = held.bind(group_of(delivery).map(String::as_bytes));
        }
        let held = self.within(held.fetch_all(tx)).await?;
        held.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Takes the groups of these messages; false if somebody else was faster with one of them.
    async fn hold_all(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        owner: ProcessId,
        found: &[Delivery],
    ) -> Result<bool> {
        for some in powers(found) {
            let places = vec!["(?, ?, ?)"; some.len()].join(", ");
            let hold =
                format!("insert into {} (queue, group_key, owner) values {places}", self.shared.known.tables.group);
            let mut hold = sqlx::query(AssertSqlSafe(hold));
            for delivery in some {
                let group = group_of(delivery).map(String::as_bytes);
                hold = hold.bind(&*queue.queue).bind(group).bind(owner.to_string());
            }
            match self.within(hold.execute(&mut *tx)).await {
                Err(error) if fault::is_unique(&error) => return Ok(false),
                done => done?,
            };
        }
        Ok(true)
    }
}

fn group_of(delivery: &Delivery) -> Option<&String> {
    delivery.claim.as_ref()?.group.as_ref()
}
