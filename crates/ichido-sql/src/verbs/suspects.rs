//! Which messages of a dead process may have begun. Exact knowledge would cost a write per message, so these do: what it ran at its last
//! heartbeat, and as many of a queue's first messages as it had slots. What else it had claimed was read ahead. A message that killed
//! the process and is not among them comes first when it is claimed again, and is among them the next time.

use std::collections::BTreeSet;

use ichido::{Key, MessageId, error::Result, store::Running};

use crate::{Bind, Dialect, Owned, Query, SqlQueue, SqlStore};

/// What a dead process said while it lived.
pub(crate) struct LastWords {
    /// The suspect that it ran, under the mark.
    marked: Option<String>,
    /// What it ran at its last heartbeat.
    runs: BTreeSet<String>,
}

impl LastWords {
    pub(crate) fn new(marked: Option<String>, runs: Option<&str>) -> Self {
        let runs = runs.map(Running::read).unwrap_or_default();
        LastWords { marked, runs: runs.into_iter().map(|running| running.id).collect() }
    }

    fn is_marked(&self, id: &MessageId) -> bool {
        self.marked.as_deref() == Some(id.to_string().as_str())
    }

    fn ran(&self, id: &MessageId) -> bool {
        self.runs.contains(&id.to_string())
    }
}

/// Goes through the messages of a queue in claim order, and tells which of them may have begun.
pub(crate) struct Suspicion<'a> {
    words: &'a LastWords,
    /// So many more may have begun; none: nobody knows how many.
    left: Option<u32>,
}

impl<'a> Suspicion<'a> {
    pub(crate) fn new(words: &'a LastWords, slots: Option<u32>) -> Self {
        Suspicion { words, left: slots }
    }

    /// Did the process run this suspect when it died?
    pub(crate) fn is_marked(&self, id: &MessageId) -> bool {
        self.words.is_marked(id)
    }

    /// Those of the next messages that become suspects now. What is a suspect already stays one, and takes nobody's place: it begins
    /// under the mark only.
    pub(crate) async fn of<S: SqlStore>(
        &mut self,
        store: &S,
        tx: &mut S::Connection,
        queue: &SqlQueue,
        owned: &[Owned],
    ) -> Result<BTreeSet<Key>> {
        let known = match self.left {
            Some(_) => known(store, tx, queue, owned).await?,
            None => BTreeSet::new(),
        };
        let begun = owned.iter().filter(|owned| {
            let id = MessageId { queue: queue.queue.clone(), key: owned.key.clone() };
            self.words.is_marked(&id) || (!known.contains(&owned.key.to_string()) && self.may_have_begun(&id))
        });
        Ok(begun.map(|owned| owned.key.clone()).collect())
    }

    fn may_have_begun(&mut self, id: &MessageId) -> bool {
        match &mut self.left {
            None => true,
            Some(0) => self.words.ran(id),
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

/// The keys of those that are suspects already.
async fn known<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    owned: &[Owned],
) -> Result<BTreeSet<String>> {
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let known = format!(
        "select {column} from {parked} where queue = ?1 and suspect and state not in ('dead', 'discarded') and {column} in ?2"
    );
    let keys = owned.iter().map(|owned| owned.key.to_string()).collect();
    let known = store.fetch(tx, Query::new(known).bind(&*queue.queue).bind(Bind::Exacts(keys))).await?;
    known.iter().map(|row| row.get(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(key: &str) -> MessageId {
        MessageId { queue: "orders".into(), key: Key::new([key]) }
    }

    #[test]
    fn the_first_slots_and_what_ran_may_have_begun() {
        let words = LastWords::new(None, Some(r#"[{"id":"orders/1","ms":5},{"id":"orders/7","ms":3}]"#));
        let begun = |slots| {
            let mut suspicion = Suspicion::new(&words, slots);
            let all = ["1", "2", "3", "7", "9"];
            all.into_iter().filter(|key| suspicion.may_have_begun(&id(key))).collect::<Vec<_>>()
        };
        assert_eq!(begun(Some(2)), ["1", "2", "7"]);
        assert_eq!(begun(Some(0)), ["1", "7"]);
        assert_eq!(begun(None), ["1", "2", "3", "7", "9"], "a process of the version before");
    }

    #[test]
    fn a_torn_list_says_nothing() {
        assert!(LastWords::new(None, Some("[{\"id\":")).runs.is_empty());
        assert!(LastWords::new(Some("orders/1".into()), None).is_marked(&id("1")));
    }
}
