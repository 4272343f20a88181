//! What is still to be done in a queue, and what can be claimed of it, in words that all dialects understand.

use ichido::inspect::MOST_COUNTED;

use crate::{Conditions, Dialect, Kind, Mapping, Tables};

/// A condition: nothing of the queue is unprocessed, whoever owns it, nothing waits for a retry, and no delay or snooze is over by now. `queue` is a
/// literal. Of a broker's queue also: nothing was published through it that was never tried, and may be on its way to a queue of the
/// same process.
#[must_use]
pub fn drained<D: Dialect>(tables: &Tables, queue: &str, mapping: &Mapping, conditions: &Conditions) -> String {
    let (Conditions { new, nobody, .. }, Mapping { table, owner, .. }) = (conditions, mapping);
    let (parked, outbox, now) = (&tables.parked, &tables.outbox, D::NOW);
    let none_unpublished = match mapping.kind {
        Kind::Mutex => format!(
            " and not exists (select 1 from {outbox} where queue = {queue} and published_at is null and mutex is null and attempts = 0)"
        ),
        Kind::Table | Kind::Managed => String::new(),
    };
    format!(
        "not exists (select 1 from {table} t where {new} and (t.{owner} is null or t.{owner} <> {nobody})) \
         and not exists (select 1 from {parked} where queue = {queue} and state = 'waiting' \
         and ((attempts > 0 and snoozed = 0) or due_at <= {now})){none_unpublished}"
    )
}

/// A condition: there may be a row to claim. It reads the first one along the claim index, which an EXISTS would not: the planner would
/// drop the order from it. The first of a group may be somebody's; the claim knows.
pub(crate) fn claimable(mapping: &Mapping, conditions: &Conditions) -> String {
    let (Conditions { new, ungrouped, .. }, Mapping { table, owner, .. }) = (conditions, mapping);
    let order = conditions.order_by();
    let first =
        format!("(select 1 from {table} t where {new} and t.{owner} is null{ungrouped} order by {order} limit 1)");
    let grouped = mapping
        .group
        .as_ref()
        .map(|group| format!("exists (select 1 from {table} t where {new} and t.{group} is not null)"));
    let first = (!mapping.all_grouped).then(|| format!("{first} is not null"));
    let either: Vec<_> = first.into_iter().chain(grouped).collect();
    format!("({})", either.join(" or "))
}

/// How many rows are claimable, in no group and in one; of either no more than so many are counted. Of our own messages in claim order: that has an
/// index for certain, and a planner that knows of few would read all that waits.
pub(crate) fn backlog(mapping: &Mapping, conditions: &Conditions, most: u64) -> String {
    let (Conditions { new, ungrouped, .. }, Mapping { table, owner, .. }) = (conditions, mapping);
    let claimable = format!("select 1 as one from {table} t where {new} and t.{owner} is null");
    let count = |rows: String| format!("(select count(*) from ({rows} limit {most}) c)");
    match &mapping.group {
        Some(group) if mapping.kind == Kind::Managed => {
            let alone = count(format!("{claimable}{ungrouped} order by {}", conditions.order_by()));
            format!("select {alone}, {}", count(format!("{claimable} and t.{group} is not null")))
        }
        _ => format!("select {}, 0", count(claimable)),
    }
}

/// How many rows are claimable and claimed, for how many seconds the oldest of the claimable has waited, and how many of them are
/// recent. Bounded: who looks at a long backlog must not read all of it. `sent_at` is when a row `t` was sent; the other two are said of
/// that, as `s`.
#[must_use]
pub fn counts(mapping: &Mapping, conditions: &Conditions, [sent_at, oldest, recent]: &[String; 3]) -> String {
    let (Conditions { new, .. }, Mapping { table, owner, .. }) = (conditions, mapping);
    let owned = conditions.owned(owner);
    format!(
        "select count(*), (select count(*) from (select 1 from {table} t where {new} and {owned} limit {MOST_COUNTED}) claimed), \
         {oldest}, {recent} from (select {sent_at} as s from {table} t where {new} and t.{owner} is null limit {MOST_COUNTED}) ready"
    )
}
