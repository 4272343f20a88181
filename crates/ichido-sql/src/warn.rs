//! What every store warns about, in the same words.

use std::time::Duration;

use crate::SqlQueue;

/// A snapshot that has been open for longer than this is worth a word, in seconds.
const OLD_SNAPSHOT: i64 = 300;

/// What a table's claims need an index for and have none.
#[must_use]
pub fn missing_indexes(queue: &SqlQueue, claims: bool, owners: bool, groups: bool) -> Vec<String> {
    let claims = (!claims && !queue.all_grouped()).then(|| no_claim_index(&queue.queue));
    let owners = (!owners).then(|| no_owner_index(&queue.queue));
    let groups = (!groups && queue.grouped.is_some()).then(|| no_group_index(&queue.queue));
    claims.into_iter().chain(owners).chain(groups).collect()
}

/// Without an index on claimed rows by owner, whoever looks for the rows of a process reads all rows.
fn no_owner_index(queue: &str) -> String {
    format!(
        "queue `{queue}` has no index by owner on its unprocessed rows; each process scans all rows once per lease and \
         when it ends; `ichido adopt` proposes one"
    )
}

/// Without an index on claimable rows, a claim reads all rows.
fn no_claim_index(queue: &str) -> String {
    format!("queue `{queue}` has no index on its claimable rows in claim order; every claim scans all processed rows")
}

/// Without an index on unprocessed rows by group, a claim reads all rows.
fn no_group_index(queue: &str) -> String {
    format!(
        "queue `{queue}` has no index on its unprocessed rows that starts with the group and continues in claim \
         order; every claim scans them all"
    )
}

/// A transaction that has been open for so many seconds, if that is long.
#[must_use]
pub fn old_snapshot(session: &str, seconds: i64) -> Option<String> {
    let old = format!(
        "session {session} has had a transaction open for {seconds} s; until it ends, every claim scans all processed rows"
    );
    (seconds >= OLD_SNAPSHOT).then_some(old)
}

/// Queues with messages that took longer than the lease, in microseconds.
#[must_use]
pub fn long_messages(longest: Vec<(String, i64)>, lease: Duration) -> Vec<String> {
    let time = |microseconds: i64| Duration::from_micros(microseconds.unsigned_abs());
    let long = longest.into_iter().filter(|(_, longest)| time(*longest) > lease);
    let text = |(queue, longest): (String, i64)| {
        let longest = time(longest);
        format!(
            "a message of queue `{queue}` took {longest:.1?}, longer than the lease of {lease:?}; a process that \
             hangs in it is detected late"
        )
    };
    long.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_long_or_old_is_worth_a_word() {
        let longest = || vec![("short".to_owned(), 900_000), ("long".to_owned(), 2_500_000)];
        let warned = long_messages(longest(), Duration::from_secs(1));
        assert!(warned.len() == 1 && warned[0].contains("`long` took 2.5s"), "{warned:?}");
        assert!(long_messages(longest(), Duration::from_secs(3)).is_empty());
        assert_eq!(old_snapshot("7", 299), None);
        assert!(old_snapshot("7", 300).is_some_and(|text| text.contains("session 7")));
    }
}
