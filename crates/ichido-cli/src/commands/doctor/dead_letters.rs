//! Dead letters of one queue, by the messages that they are copies of: `exam` judges them a page at a time, and `ichido failed discard` deletes
//! those of what it has discarded.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use ichido::{
    Key, MessageId,
    broker::{ANOTHER_BODY, DeadLetter, Guard, MutexFilter, MutexRow, Original, RowName, is_about},
    message::GuardBy,
};

use crate::{
    brokers::{Brokers, DUPLICATE, Kept, Opened, Reading},
    config::Config,
    failure::Failure,
    open::Backend,
    output,
};

/// So many dead letters are looked at together.
const PAGE: usize = 100;

/// How long another reader of the dead letters is waited for.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks whether it has ended.
const AGAIN: Duration = Duration::from_millis(200);

/// A dead letter, by name.
pub(super) struct Named {
    /// As the reader would name it.
    pub(super) key: Option<Key>,
    /// It has failed here, and so has had a row.
    pub(super) failed: bool,
    /// Why it is not ours.
    pub(super) foreign: Option<String>,
    /// Its id is a message's of ours, and its body is not.
    pub(super) another: bool,
    /// Its message's row.
    pub(super) row: Option<MutexRow>,
    /// What it is a copy of, where an inbox knows.
    pub(super) original: Option<Original>,
}

impl Named {
    /// Is what it says in the database, or done? Then it may be deleted when its row says so.
    pub(super) fn is_copy(&self) -> bool {
        !self.another && (self.foreign.is_none() || self.original.is_some())
    }
}

/// The dead letters of a queue.
pub(super) struct DeadLetters<'a, S> {
    pub(super) store: &'a S,
    pub(super) kept: &'a Kept,
    pub(super) guard: Guard,
}

impl<'a, S: Backend> DeadLetters<'a, S> {
    pub(super) async fn of(store: &'a S, kept: &'a Kept) -> Result<Self, Failure> {
        let guard = store.guard(kept.name()).await.map_err(|error| Failure::of::<S>(&error))?;
        Ok(DeadLetters { store, kept, guard })
    }

    /// Begins to read them; whoever else reads them now is waited for.
    pub(super) async fn open(&self) -> Result<Box<dyn Reading>, Failure> {
        let began = Instant::now();
        let mut told = false;
        loop {
            let why = match self.kept.place().dead_letters().await? {
                Opened::Reading(reading) => return Ok(reading),
                Opened::Busy(why) => why,
            };
            if began.elapsed() >= TIMEOUT {
                let text = format!("{}: {why}; run it again when that has ended", self.kept.key());
                return Err(Failure { code: DUPLICATE, text });
            }
            if !std::mem::replace(&mut told, true) {
                output::complain(&format!("ichido: {why}; waiting for it to end"));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The next of them, with what is known of each; none at the end.
    pub(super) async fn page(&self, reading: &mut dyn Reading) -> Result<Vec<(DeadLetter, Named)>, Failure> {
        let page = reading.page(PAGE).await?;
        let named = |dead_letter: DeadLetter| {
            let named = self.named(&dead_letter);
            (dead_letter, named)
        };
        let mut page: Vec<(DeadLetter, Named)> = page.into_iter().map(named).collect();
        let keys: Vec<Key> = page.iter().filter_map(|(_, named)| named.key.clone()).collect();
        let rows = self.look(MutexFilter::These(&keys)).await?;
        let rows: BTreeMap<Key, MutexRow> = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
        let originals = self.originals(&page).await?;
        for ((dead_letter, named), original) in page.iter_mut().filter(|(_, named)| named.key.is_some()).zip(originals)
        {
            named.row = named.key.as_ref().and_then(|key| rows.get(key)).cloned();
            named.another = self.is_another(dead_letter, named.row.as_ref());
            named.original = original;
        }
        Ok(page)
    }

    /// Is it only named like a message of ours? What was sent with this id has another body: its row says so, or whoever dead-lettered
    /// it while the row was there.
    fn is_another(&self, dead_letter: &DeadLetter, row: Option<&MutexRow>) -> bool {
        match row {
            Some(row) => !is_about(row.hash.as_deref(), &dead_letter.received.payload),
            None => self.guard.rules.by == GuardBy::Mutex && dead_letter.reason.as_deref() == Some(ANOTHER_BODY),
        }
    }

    /// Which message a dead letter is of, and whether it is ours.
    fn named(&self, dead_letter: &DeadLetter) -> Named {
        let ours = |row: &RowName| row.origin == self.guard.origin && *row.queue == *self.kept.name();
        let named = Named { key: None, failed: false, foreign: None, another: false, row: None, original: None };
        if let Some(row) = dead_letter.row.clone().filter(ours) {
            return Named { key: Some(Key::new([row.id])), failed: true, ..named };
        }
        let received = &dead_letter.received;
        let key = self.guard.key_of(self.kept.name(), received);
        let id = received.id.as_deref().ok().or(received.message_id.as_deref()).unwrap_or("it");
        let foreign = match (&key, received.origin.as_deref()) {
            (Err(why), _) => Some(why.clone()),
            (_, Some(origin)) if *origin != *self.guard.origin => Some(format!("{id} comes from another database")),
            (_, None) => Some(format!("{id} was not sent by ichido")),
            _ if !self.guard.is_own(self.kept.name(), received) => Some(format!("{id} is for another queue")),
            _ => None,
        };
        Named { key: key.ok(), foreign, ..named }
    }

    /// What those are copies of that have a key. Only an inbox remembers what is done, and only there another message may have the same id.
    async fn originals(&self, page: &[(DeadLetter, Named)]) -> Result<Vec<Option<Original>>, Failure> {
        let keyed =
            page.iter().filter_map(|(dead_letter, named)| Some((named.key.clone()?, &*dead_letter.received.payload)));
        let keyed: Vec<(Key, &[u8])> = keyed.collect();
        if self.guard.rules.by != GuardBy::Inbox {
            return Ok(vec![None; keyed.len()]);
        }
        self.store.originals(self.kept.name(), &keyed).await.map_err(|error| Failure::of::<S>(&error))
    }

    pub(super) async fn look(&self, which: MutexFilter<'_>) -> Result<Vec<MutexRow>, Failure> {
        self.store.mutexes(self.kept.name(), which).await.map_err(|error| Failure::of::<S>(&error))
    }

    /// Is a dead letter without a row a copy of what is done? In an inbox, what has no row may still be undone; not what had one because it
    /// had failed, nor what is known to be done. Looks again.
    pub(super) async fn is_over(&self, key: &Key, named: &Named) -> Result<bool, Failure> {
        let done = named.original == Some(Original::Done);
        let had_row =
            named.foreign.is_none() && !named.another && (self.guard.rules.by == GuardBy::Mutex || named.failed);
        Ok((done || had_row) && self.look(MutexFilter::These(std::slice::from_ref(key))).await?.is_empty())
    }
}

/// Deletes the dead letters of messages that were discarded or cancelled; why they are still there. They are of no use to anybody, and stay
/// until somebody calls the doctor.
pub(crate) async fn forget<S: Backend>(store: &S, config: &Config, gone: &[MessageId]) -> Option<String> {
    let forgotten = async {
        for kept in Brokers::of(config)?.iter() {
            let of_queue = gone.iter().filter(|id| *id.queue == *kept.name());
            let keys: BTreeSet<Key> = of_queue.map(|id| id.key.clone()).collect();
            if !keys.is_empty() {
                forget_of(&DeadLetters::of(store, kept).await?, &keys).await?;
            }
        }
        Ok::<(), Failure>(())
    };
    forgotten.await.err().map(|why| {
        let later = "copies among the dead letters stay until `ichido doctor --fix` deletes them";
        format!("{later}: {}", why.text)
    })
}

async fn forget_of<S: Backend>(dead_letters: &DeadLetters<'_, S>, keys: &BTreeSet<Key>) -> Result<(), Failure> {
    if dead_letters.kept.place().depths().await?.is_none_or(|seen| seen.counted.dead == 0) {
        return Ok(());
    }
    let mut reading = dead_letters.open().await?;
    loop {
        let page = dead_letters.page(&mut *reading).await?;
        if page.is_empty() {
            break;
        }
        for (dead_letter, named) in &page {
            if let Some(key) = named.key.as_ref().filter(|key| keys.contains(key))
                && dead_letters.is_over(key, named).await?
            {
                reading.delete(dead_letter.received.tag).await;
            }
        }
    }
    reading.close().await
}
