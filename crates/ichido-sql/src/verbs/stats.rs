//! What processes have counted, minute by minute: written whole, read for the last minutes, added up over all processes after an hour, forgotten
//! when it is old.

use std::time::Duration;

use ichido::{
    error::Result,
    message::wait_ms,
    process::Retention,
    stat::{Stat, StatRow},
    store::ProcessId,
};

use crate::{
    Dialect, Query, Row, SqlStore,
    stats::{COLUMNS, KEY, StatCells, VALUES, pruned_before},
    verbs::{answers, cancel, files, inbox, rollup},
};

/// More rows than this are not read: the newest are.
const MOST_STATS: i64 = 50_000;

/// Old notes about what operators did are forgotten so many at a time.
const NOTES_AT_A_TIME: i64 = 1000;

/// Keeps the longest time that a message of a queue has taken.
///
/// # Errors
/// The database failed.
pub async fn note_longest<S: SqlStore>(store: &S, queue: &str, time: Duration) -> Result<()> {
    let longest = &store.tables().longest;
    let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let mut own = store.begin_own().await?;
    let first = S::Dialect::insert_new(longest, "queue, longest_us", "?1, ?2");
    store.execute(&mut own, Query::new(first).bind(queue).bind(time)).await?;
    let longer =
        format!("update {longest} set longest_us = ?2, at = {} where queue = ?1 and longest_us < ?2", S::Dialect::NOW);
    store.execute(&mut own, Query::new(longer).bind(queue).bind(time)).await?;
    S::commit_own(own).await
}

/// Writes what a process has counted in a minute; rows that are there already are replaced. One statement.
///
/// # Errors
/// The database failed.
pub async fn note<S: SqlStore>(store: &S, process: ProcessId, minute: i64, stats: &[Stat]) -> Result<()> {
    if stats.is_empty() {
        return Ok(());
    }
    store.write(written(store, process, minute, stats)).await?;
    Ok(())
}

/// The statement that writes these rows; what is there already is replaced.
pub(crate) fn written<S: SqlStore>(store: &S, process: ProcessId, minute: i64, stats: &[Stat]) -> Query {
    let row = |row: usize| (1..=COLUMNS).map(|at| format!("?{}", row * COLUMNS + at)).collect::<Vec<_>>().join(", ");
    let write = format!(
        "insert into {} ({KEY}, {}) values ({}) {}",
        store.tables().stat,
        VALUES.join(", "),
        (0..stats.len()).map(row).collect::<Vec<_>>().join("), ("),
        S::Dialect::or_replace(KEY, &VALUES)
    );
    let mut write = Query::new(write);
    for cells in stats.iter().map(StatCells::of) {
        write = write.bind(minute).bind(cells.queue).bind(cells.level).bind(process).bind(cells.lanes);
        write = cells.numbers.into_iter().fold(write, Query::bind);
        write = write.bind(cells.waiting).bind(cells.running);
    }
    write
}

/// Prunes what is older than it is to be kept, some of it at a time. Looks first: nothing is written where there is nothing to forget.
///
/// # Errors
/// The database failed.
pub async fn prune<S: SqlStore>(store: &S, retention: Retention) -> Result<bool> {
    let (stat, audit, minute) = (&store.tables().stat, &store.tables().audit, S::Dialect::MINUTE);
    let old = S::Dialect::after('-', "?2");
    let look = format!(
        "select {minute} - ?1, (select min(minute) from {stat} where minute < {minute} - ?1), \
         (select id from (select id, at from {audit} order by id limit 1) first where at < {old})"
    );
    let audit_ms = retention.audit_seconds().saturating_mul(1000);
    let look = Query::new(look).bind(retention.stat_minutes()).bind(audit_ms);
    let Some(found) = store.look(look).await?.into_iter().next() else { return Ok(false) };
    let mut more = false;
    if let Some(oldest) = found.get(1)? {
        let (before, all) = (pruned_before(oldest, found.get(0)?), found.get::<i64>(0)?);
        let forget = Query::new(format!("delete from {stat} where minute < ?1"));
        store.write(forget.bind(before)).await?;
        more |= before < all;
    }
    if let Some(first) = found.get::<Option<i64>>(2)? {
        let forget = Query::new(format!("delete from {audit} where id < ?1 and at < {old}"));
        let forgotten = store.write(forget.bind(first.saturating_add(NOTES_AT_A_TIME)).bind(audit_ms)).await?;
        more |= forgotten.cast_signed() >= NOTES_AT_A_TIME;
    }
    files::prune(store).await?;
    cancel::prune(store).await?;
    answers::prune(store).await?;
    more |= inbox::prune(store, wait_ms(retention.inbox)).await?;
    more |= rollup::add_up(store).await?;
    Ok(more)
}

/// What processes have counted in the last minutes, the newest first.
///
/// # Errors
/// The database failed.
pub async fn read<S: SqlStore>(store: &S, last: Duration) -> Result<Vec<StatRow>> {
    store.queues().await?;
    let read = format!(
        "select {}, minute, queue, level, {}, {} - minute * 60 from {} where minute >= {} - ?1 order by minute desc limit {MOST_STATS}",
        S::Dialect::id("process"),
        VALUES.join(", "),
        S::Dialect::EPOCH,
        store.tables().stat,
        S::Dialect::MINUTE,
    );
    let minutes = i64::try_from(last.as_secs().div_ceil(60)).unwrap_or(i64::MAX / 2);
    store.look(Query::new(read).bind(minutes)).await?.iter().map(stat_row).collect()
}

/// Reads [`VALUES`] between a process, a minute, a queue and a level, and an age.
pub(crate) fn stat_row(row: &Row) -> Result<StatRow> {
    let mut cells = StatCells {
        queue: row.get(2)?,
        level: row.get(3)?,
        lanes: row.get(4)?,
        waiting: row.get(16)?,
        running: row.get(17)?,
        ..StatCells::default()
    };
    for (at, number) in cells.numbers.iter_mut().enumerate() {
        *number = row.get(5 + at)?;
    }
    cells.row(&row.get::<String>(0)?, row.get(1)?, row.get(18)?)
}
