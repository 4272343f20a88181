//! The examination of one queue at a broker: first its dead letters, a page at a time, then its mutex rows. Each message is judged
//! by the table in `ichido`'s core, and looked at again, under its row's lock, at the moment something is done about it.
//!
//! A dead letter is deleted only if it is ours (ichido sent it from this database for this queue, or it has failed here) and its row is
//! gone or published again; or if it is another program's, has a row here, and what it says is now kept here and published again.
//! So nothing is lost, whatever happens meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use ichido::{
    Key, Message, MessageId,
    broker::{Guard, InQueue, MutexFilter, MutexRow, RowName, RowState, Sighting, Verdict},
    message::GuardBy,
};
use ichido_rabbitmq::{DeadLetters, Delivery, Error, REASON, Settled};

use super::report::{Counts, Finding, Report};
use crate::{brokers::Kept, failure::Failure, open::Backend, output};

/// So many letters are looked at together.
const LETTERS: usize = 100;

/// So many rows are.
const ROWS: usize = 500;

/// The management API tells what was so a while ago.
const STALE: Duration = Duration::from_secs(10);

/// Where nobody can tell what is out and not acknowledged, a message is taken for lost only after so long.
const UNSEEN: Duration = Duration::from_mins(10);

/// Between two looks at what is ready without a row.
const AGAIN: Duration = Duration::from_secs(1);

/// How full the queue was.
struct Depths {
    at: Instant,
    counted: ichido::broker::Depths,
    consumers: u32,
}

/// A dead letter, by name.
struct Named {
    /// As the reader would name it.
    key: Option<Key>,
    /// It has failed here, and so has had a row.
    failed: bool,
    /// Why it is not ours.
    foreign: Option<String>,
}

pub(super) struct Exam<'a, S> {
    store: &'a S,
    kept: &'a Kept,
    guard: Guard,
    fix: bool,
    report: &'a mut Report,
    /// None if the queues are not there.
    depths: Option<Depths>,
    /// Those of ours that have a dead letter.
    dead: BTreeSet<Key>,
    /// Those that are published again: what else there is of them is a copy.
    again: BTreeSet<Key>,
    counts: Counts,
}

impl<'a, S: Backend> Exam<'a, S> {
    pub(super) async fn of(store: &'a S, kept: &'a Kept, fix: bool, report: &'a mut Report) -> Result<Self, Failure> {
        let guard = store.guard(kept.name()).await.map_err(|error| Failure::of::<S>(&error))?;
        let depths = look(kept).await?;
        let counted = depths.as_ref().map(|depths| depths.counted).unwrap_or_default();
        let counts = Counts {
            queue: kept.name().to_owned(),
            ready: counted.ready,
            unacknowledged: counted.unacknowledged,
            busy: counted.busy,
            dead: counted.dead,
            unpublished: 0,
            rows: 0,
            healthy: 0,
        };
        let (dead, again) = (BTreeSet::new(), BTreeSet::new());
        Ok(Exam { store, kept, guard, fix, report, depths, dead, again, counts })
    }

    /// Looks at everything; true if something is to be published.
    pub(super) async fn run(mut self) -> Result<bool, Failure> {
        if self.depths.is_some() {
            self.letters().await?;
        } else {
            let meaning = "the queue, or a queue that belongs to it, does not exist at the broker".to_owned();
            self.report.finding(&Finding::of(self.kept.name(), self.kept.name().to_owned(), meaning))?;
        }
        self.rows().await?;
        self.without_rows().await?;
        self.report.counts(&self.counts)?;
        Ok(!self.again.is_empty())
    }

    async fn letters(&mut self) -> Result<(), Failure> {
        let failure = |error: Error| self.kept.failure(&error);
        let mut letters = self.kept.rabbitmq().dead_letters().await.map_err(failure)?;
        let mut page = Vec::with_capacity(LETTERS);
        loop {
            let next = letters.next().await.map_err(|error| self.kept.failure(&error))?;
            let last = next.is_none();
            page.extend(next);
            if last || page.len() == LETTERS {
                self.page(&mut letters, &page).await?;
                page.clear();
            }
            if last {
                break;
            }
        }
        letters.close().await.map_err(|error| self.kept.failure(&error))
    }

    async fn page(&mut self, letters: &mut DeadLetters, page: &[Delivery]) -> Result<(), Failure> {
        let named: Vec<Named> = page.iter().map(|letter| self.named(letter)).collect();
        let keys: Vec<Key> = named.iter().filter_map(|named| named.key.clone()).collect();
        let rows = self.look(MutexFilter::These(&keys)).await?;
        let rows: BTreeMap<Key, MutexRow> = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
        for (letter, named) in page.iter().zip(named) {
            let row = named.key.as_ref().and_then(|key| rows.get(key));
            match (&named.key, &named.foreign) {
                (Some(key), why) if why.is_none() || row.is_some() => {
                    self.letter(letters, letter, key, row, &named).await?;
                }
                (_, why) => self.foreign(letter, why.as_deref().unwrap_or("no message id"))?,
            }
        }
        Ok(())
    }

    /// Which message a letter is of, and whether it is ours.
    fn named(&self, letter: &Delivery) -> Named {
        let ours = |row: &RowName| row.origin == self.guard.origin && *row.queue == *self.kept.name();
        if let Some(row) = letter.row().filter(ours) {
            return Named { key: Some(Key::new([row.id])), failed: true, foreign: None };
        }
        let received = letter.received();
        let foreign = match (&received.id, &received.origin) {
            (Err(why), _) => Some(why.clone()),
            (Ok(id), Some(origin)) if **origin != *self.guard.origin => {
                Some(format!("{id} comes from another database"))
            }
            (Ok(id), None) => Some(format!("{id} was not sent by ichido")),
            (Ok(id), _) if !self.guard.is_own(self.kept.name(), &received) => {
                Some(format!("{id} is for another queue"))
            }
            _ => None,
        };
        Named { key: self.guard.key_of(self.kept.name(), &received).ok(), failed: false, foreign }
    }

    fn foreign(&mut self, letter: &Delivery, why: &str) -> Result<(), Failure> {
        let reason = letter.header(REASON).unwrap_or_else(|| "no reason given".to_owned());
        let meaning =
            format!("not ours: {}; dead-lettered: {}", output::shortened(why, 100), output::shortened(&reason, 200));
        let name = letter.message_id().unwrap_or("a dead letter").to_owned();
        self.report.finding(&Finding { dead: true, ..Finding::of(self.kept.name(), name, meaning) })
    }

    async fn letter(
        &mut self,
        letters: &mut DeadLetters,
        letter: &Delivery,
        key: &Key,
        row: Option<&MutexRow>,
        named: &Named,
    ) -> Result<(), Failure> {
        let ours = named.foreign.is_none();
        self.dead.insert(key.clone());
        if self.again.contains(key) {
            let meaning = "another copy of a message that is published again".to_owned();
            let done = Some(if ours { deleted(letters.delete(letter).await) } else { "left alone" });
            let finding = Finding { dead: true, verdict: Verdict::Delete, done, ..self.finding(key, meaning) };
            return self.report.finding(&finding);
        }
        let row = self.probed(row.cloned(), true).await?;
        let (mut finding, sighting) = self.judge(key, row.as_ref(), true);
        if self.fix {
            finding.done = match &row {
                Some(row) => self.mend(letters, letter, row, ours, sighting.judge().verdict).await?,
                None if ours => self.clear(letters, letter, key, named.failed).await?,
                None => Some("left alone"),
            };
        }
        self.report.finding(&finding)
    }

    /// A letter of ours without a row is a copy of what is done.
    async fn clear(
        &mut self,
        letters: &mut DeadLetters,
        letter: &Delivery,
        key: &Key,
        failed: bool,
    ) -> Result<Option<&'static str>, Failure> {
        // In an inbox, what has no row may still be undone; not what had one because it had failed.
        let had_row = self.guard.rules.by == GuardBy::Mutex || failed;
        let gone = had_row && self.look(MutexFilter::These(std::slice::from_ref(key))).await?.is_empty();
        Ok(Some(if gone { deleted(letters.delete(letter).await) } else { "left alone" }))
    }

    /// What is done about a dead letter that has a row.
    async fn mend(
        &mut self,
        letters: &mut DeadLetters,
        letter: &Delivery,
        row: &MutexRow,
        ours: bool,
        verdict: Verdict,
    ) -> Result<Option<&'static str>, Failure> {
        if !matches!(verdict, Verdict::Retry | Verdict::Publish) {
            return Ok(None);
        }
        if !row.kept {
            // The dead letter is the message: what it says is in the database before anything is done.
            let mut message = Message::new(self.kept.name(), row.key.clone(), letter.payload());
            message.headers = letter.headers();
            if !self.store.keep(&message).await.map_err(|error| Failure::of::<S>(&error))? {
                return Ok(Some("left alone"));
            }
        }
        let is_copy = ours || !row.kept;
        Ok(Some(match self.act(row).await? {
            true if is_copy && letters.delete(letter).await == Settled::Told => {
                "published again, and its dead letter deleted"
            }
            true => "published again",
            false => "left alone",
        }))
    }

    /// Makes a message due, if it is still as it was seen: its row's lock tells.
    async fn act(&mut self, row: &MutexRow) -> Result<bool, Failure> {
        let failure = |error| Failure::of::<S>(&error);
        let id = MessageId { queue: self.kept.name().into(), key: row.key.clone() };
        let done = if row.state == RowState::Failed {
            self.store.retry(&id).await.map_err(failure)?
        } else {
            let keys = std::slice::from_ref(&row.key);
            self.store.publish_again(self.kept.name(), keys, 1).await.map_err(failure)? == 1
        };
        if done {
            self.again.insert(row.key.clone());
        }
        Ok(done)
    }

    async fn rows(&mut self) -> Result<(), Failure> {
        let mut after: Option<Key> = None;
        loop {
            let page = self.look(MutexFilter::After(after.as_ref(), ROWS)).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.key.clone());
            for row in page {
                self.row(row).await?;
            }
        }
    }

    async fn row(&mut self, row: MutexRow) -> Result<(), Failure> {
        self.counts.rows += 1;
        self.counts.unpublished += u64::from(matches!(row.state, RowState::Unsent(_)));
        if self.dead.contains(&row.key) {
            return Ok(());
        }
        let key = row.key.clone();
        let row = self.probed(Some(row), false).await?;
        let (mut finding, sighting) = self.judge(&key, row.as_ref(), false);
        let verdict = sighting.judge().verdict;
        let Some(row) = row.filter(|_| !matches!(verdict, Verdict::Wait | Verdict::Nothing)) else {
            self.counts.healthy += 1;
            return Ok(());
        };
        if !row.kept {
            finding.verdict = Verdict::Investigate;
            finding.meaning = format!("{}; another program created its row and must publish it", finding.meaning);
        } else if self.fix {
            finding.done = Some(if self.act(&row).await? { "published again" } else { "left alone" });
        }
        self.report.finding(&finding)
    }

    /// The row as it is under its lock, if that makes a difference: the message has a dead letter, or something would be done.
    async fn probed(&self, row: Option<MutexRow>, dead: bool) -> Result<Option<MutexRow>, Failure> {
        let Some(row) = row else { return Ok(None) };
        let free = matches!(row.state, RowState::Unsent(_) | RowState::Published(_));
        let verdict = self.sighting(Some(&row), dead).judge().verdict;
        if !free || !(dead || matches!(verdict, Verdict::Retry | Verdict::Publish)) {
            return Ok(Some(row));
        }
        Ok(self.look(MutexFilter::Probed(std::slice::from_ref(&row.key))).await?.into_iter().next())
    }

    fn sighting(&self, row: Option<&MutexRow>, dead: bool) -> Sighting {
        let relay_after = self.guard.rules.relay_after.saturating_mul(2);
        let (mut young, mut queue) = (relay_after, InQueue::No);
        if let Some(Depths { at, counted, consumers }) = &self.depths {
            let unseen = matches!(row, Some(MutexRow { state: RowState::Published(age), .. }) if *age >= UNSEEN);
            let none_out = counted.unacknowledged.map_or(*consumers == 0 || unseen, |out| out == 0);
            queue = if counted.ready + counted.busy == 0 && none_out { InQueue::No } else { InQueue::NotEmpty };
            // What was published since the look could not be seen by it.
            young = young.max(if counted.unacknowledged.is_some() { STALE } else { Duration::ZERO }) + at.elapsed();
        }
        Sighting { row: row.map(|row| row.state), dead, queue, young }
    }

    fn judge(&self, key: &Key, row: Option<&MutexRow>, dead: bool) -> (Finding, Sighting) {
        let sighting = self.sighting(row, dead);
        let judged = sighting.judge();
        let (mutex, in_queue) = match (sighting.row, sighting.queue) {
            (Some(RowState::Held), _) => ("held", "yes"),
            (row, queue) => (name(row), if queue == InQueue::No { "no" } else { "not empty" }),
        };
        let finding = self.finding(key, judged.meaning.to_owned());
        (Finding { mutex, dead, in_queue, verdict: judged.verdict, ..finding }, sighting)
    }

    fn finding(&self, key: &Key, meaning: String) -> Finding {
        let id = MessageId { queue: self.kept.name().into(), key: key.clone() };
        Finding::of(self.kept.name(), output::shortened(&id.to_string(), 200), meaning)
    }

    /// What is ready, without any row, and stays so while consumers live.
    async fn without_rows(&mut self) -> Result<(), Failure> {
        let suspicious =
            |depths: &Option<Depths>| depths.as_ref().is_some_and(|d| d.counted.ready > 0 && d.consumers > 0);
        if self.counts.rows > 0 || !suspicious(&self.depths) {
            return Ok(());
        }
        tokio::time::sleep(AGAIN).await;
        let again = look(self.kept).await?;
        if !suspicious(&again) || !self.look(MutexFilter::After(None, 1)).await?.is_empty() {
            return Ok(());
        }
        let old = Sighting { queue: InQueue::Old, ..self.sighting(None, false) }.judge();
        let finding = Finding::of(self.kept.name(), self.kept.name().to_owned(), old.meaning.to_owned());
        self.report.finding(&Finding { in_queue: "yes", verdict: old.verdict, ..finding })
    }

    async fn look(&self, which: MutexFilter<'_>) -> Result<Vec<MutexRow>, Failure> {
        self.store.mutexes(self.kept.name(), which).await.map_err(|error| Failure::of::<S>(&error))
    }
}

/// None if there is no such queue.
async fn look(kept: &Kept) -> Result<Option<Depths>, Failure> {
    let at = Instant::now();
    let found = match kept.rabbitmq().depths().await {
        Ok(found) => found,
        Err(Error::Missing(_)) => return Ok(None),
        Err(error) => return Err(kept.failure(&error)),
    };
    let unacknowledged = match kept.rabbitmq().management() {
        None => None,
        Some(_) => ichido::broker::Broker::depths(kept).await.ok().and_then(|depths| depths.unacknowledged),
    };
    let (ready, busy, dead) = (found.queue.into(), found.busy.into(), found.dead.into());
    let counted = ichido::broker::Depths { ready, unacknowledged, busy, dead };
    Ok(Some(Depths { at, counted, consumers: found.consumers }))
}

fn name(row: Option<RowState>) -> &'static str {
    match row {
        None => "no",
        Some(RowState::Held) => "held",
        Some(RowState::Waiting) => "waiting",
        Some(RowState::Failed) => "failed",
        Some(RowState::Unsent(_)) => "unpublished",
        Some(RowState::Published(_)) => "free",
    }
}

fn deleted(settled: Settled) -> &'static str {
    if settled == Settled::Told { "deleted" } else { "left alone" }
}
