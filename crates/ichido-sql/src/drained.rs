//! What is still to be done in a queue, in words that all dialects understand.

use ichido::inspect::MOST_COUNTED;

use crate::{Conditions, Dialect, Kind, Tables};

/// A condition: nothing of the queue is unprocessed, whoever owns it, nothing waits for a retry, and no delay or snooze is over by now. `queue` is a
/// literal, `owner` a quoted column. Of a broker's queue also: nothing was published through it that was never tried, and may be on its way to a queue of the
/// same process.
#[must_use]
pub fn drained<D: Dialect>(
    tables: &Tables,
    queue: &str,
    kind: Kind,
    table: &str,
    owner: &str,
    conditions: &Conditions,
) -> String {
    let Conditions { new, nobody, .. } = conditions;
    let (parked, outbox, now) = (&tables.parked, &tables.outbox, D::NOW);
    let none_unpublished = match kind {
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

/// How many rows are claimable.
#[must_use]
pub fn backlog(table: &str, owner: &str, conditions: &Conditions) -> String {
    let new = &conditions.new;
    format!(
        "select count(*) from (select 1 as one from {table} t where {new} and t.{owner} is null limit {MOST_COUNTED}) c"
    )
}
