//! The examination of one queue at a broker: first its dead letters, a page at a time, then its mutex rows. Each message is judged
//! by the table in `ichido`'s core, and looked at again, under its row's lock, at the moment something is done about it.
//!
//! A dead letter is deleted only if it is ours (ichido sent it from this database for this queue, or it has failed here) and its row is
//! gone or made due again; or if it is another program's, and what it says is kept here in a row that is made due again, or has passed
//! the inbox. So nothing is lost, whatever happens meanwhile.
//!
//! What was made due is published a page at a time, and told then: what the broker has not taken is left.

mod rows;

use std::collections::BTreeSet;

use ichido::{
    Key, Message, MessageId,
    broker::{InQueue, MutexFilter, MutexRow, RowState, Sighting, Verdict},
    by_hand::{Done, Finding, Publishing, QueueFindings},
    message::GuardBy,
};
use ichido_rabbitmq::{self as rabbitmq, Delivery, REASON, Settled};

use super::{
    dead_letters::{DeadLetters, Named},
    report::Report,
    sight::{self, Depths, look},
};
use crate::{brokers::Kept, failure::Failure, open::Backend, output};

/// A finding that is told when what was made due is published, or not.
struct Pending {
    finding: Finding,
    /// What was made due, and whether it counts as unpublished already.
    due: Option<(MessageId, bool)>,
}

pub(super) struct Exam<'a, S: Backend> {
    dead_letters: DeadLetters<'a, S>,
    /// None if nothing is to be done.
    fix: Option<Publishing<S>>,
    report: &'a mut Report,
    /// None if the queues are not there.
    depths: Option<Depths>,
    /// Those of ours that have a dead letter.
    dead: BTreeSet<Key>,
    /// Those that were made due: what else there is of them is a copy.
    again: BTreeSet<Key>,
    /// Those of them that the broker has not taken.
    unpublished: BTreeSet<Key>,
    /// Why it takes nothing at all.
    trouble: Option<String>,
    pending: Vec<Pending>,
    counts: QueueFindings,
}

impl<'a, S: Backend> Exam<'a, S> {
    pub(super) async fn of(
        store: &'a S,
        kept: &'a Kept,
        fix: Option<Publishing<S>>,
        report: &'a mut Report,
    ) -> Result<Self, Failure> {
        let dead_letters = DeadLetters::of(store, kept).await?;
        let depths = look(kept).await?;
        let counts = QueueFindings { queue: kept.name().to_owned(), ..QueueFindings::default() };
        Ok(Exam {
            dead_letters,
            fix,
            report,
            depths,
            dead: BTreeSet::new(),
            again: BTreeSet::new(),
            unpublished: BTreeSet::new(),
            trouble: None,
            pending: Vec::new(),
            counts,
        })
    }

    /// Looks at everything, and does what is to be done.
    pub(super) async fn run(mut self) -> Result<(), Failure> {
        if self.depths.is_some() {
            self.dead_letters().await?;
        }
        self.rows().await?;
        self.without_rows().await?;
        // After the fix, the counts are about what is there then.
        let now = if self.fix.is_some() { look(self.dead_letters.kept).await? } else { None };
        self.missing(now.is_some())?;
        if let Some(depths) = now.or(self.depths.take()) {
            let ichido::broker::Depths { ready, unacknowledged, busy, dead, .. } = depths.counted;
            self.counts = QueueFindings { ready, unacknowledged, busy, dead, ..self.counts };
        }
        self.report.counts(&self.counts)
    }

    /// What is declared when something is sent or run is missing only if something was.
    fn missing(&mut self, there_now: bool) -> Result<(), Failure> {
        let kept = self.dead_letters.kept;
        let comes = kept.rabbitmq().topology().declare && self.counts.rows == 0;
        if self.depths.is_some() || comes {
            return Ok(());
        }
        let meaning = "the queue, or a queue that belongs to it, does not exist at the broker".to_owned();
        let done = there_now.then(|| Done::did("declared"));
        self.report.finding(&Finding { done, ..Finding::of(kept.name(), kept.name().to_owned(), meaning) })
    }

    async fn dead_letters(&mut self) -> Result<(), Failure> {
        let mut reading = self.dead_letters.open().await?;
        loop {
            let page = self.dead_letters.page(&mut reading).await?;
            if page.is_empty() {
                break;
            }
            for (dead_letter, named) in page {
                self.one(&mut reading, &dead_letter, named).await?;
            }
            self.publish().await?;
        }
        reading.close().await.map_err(|error| self.dead_letters.kept.failure(&error))
    }

    async fn one(
        &mut self,
        reading: &mut rabbitmq::DeadLetters,
        dead_letter: &Delivery,
        named: Named,
    ) -> Result<(), Failure> {
        let inbox = self.dead_letters.guard.rules.by == GuardBy::Inbox;
        let why = match (&named.key, &named.row) {
            (None, _) => named.foreign.as_deref().unwrap_or("no message id"),
            _ if named.another => "its body is not the one that was sent with its id",
            _ if named.is_copy() => return self.dead_letter(reading, dead_letter, named).await,
            // What its row keeps says something else.
            (_, Some(row)) if inbox && row.kept => "another message has its id",
            (_, Some(_)) => return self.dead_letter(reading, dead_letter, named).await,
            (_, None) => named.foreign.as_deref().unwrap_or("not known"),
        };
        self.foreign(dead_letter, why)
    }

    fn foreign(&mut self, dead_letter: &Delivery, why: &str) -> Result<(), Failure> {
        let reason = dead_letter.header(REASON).unwrap_or_else(|| "no reason given".to_owned());
        let meaning =
            format!("not ours: {}; dead-lettered: {}", output::shortened(why, 100), output::shortened(&reason, 200));
        let name = dead_letter.message_id().unwrap_or("a dead letter").to_owned();
        self.tell(Finding { dead: true, ..Finding::of(self.dead_letters.kept.name(), name, meaning) }, None)
    }

    async fn dead_letter(
        &mut self,
        reading: &mut rabbitmq::DeadLetters,
        dead_letter: &Delivery,
        named: Named,
    ) -> Result<(), Failure> {
        let Some(key) = named.key.clone() else { return Ok(()) };
        self.dead.insert(key.clone());
        if self.again.contains(&key) {
            let meaning = "another copy of a message that is published again".to_owned();
            let done =
                if named.is_copy() { self.delete(reading, dead_letter, &key).await? } else { Done::left_alone() };
            let finding = self.finding(&key, meaning);
            return self.tell(Finding { dead: true, verdict: Verdict::Delete, done: Some(done), ..finding }, None);
        }
        let row = self.probed(named.row.clone(), true).await?;
        let (mut finding, sighting) = self.judge(&key, row.as_ref(), true);
        if self.fix.is_none() {
            return self.tell(finding, None);
        }
        if let Some(row) = row {
            finding.done = self.mend(reading, dead_letter, &row, &named, sighting.judge().verdict).await?;
            let due = self.again.contains(&key).then_some((self.id(&key), true));
            return self.tell(finding, due);
        }
        let over = self.dead_letters.is_over(&key, &named).await?;
        let done = if over { self.delete(reading, dead_letter, &key).await? } else { Done::left_alone() };
        self.tell(Finding { done: Some(done), ..finding }, None)
    }

    /// Deletes a dead letter, and notes that it did.
    async fn delete(
        &self,
        reading: &mut rabbitmq::DeadLetters,
        dead_letter: &Delivery,
        key: &Key,
    ) -> Result<Done, Failure> {
        if reading.delete(dead_letter).await != Settled::Told {
            return Ok(Done::left_alone());
        }
        let noted = self.dead_letters.store.note("delete", &self.id(key), "its dead letter").await;
        noted.map_err(|error| Failure::of::<S>(&error))?;
        Ok(Done::did("deleted"))
    }

    /// What is done about a dead letter that has a row.
    async fn mend(
        &mut self,
        reading: &mut rabbitmq::DeadLetters,
        dead_letter: &Delivery,
        row: &MutexRow,
        named: &Named,
        verdict: Verdict,
    ) -> Result<Option<Done>, Failure> {
        if !matches!(verdict, Verdict::Retry | Verdict::Publish) {
            return Ok(None);
        }
        let DeadLetters { store, kept, .. } = &self.dead_letters;
        if !row.kept {
            // The dead letter is the message: what it says is in the database before anything is done.
            let message =
                Message::new(kept.name(), row.key.clone(), dead_letter.payload()).with_headers(dead_letter.headers());
            if !store.keep(&message).await.map_err(|error| Failure::of::<S>(&error))? {
                return Ok(Some(Done::left_alone()));
            }
        }
        let is_copy = named.is_copy() || !row.kept;
        Ok(Some(match self.act(row).await? {
            true if is_copy && reading.delete(dead_letter).await == Settled::Told => {
                Done::did("published again, and its dead letter deleted")
            }
            true => Done::did("published again"),
            false => Done::left_alone(),
        }))
    }

    /// Makes a message due, if it is still as it was seen: its row's lock tells.
    async fn act(&mut self, row: &MutexRow) -> Result<bool, Failure> {
        let failure = |error| Failure::of::<S>(&error);
        let DeadLetters { store, kept, .. } = &self.dead_letters;
        let done = if row.state == RowState::Failed {
            store.retry(&self.id(&row.key)).await.map_err(failure)?
        } else {
            let keys = std::slice::from_ref(&row.key);
            let published = store.publish_again(kept.name(), keys, 1).await.map_err(failure)? == 1;
            if published {
                store.note("publish", &self.id(&row.key), "").await.map_err(failure)?;
            }
            published
        };
        if done {
            self.again.insert(row.key.clone());
        }
        Ok(done)
    }

    /// Tells a finding, now or when it is known what became of it.
    fn tell(&mut self, finding: Finding, due: Option<(MessageId, bool)>) -> Result<(), Failure> {
        if self.fix.is_none() {
            return self.report.finding(&finding);
        }
        self.pending.push(Pending { finding, due });
        Ok(())
    }

    /// Publishes what was made due here and now, and tells what has come of it.
    async fn publish(&mut self) -> Result<(), Failure> {
        let ids: Vec<MessageId> =
            self.pending.iter().filter_map(|pending| Some(pending.due.as_ref()?.0.clone())).collect();
        let (mut left, mut why) = (ids.iter().cloned().collect(), self.trouble.clone());
        if let (Some(publishing), None, false) = (&self.fix, &why, ids.is_empty()) {
            let unpublished = publishing.publish(&ids).await;
            (left, why) = unpublished.map_or((BTreeSet::new(), None), |left| (left.ids, Some(left.why)));
            self.trouble = why.clone().filter(|_| left.len() == ids.len());
        }
        for Pending { mut finding, due } in std::mem::take(&mut self.pending) {
            if let Some((id, counted)) = due {
                let unpublished = left.contains(&id);
                if unpublished {
                    let why = output::shortened(why.as_deref().unwrap_or_default(), 200);
                    finding.done = Some(Done::left(format!("not published: {why}")));
                    self.unpublished.insert(id.key);
                }
                if !counted {
                    self.counts.unpublished += u64::from(unpublished);
                    self.counts.healthy += u64::from(!unpublished);
                }
            }
            self.report.finding(&finding)?;
        }
        Ok(())
    }

    /// The row as it is under its lock, if that makes a difference: the message has a dead letter, or something would be done.
    async fn probed(&self, row: Option<MutexRow>, dead: bool) -> Result<Option<MutexRow>, Failure> {
        let Some(row) = row else { return Ok(None) };
        let free = matches!(row.state, RowState::Unsent(_) | RowState::Published(_));
        let verdict = self.sighting(Some(&row), dead).judge().verdict;
        if !free || !(dead || matches!(verdict, Verdict::Retry | Verdict::Publish)) {
            return Ok(Some(row));
        }
        Ok(self.dead_letters.look(MutexFilter::Probed(std::slice::from_ref(&row.key))).await?.into_iter().next())
    }

    fn sighting(&self, row: Option<&MutexRow>, dead: bool) -> Sighting {
        sight::sighting(self.depths.as_ref(), self.dead_letters.guard.rules.relay_after, row, dead)
    }

    fn judge(&self, key: &Key, row: Option<&MutexRow>, dead: bool) -> (Finding, Sighting) {
        let sighting = self.sighting(row, dead);
        let judged = sighting.judge();
        let (mutex, in_queue) = match (sighting.row, sighting.queue) {
            (Some(RowState::Held), _) => ("held", "yes"),
            (row, queue) => (sight::name(row), if queue == InQueue::No { "no" } else { "not empty" }),
        };
        let finding = self.finding(key, judged.meaning.to_owned());
        (Finding { mutex, dead, in_queue, verdict: judged.verdict, ..finding }, sighting)
    }

    fn finding(&self, key: &Key, meaning: String) -> Finding {
        Finding::of(self.dead_letters.kept.name(), output::shortened(&self.id(key).to_string(), 200), meaning)
    }

    fn id(&self, key: &Key) -> MessageId {
        MessageId { queue: self.dead_letters.kept.name().into(), key: key.clone() }
    }
}
