//! Messages of a group run one at a time and in order: only the first unprocessed row of a group can be claimed, and while it
//! is, a row in `ichido_group` holds the group. A message that waits for a retry is still the first of its group; one that has
//! failed goes on holding it until an operator has decided.

use std::sync::Arc;

use ichido::{Delivery, Error, error::Result, store::ProcessId};
use ichido_sql::{Conditions, Grouping, Heads, Tables, group_head, next_group};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::{
    Postgres,
    messages::claimed_rows,
    quote,
    statements::{ALIVE, Rows, Statements, me_if_picked},
};

/// How the groups of a queue are claimed.
pub(crate) struct Groups {
    /// Claims the first rows of groups. `$2` is how many, `$3` the group after which to look, `$4` how many groups to look at.
    pub(crate) claim: Arc<str>,
    /// The part of it that finds a group, for the planner to explain.
    pub(crate) look: Arc<str>,
}

impl Groups {
    pub(crate) fn new(tables: &Tables, queue: &str, rows: &Rows, conditions: &Conditions) -> Result<Option<Self>> {
        let Some(group) = &rows.mapping.group else { return Ok(None) };
        let claim = claim(tables, queue, rows, conditions, group)?.into();
        let look = next_group(&rows.mapping, conditions, group, &format!("t.{group} is not null"));
        Ok(Some(Groups { claim, look: look.into() }))
    }
}

/// One statement, so that a process that is stopped in between holds nothing. The groups are walked along their index; what
/// is claimed is sorted, so that two claims take groups in the same order. Where a walk begins is one of two looks and not one
/// with an OR: a plan that is made for all runs could not use the index for that.
fn claim(tables: &Tables, queue: &str, rows: &Rows, conditions: &Conditions, group: &str) -> Result<String> {
    let (table, owner, new) = (&rows.mapping.table, &rows.owner.quoted, &conditions.new);
    let order = conditions.order_by();
    let head = |column: &str| group_head(&rows.mapping, conditions, group, column);
    let next = |after: &str| next_group(&rows.mapping, conditions, group, after);
    Ok(format!(
        "with recursive walk(g, n) as (select case when $3::text is null then ({first}) else ({after}) end, 1 union all select ({next}), n + 1 from walk w where w.g is not null and n < $4), \
         picked as materialized (select {key}, {text} as group_key from walk w join {table} t on {head} \
         where {new} and t.{owner} is null \
         and not exists (select 1 from {held} h where h.queue = {queue} and h.group_key = {text}) \
         order by {order} limit $2 for update of t skip locked), {me}, \
         taken as (insert into {held} (queue, group_key, owner) select {queue}, p.group_key, $1::text::uuid from picked p \
         where exists (select 1 from me) order by p.group_key \
         on conflict do nothing returning group_key), \
         claimed as (update {table} t set {owner} = {owned} from picked join taken on taken.group_key = picked.group_key where {same} returning {message}) \
         select {ALIVE}, (select count(g) from walk), (select g::text from walk where g is not null order by n desc limit 1), c.* \
         from (values (1)) as one(n) left join claimed c on true",
        me = me_if_picked(tables),
        first = next(&format!("t.{group} is not null")),
        after = next(&format!("t.{group} > {}", rows.cast(group, 3))),
        next = next(&format!("t.{group} > w.g")),
        key = rows.each_key(", ", |at, column| format!("t.{} as k{at}", column.quoted)),
        text = rows.group_text().unwrap_or_default(),
        head = rows.each_key(" and ", |_, column| format!("t.{} = ({})", column.quoted, head(&column.quoted))),
        held = tables.group,
        queue = quote::literal(queue)?,
        owned = rows.me(),
        same = rows.each_key(" and ", |at, column| format!("t.{} = picked.k{at}", column.quoted)),
        message = rows.message(),
    ))
}

impl Grouping for Postgres {
    /// Claims the first messages of groups that nobody holds.
    async fn claim_heads(&self, process: ProcessId, queue: &Statements, count: usize) -> Result<Vec<Delivery>> {
        let (Some(groups), Some(known)) = (&queue.groups, &queue.grouped) else { return Ok(Vec::new()) };
        let (mut found, mut walk) = (Vec::new(), known.heads.walk());
        loop {
            let claim = sqlx::query(AssertSqlSafe(groups.claim.clone())).bind(process.to_string());
            let claim = claim.bind(i64::try_from(count - found.len()).unwrap_or(i64::MAX)).bind(walk.after());
            let rows = self.own.fetch_all(claim.bind(i64::from(Heads::window()))).await?;
            let Some(first) = rows.first() else { return Err(Error::LostClaim) };
            if !first.try_get::<bool, _>(0)? {
                return Err(Error::LostClaim);
            }
            let (looked_at, last): (i64, Option<String>) = (first.try_get(1)?, first.try_get(2)?);
            found.extend(self.deliveries(queue, process, &claimed_rows(&rows), true).await?);
            if !walk.goes_on(u32::try_from(looked_at).unwrap_or(u32::MAX), last) || found.len() >= count {
                return Ok(found);
            }
        }
    }
}

impl Postgres {
    /// Groups that messages held are free again, with their completion. Behind a pooler without a name, as [`Postgres::pass_door`] says.
    pub(crate) async fn free_groups(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        owner: ProcessId,
        groups: &[String],
    ) -> sqlx::Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        let free = format!(
            "delete from {} where queue = $1 and owner = $2::text::uuid and group_key = any($3)",
            self.shared.known.tables.group
        );
        let free = sqlx::query(AssertSqlSafe(free)).bind(&*queue.queue).bind(owner.to_string()).bind(groups);
        free.persistent(!self.own.is_pooled()).execute(tx).await.map(|_| ())
    }
}
