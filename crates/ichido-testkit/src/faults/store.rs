//! The store whose verbs [`Faults`] decide about: every verb is the inner store's.

use std::{collections::BTreeSet, error::Error as StdError, sync::Arc, time::Duration};

use ichido::{
    Delivery, Key, Message, MessageId, NewMessage, Store,
    action::Terms,
    broker::{Circulating, Found, Guard, Publication, Unsent},
    error::Result,
    process::{Retention, WakeUps},
    stat::{Backlog, Stat},
    store::{
        Audit, Audited, By, Cancellable, Cancelled, Cancelling, ConnectionCounts, Database, Failure, FileSetId, Files,
        Mutexes, Outbox, Polled, ProcessId, Processes, Queues, Registration, Rescued, Running, SessionId, SessionState,
        Stats, Transactions, Wakeups,
    },
};

use super::{Faults, Verb};

/// A real store that fails when the test says so.
#[derive(Clone)]
pub struct FaultyStore<S> {
    inner: S,
    faults: Arc<Faults>,
}

impl<S: Store> FaultyStore<S> {
    /// This store, with these faults.
    pub fn new(inner: S, faults: Arc<Faults>) -> Self {
        FaultyStore { inner, faults }
    }
}

impl<S: Store> Database for FaultyStore<S> {
    type Tx = S::Tx;
    type Connection = S::Connection;

    fn connection(tx: &mut S::Tx) -> &mut S::Connection {
        S::connection(tx)
    }

    fn is_fault(cause: &(dyn StdError + 'static)) -> bool {
        S::is_fault(cause)
    }

    fn is_own_fault(cause: &(dyn StdError + 'static)) -> bool {
        S::is_own_fault(cause)
    }

    fn timeout(&self) -> Option<Duration> {
        self.faults.timeout().or_else(|| self.inner.timeout())
    }

    fn silences(&self) -> u64 {
        self.inner.silences()
    }

    fn hurry(&self, timeout: Duration) {
        self.inner.hurry(timeout);
    }

    fn connections(&self) -> ConnectionCounts {
        self.inner.connections()
    }

    async fn prepare(&self) -> Result<()> {
        self.inner.prepare().await
    }

    fn apart(&self) -> Self {
        FaultyStore { inner: self.inner.apart(), faults: self.faults.clone() }
    }

    async fn ping(&self) -> Result<()> {
        self.faults.apply(Verb::Ping, None, self.inner.ping()).await
    }
}

impl<S: Store> Transactions for FaultyStore<S> {
    fn admits(&self, terms: &Terms) -> Result<()> {
        self.inner.admits(terms)
    }

    async fn begin_on(&self, terms: Terms) -> Result<S::Tx> {
        self.faults.apply(Verb::Begin, None, self.inner.begin_on(terms)).await
    }

    async fn complete(&self, tx: &mut S::Tx, done: &[Delivery]) -> Result<()> {
        self.inner.complete(tx, done).await
    }

    async fn fail(&self, tx: &mut S::Tx, delivery: &Delivery, failure: &Failure) -> Result<()> {
        self.inner.fail(tx, delivery, failure).await
    }

    async fn commit(&self, tx: S::Tx) -> Result<()> {
        self.faults.apply(Verb::Commit, None, self.inner.commit(tx)).await
    }

    async fn rollback(&self, tx: S::Tx) -> Result<()> {
        self.faults.apply(Verb::Rollback, None, self.inner.rollback(tx)).await
    }

    fn session(tx: &S::Tx) -> Option<Arc<SessionId>> {
        S::session(tx)
    }

    async fn session_state(&self, session: &SessionId) -> Result<SessionState> {
        self.inner.session_state(session).await
    }

    async fn abandon(&self, tx: S::Tx) {
        self.inner.abandon(tx).await;
    }

    async fn is_claimed(&self, delivery: &Delivery) -> Result<bool> {
        self.faults.apply(Verb::Probe, None, self.inner.is_claimed(delivery)).await
    }
}

impl<S: Store> Queues for FaultyStore<S> {
    async fn send(
        &self,
        connection: &mut S::Connection,
        queue: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>> {
        self.inner.send(connection, queue, messages).await
    }

    async fn claim(&self, process: ProcessId, queue: &str, count: usize) -> Result<Vec<Delivery>> {
        self.faults.apply(Verb::Claim, Some(Vec::new()), self.inner.claim(process, queue, count)).await
    }

    async fn claimed(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        self.inner.claimed(process, queue).await
    }

    async fn release(&self, deliveries: &[Delivery]) -> Result<()> {
        self.faults.apply(Verb::Release, None, self.inner.release(deliveries)).await
    }

    async fn park(&self, delivery: &Delivery, failure: &Failure) -> Result<bool> {
        self.faults.apply(Verb::Park, None, self.inner.park(delivery, failure)).await
    }

    async fn return_due(&self, by: &Registration) -> Result<u64> {
        self.faults.apply(Verb::Return, None, self.inner.return_due(by)).await
    }

    async fn tidy(&self, queue: &str, after: &str) -> Result<Option<String>> {
        self.faults.apply(Verb::Tidy, None, self.inner.tidy(queue, after)).await
    }

    async fn undrained(&self, queues: &[Arc<str>]) -> Result<Option<Arc<str>>> {
        self.faults.apply(Verb::Drained, Some(None), self.inner.undrained(queues)).await
    }

    async fn claimable(&self, queues: &[Arc<str>]) -> Result<Vec<bool>> {
        self.faults.apply(Verb::Look, None, self.inner.claimable(queues)).await
    }

    async fn next_due(&self, queues: &[Arc<str>]) -> Result<Vec<Option<Duration>>> {
        self.faults.apply(Verb::Return, None, self.inner.next_due(queues)).await
    }

    async fn backlog(&self, queue: &str, most: u64) -> Result<Option<u64>> {
        self.inner.backlog(queue, most).await
    }
}

impl<S: Store> Processes for FaultyStore<S> {
    async fn register(&self, process: &Registration) -> Result<()> {
        self.faults.apply(Verb::Register, None, self.inner.register(process)).await
    }

    async fn heartbeat(&self, process: ProcessId, running: &[Running]) -> Result<bool> {
        self.faults.apply(Verb::Heartbeat, Some(false), self.inner.heartbeat(process, running)).await
    }

    async fn mark_running(&self, process: ProcessId, suspect: Option<&MessageId>) -> Result<()> {
        self.faults.apply(Verb::Mark, None, self.inner.mark_running(process, suspect)).await
    }

    async fn deregister(&self, process: ProcessId) -> Result<()> {
        self.faults.apply(Verb::Deregister, None, self.inner.deregister(process)).await
    }

    async fn quit(&self, process: ProcessId, request_id: &str) -> Result<()> {
        self.inner.quit(process, request_id).await
    }

    /// There may always be somebody to rescue: `Faults` counts who looks.
    async fn poll(&self, by: &Registration) -> Result<Polled> {
        let polled = self.faults.apply(Verb::Poll, None, self.inner.poll(by)).await?;
        Ok(Polled { dead: true, ..polled })
    }

    async fn rescue(&self, by: &Registration) -> Result<Rescued> {
        self.faults.apply(Verb::Rescue, None, self.inner.rescue(by)).await
    }

    async fn prune_dead(&self, by: &Registration) -> Result<u64> {
        self.inner.prune_dead(by).await
    }

    async fn take_chore_lease(&self, process: ProcessId, queue: &str, lasts: Duration) -> Result<Option<String>> {
        self.faults.apply(Verb::TakeChores, None, self.inner.take_chore_lease(process, queue, lasts)).await
    }

    async fn keep_chore_lease(&self, process: ProcessId, queue: &str, lasts: Duration, tidied: &str) -> Result<bool> {
        self.inner.keep_chore_lease(process, queue, lasts, tidied).await
    }

    async fn release_chore_lease(&self, process: ProcessId, queue: &str) -> Result<()> {
        self.inner.release_chore_lease(process, queue).await
    }
}

impl<S: Store> Mutexes for FaultyStore<S> {
    async fn guard(&self, queue: &str) -> Result<Guard> {
        self.inner.guard(queue).await
    }

    async fn lock(&self, tx: &mut S::Tx, delivery: &Delivery) -> Result<Found> {
        self.inner.lock(tx, delivery).await
    }

    async fn claim_these(&self, process: ProcessId, queue: &str, messages: &[Message]) -> Result<Vec<Found>> {
        self.inner.claim_these(process, queue, messages).await
    }
}

impl<S: Store> Outbox for FaultyStore<S> {
    fn broker_queues(&self) -> Vec<Arc<str>> {
        self.inner.broker_queues()
    }

    async fn publish(
        &self,
        connection: &mut S::Connection,
        queue: &str,
        messages: &[Publication],
    ) -> Result<Vec<String>> {
        self.inner.publish(connection, queue, messages).await
    }

    async fn unsent(&self, queue: &str, most: usize) -> Result<Vec<Unsent>> {
        self.faults.apply(Verb::Unsent, None, self.inner.unsent(queue, most)).await
    }

    async fn any_unsent(&self, queues: &BTreeSet<Arc<str>>) -> Result<bool> {
        self.inner.any_unsent(queues).await
    }

    async fn take_relay_lease(&self, relay: ProcessId, queue: &str) -> Result<bool> {
        self.inner.take_relay_lease(relay, queue).await
    }

    async fn release_relay_lease(&self, relay: ProcessId, queue: &str) -> Result<()> {
        self.inner.release_relay_lease(relay, queue).await
    }

    async fn note_published(&self, queue: &str, published: &[&Unsent]) -> Result<()> {
        self.inner.note_published(queue, published).await
    }

    async fn note_unpublished(&self, queue: &str, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
        self.inner.note_unpublished(queue, unsent, error, wait).await
    }

    async fn keep(&self, message: &Message) -> Result<bool> {
        self.inner.keep(message).await
    }

    async fn any_circulating(&self, queue: &str) -> Result<bool> {
        self.inner.any_circulating(queue).await
    }

    async fn circulating(&self, queue: &str, age: Duration, most: usize) -> Result<Circulating> {
        self.inner.circulating(queue, age, most).await
    }

    async fn publish_again(&self, queue: &str, keys: &[Key], most: usize) -> Result<u64> {
        self.inner.publish_again(queue, keys, most).await
    }
}

impl<S: Store> Audit for FaultyStore<S> {
    fn by(&self, by: By) -> Self {
        FaultyStore { inner: self.inner.by(by), faults: self.faults.clone() }
    }

    fn acts_for(&self) -> &By {
        self.inner.acts_for()
    }

    async fn note(&self, verb: &str, id: &MessageId, detail: &str) -> Result<()> {
        self.inner.note(verb, id, detail).await
    }

    async fn note_in(&self, tx: &mut Self::Tx, verb: &str, id: &MessageId, detail: &str) -> Result<()> {
        self.inner.note_in(tx, verb, id, detail).await
    }

    async fn audit(&self, queue: Option<&str>, after: Option<i64>, limit: u32) -> Result<Vec<Audited>> {
        self.inner.audit(queue, after, limit).await
    }
}

impl<S: Store> Cancelling for FaultyStore<S> {
    async fn cancel(&self, id: &MessageId) -> Result<Cancelled> {
        self.inner.cancel(id).await
    }

    async fn would_cancel(&self, id: &MessageId) -> Result<Cancelled> {
        self.inner.would_cancel(id).await
    }

    async fn cancel_some(&self, queue: &str, which: Cancellable, most: usize) -> Result<Vec<MessageId>> {
        self.inner.cancel_some(queue, which, most).await
    }

    async fn cancellable(&self, queue: &str, which: Cancellable, most: usize) -> Result<Vec<MessageId>> {
        self.inner.cancellable(queue, which, most).await
    }

    async fn finish_cancel(&self, delivery: &Delivery) -> Result<bool> {
        self.inner.finish_cancel(delivery).await
    }
}

impl<S: Store> Files for FaultyStore<S> {
    async fn note_files(&self, tx: &mut S::Tx, set: FileSetId) -> Result<()> {
        self.inner.note_files(tx, set).await
    }

    async fn decide_files(&self, set: FileSetId) -> Result<bool> {
        self.faults.apply(Verb::Decide, None, self.inner.decide_files(set)).await
    }

    async fn delete_file_sets(&self, stage: ProcessId, number: Option<i64>) -> Result<()> {
        self.faults.apply(Verb::DeleteFileSets, None, self.inner.delete_file_sets(stage, number)).await
    }
}

impl<S: Store> Stats for FaultyStore<S> {
    async fn note_longest(&self, queue: &str, time: Duration) -> Result<()> {
        self.inner.note_longest(queue, time).await
    }

    async fn note_stats(&self, process: ProcessId, minute: i64, stats: &[Stat]) -> Result<()> {
        self.faults.apply(Verb::Stats, None, self.inner.note_stats(process, minute, stats)).await
    }

    async fn count(&self, queue: &str) -> Result<Option<Backlog>> {
        self.inner.count(queue).await
    }

    async fn prune(&self, retention: Retention) -> Result<bool> {
        self.inner.prune(retention).await
    }
}

impl<S: Store> Wakeups for FaultyStore<S> {
    // What the inner store says is not asked: `rescue_after` is the lease, as it is without a lock that tells who is alive.

    fn wake_ups(&self) -> &WakeUps {
        self.inner.wake_ups()
    }
}
