//! What processes have counted in a minute that is more than an hour ago, added up over all of them: from then on a minute has one row per queue
//! and level, which is nobody's. So a fleet's size does not show in how much is kept. Part of `stats::prune`.

use std::collections::BTreeMap;

use ichido::{
    error::Result,
    stat::{Stat, StatRow},
    store::ProcessId,
};

use crate::{
    Dialect, Query, SqlStore,
    stats::VALUES,
    verbs::stats::{stat_row, written},
};

/// What is younger is looked at by process: who is alive, with how many workers.
const BY_PROCESS: i64 = 60;

/// Nobody looks further back than this for what is not added up: older rows go when they expire.
const AS_FAR_AS: i64 = 24 * 60;

/// So many minutes are added up at a time.
const AT_A_TIME: usize = 10;

/// Adds up some minutes, the oldest first; true if there may be more. A row that comes late is added to what is there.
pub(crate) async fn add_up<S: SqlStore>(store: &S) -> Result<bool> {
    let (stat, minute) = (&store.tables().stat, S::Dialect::MINUTE);
    let look = format!(
        "select distinct minute from {stat} where minute < {minute} - {BY_PROCESS} and minute >= {minute} - {AS_FAR_AS} \
         and process <> ?1 order by minute limit {AT_A_TIME}"
    );
    let minutes = store.look(Query::new(look).bind(ProcessId::NOBODY)).await?;
    for row in &minutes {
        add_up_minute(store, row.get(0)?).await?;
    }
    Ok(minutes.len() == AT_A_TIME)
}

/// Two may do so at once: who comes second waits for the rows, and finds them gone. What a process wrote in between, an hour late, was not
/// read: then nothing is added up yet.
async fn add_up_minute<S: SqlStore>(store: &S, minute: i64) -> Result<()> {
    let stat = &store.tables().stat;
    let read = format!(
        "select {}, minute, queue, level, {}, 0 from {stat} where minute = ?1 order by queue, level, process {}",
        S::Dialect::id("process"),
        VALUES.join(", "),
        S::Dialect::LOCK
    );
    let mut own = store.begin_own().await?;
    let rows = store.fetch(&mut own, Query::new(read).bind(minute)).await?;
    let (mut sums, mut read) = (BTreeMap::<(String, String), Stat>::new(), 0);
    for row in &rows {
        let (key, StatRow { process, stat, .. }) = ((row.get(2)?, row.get(3)?), stat_row(row)?);
        read += u64::from(process != ProcessId::NOBODY);
        match sums.get_mut(&key) {
            Some(sum) => {
                sum.tally.merge(&stat.tally);
                sum.slots = sum.slots.saturating_add(stat.slots);
            }
            None => drop(sums.insert(key, stat)),
        }
    }
    if !sums.is_empty() {
        let sums: Vec<Stat> = sums.into_values().collect();
        store.execute(&mut own, written(store, ProcessId::NOBODY, minute, &sums)).await?;
        let forget = Query::new(format!("delete from {stat} where minute = ?1 and process <> ?2"));
        if store.execute(&mut own, forget.bind(minute).bind(ProcessId::NOBODY)).await? != read {
            return S::rollback_own(own).await;
        }
    }
    S::commit_own(own).await
}
