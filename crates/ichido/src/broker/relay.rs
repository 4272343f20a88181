//! Publishes what was sent to brokers' queues, after the transactions that sent it have committed: takes it from the outbox,
//! hands it to the broker, and writes down what has arrived. Every process has a relay for the brokers it knows, and
//! `ichido relay` is one alone. For each queue one relay has the lease at a time, which keeps the order of sends.

use crate::store;
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::{
    Store,
    action::slot::run_to_completion,
    broker::{AT_A_TIME, Broker, Brokers, DynBroker, Outgoing, SENT_AT, Unpublished, Unsent, reconciler::Reconciler},
    error::Result,
    process::{Clock, SystemClock, life::Life, tasks::boxed},
    store::{ProcessId, Registration},
    trace::{self, TRACEPARENT},
};

/// How long a process that ends waits for its relay.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time until a message that the broker does not take is tried again.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Publishes what was sent to the queues of brokers.
pub struct Relay<S: Store> {
    store: S,
    brokers: Brokers,
    clock: Arc<dyn Clock>,
    poll: Duration,
}

impl<S: Store> Relay<S> {
    /// A relay on this store, without brokers yet.
    pub fn new(store: S) -> Self {
        Relay { store, brokers: Brokers::new(), clock: Arc::new(SystemClock), poll: Duration::from_secs(1) }
    }

    /// With the broker of a queue.
    #[must_use]
    pub fn broker(mut self, queue: impl Into<Arc<str>>, broker: impl Broker) -> Self {
        self.brokers.insert(queue.into(), Arc::new(broker));
        self
    }

    /// How often the outbox is polled when no wake-up arrives.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    pub(crate) fn of(store: S, brokers: Brokers, clock: Arc<dyn Clock>, poll: Duration) -> Self {
        Relay { store, brokers, clock, poll }
    }

    /// Publishes until it is told to stop, and then finishes what is being published, if that does not take long.
    pub async fn run(self, stop: CancellationToken) {
        let mut tasks = self.publish_all(&stop);
        tasks.spawn(boxed(self.store.wake_ups().clone().hear(self.store.clone(), stop.child_token())));
        tasks.spawn(boxed(self.return_due(stop.clone())));
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(TIMEOUT).await;
        };
        tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => {}
            () = late => tracing::warn!("the broker or the database does not answer; other relays publish what is left"),
        }
    }

    /// A task per queue.
    fn publish_all(&self, stop: &CancellationToken) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for relay in self.queues() {
            tasks.spawn(boxed(relay.run(stop.clone())).in_current_span());
        }
        tasks
    }

    /// Returns what waits for its time, so that it can be published: where there is no process that does it.
    async fn return_due(self, stop: CancellationToken) {
        let queues = self.brokers.keys().map(|queue| (queue.clone(), u32::MAX)).collect();
        let by = Registration::new("relay", Duration::ZERO, queues);
        while !stop.is_cancelled() {
            match store::return_due(&self.store, &by).await {
                Ok(0) => {}
                Ok(_) => by.queues.keys().for_each(|queue| self.store.wake_ups().wake(queue)),
                Err(error) => tracing::warn!(error = %error.in_full(), "cannot return parked messages"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.clock.sleep(self.poll) => {}
            }
        }
    }

    /// Publishes what can be published now, and returns: for a program that ends soon.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn flush(&self) -> Result<Flushed> {
        let mut flushed = Flushed::default();
        for mut relay in self.queues() {
            let ended = loop {
                match relay.round().await {
                    Ok(Round::Some(published)) => flushed.published += published,
                    other => break other,
                }
            };
            let left = store::release_relay_lease(&relay.store, relay.relay, &relay.queue).await;
            match ended? {
                Round::NotOurs => flushed.elsewhere = true,
                Round::Trouble(why) => flushed.left = Some(why),
                Round::Nothing | Round::Some(_) => flushed.left = relay.put_off.take().or(flushed.left),
            }
            left?;
        }
        Ok(flushed)
    }

    fn queues(&self) -> Vec<QueueRelay<S>> {
        let relay = |(queue, broker): (&Arc<str>, &Arc<dyn DynBroker>)| {
            let wake = Arc::new(Notify::new());
            self.store.wake_ups().join(queue, &wake);
            QueueRelay {
                store: self.store.clone(),
                queue: queue.clone(),
                only: BTreeSet::from([queue.clone()]),
                broker: broker.clone(),
                clock: self.clock.clone(),
                poll: self.poll,
                relay: ProcessId::random(),
                wake,
                ours: false,
                goes_on: false,
                troubled: 0,
                put_off: None,
                reconciler: Reconciler::new(self.clock.now()),
            }
        };
        self.brokers.iter().map(relay).collect()
    }
}

/// The relay of a process, which returns what is due by itself.
pub(crate) struct Relaying {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Relaying {
    pub(crate) fn start<S: Store>(relay: &Relay<S>, life: &Life) -> Self {
        let stop = CancellationToken::new();
        let tasks = life.span().in_scope(|| relay.publish_all(&stop));
        Relaying { stop, tasks }
    }

    /// What is being published comes to its end, if that does not take long: others publish it again.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(TIMEOUT, ended).await.is_err() {
            tracing::debug!("the relay did not stop in time; leaving it while it publishes");
        }
    }
}

/// What [`Relay::flush`] did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// How many messages were published.
    pub published: usize,
    /// Why some messages were not.
    pub left: Option<String>,
    /// Another relay has the lease of a queue, and publishes what is left of it.
    pub elsewhere: bool,
}

/// One queue's relay.
struct QueueRelay<S: Store> {
    store: S,
    queue: Arc<str>,
    /// The same, to be asked about.
    only: BTreeSet<Arc<str>>,
    broker: Arc<dyn DynBroker>,
    clock: Arc<dyn Clock>,
    poll: Duration,
    relay: ProcessId,
    wake: Arc<Notify>,
    /// We had the lease in the last round.
    ours: bool,
    /// The last round published, and this one comes at once: nobody else can have had the lease in between.
    goes_on: bool,
    /// So many rounds in a row nothing could be published.
    troubled: u32,
    /// Why a message was put off, last.
    put_off: Option<String>,
    reconciler: Reconciler,
}

/// What came of one look at the outbox.
enum Round {
    Nothing,
    Some(usize),
    NotOurs,
    Trouble(String),
}

impl<S: Store> QueueRelay<S> {
    async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let round = self.round().await;
            let wait = match &round {
                Ok(Round::Some(_)) => continue,
                Ok(Round::Trouble(why)) => {
                    self.step_down(why).await;
                    self.pause()
                }
                Ok(Round::Nothing) => {
                    if self.reconcile().await {
                        continue;
                    }
                    self.poll
                }
                Ok(Round::NotOurs) => self.poll,
                Err(error) => {
                    tracing::warn!(error = %error.in_full(), queue = %self.queue, "cannot read the outbox");
                    self.poll
                }
            };
            // While it is in trouble, a wake-up must not make it try all the time.
            let wakes = self.troubled == 0;
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.clock.sleep(wait) => {}
                () = self.wake.notified(), if wakes => {}
            }
        }
        if self.ours {
            self.release().await;
        }
    }

    async fn release(&self) {
        if let Err(error) = store::release_relay_lease(&self.store, self.relay, &self.queue).await {
            tracing::debug!(error = %error.in_full(), queue = %self.queue, "relay lease not released; it will expire");
        }
    }

    /// Has the broker lost something? True if there is something to publish then.
    async fn reconcile(&mut self) -> bool {
        let place = (&self.queue, &*self.broker);
        let looked = self.reconciler.look(&self.store, place, self.relay, &*self.clock).await;
        if let Ok(Some(0)) = looked
            && !self.ours
        {
            // It was for the look alone.
            self.release().await;
        }
        match looked {
            Ok(published) => published.unwrap_or_default() > 0,
            Err(error) => {
                tracing::warn!(error = %error.in_full(), queue = %self.queue, "cannot check for missing messages");
                false
            }
        }
    }

    /// Takes what is due and publishes it, if we have the lease. Whoever does not have it only asks whether there is something: payloads
    /// are read by one relay, once.
    async fn round(&mut self) -> Result<Round> {
        let goes_on = std::mem::replace(&mut self.goes_on, false);
        if !goes_on && !store::any_unsent(&self.store, &self.only).await? {
            return Ok(Round::Nothing);
        }
        self.ours = store::take_relay_lease(&self.store, self.relay, &self.queue).await?;
        if !self.ours {
            return Ok(Round::NotOurs);
        }
        // Whoever had the lease before has published what it saw: this is read after it was taken.
        let at_a_time = self.broker.at_a_time().clamp(1, AT_A_TIME);
        let unsent = store::unsent(&self.store, &self.queue, at_a_time).await?;
        if unsent.is_empty() {
            return Ok(Round::Nothing);
        }
        self.publish(unsent).await
    }

    async fn publish(&mut self, unsent: Vec<Unsent>) -> Result<Round> {
        let (spans, messages): (Vec<Span>, Vec<Outgoing>) = unsent.iter().map(|unsent| traced(dated(unsent))).unzip();
        let fates = self.keeping_the_turn(&messages).await;
        for (span, fate) in spans.iter().zip(&fates) {
            trace::fail(span, fate.is_err().then_some("not published"));
        }
        drop(spans);
        let pairs = || unsent.iter().zip(&fates);
        let arrived: Vec<&Unsent> = pairs().filter(|(_, fate)| fate.is_ok()).map(|(unsent, _)| unsent).collect();
        if !arrived.is_empty() {
            store::note_published(&self.store, &self.queue, &arrived).await?;
        }
        let mut trouble = None;
        for (unsent, fate) in pairs() {
            match fate {
                Err(why) if why.is_its_own() => self.put_off(unsent, why, own_wait(unsent.attempts)).await?,
                // What is wrong with the broker as a whole is written to the first message only.
                Err(why) if trouble.is_none() => {
                    self.put_off(unsent, why, Duration::ZERO).await?;
                    trouble = Some(why.to_string());
                }
                _ => {}
            }
        }
        Ok(match trouble {
            Some(why) if arrived.is_empty() => Round::Trouble(why),
            _ => {
                (self.troubled, self.goes_on) = (0, true);
                Round::Some(arrived.len())
            }
        })
    }

    async fn put_off(&mut self, unsent: &Unsent, why: &Unpublished, wait: Duration) -> Result<()> {
        let (queue, id) = (&self.queue, &unsent.message.id);
        if why.is_its_own() {
            tracing::warn!(%queue, id, %why, "not published; will retry later");
        }
        self.put_off = Some(why.to_string());
        store::note_unpublished(&self.store, queue, unsent, &why.to_string(), wait).await
    }

    /// Publishes, which can take long, and meanwhile renews the lease.
    async fn keeping_the_turn(&mut self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        let (store, relay, queue) = (self.store.clone(), self.relay, self.queue.clone());
        let (clock, broker) = (self.clock.clone(), self.broker.clone());
        let lasts = store::guard(&store, &queue).await.map(|guard| guard.rules.relay_after);
        let renewal = renewal(lasts.unwrap_or_default());
        let keep = async move {
            loop {
                clock.sleep(renewal).await;
                let (store, mine) = (store.clone(), queue.clone());
                // The publishing may come to its end first; the statement does so all the same.
                if let Err(error) =
                    run_to_completion(async move { store::take_relay_lease(&store, relay, &mine).await }).await
                {
                    tracing::debug!(error = %error.in_full(), %queue, "relay lease not renewed");
                }
            }
        };
        tokio::select! {
            fates = broker.publish(messages) => fates,
            () = keep => Vec::new(),
        }
    }

    /// Another one may reach the broker.
    async fn step_down(&mut self, why: &str) {
        if self.troubled == 0 {
            tracing::warn!(queue = %self.queue, why, "cannot publish; messages wait in the outbox");
        }
        self.troubled = self.troubled.saturating_add(1);
        self.ours = false;
        if let Err(error) = store::release_relay_lease(&self.store, self.relay, &self.queue).await {
            tracing::debug!(error = %error.in_full(), queue = %self.queue, "relay lease not released; it will expire");
        }
    }

    fn pause(&self) -> Duration {
        let pause = Duration::from_millis(100).saturating_mul(1 << self.troubled.min(6));
        pause.min(self.poll.max(Duration::from_millis(100)))
    }
}

/// How long a relay that publishes waits before it renews its lease: well before a short one ends.
fn renewal(lasts: Duration) -> Duration {
    (lasts / 4).clamp(Duration::from_millis(50), Duration::from_secs(1))
}

/// The message goes out in a span of its own, which it carries: whoever gets it goes on there.
fn traced(mut message: Outgoing) -> (Span, Outgoing) {
    let span = trace::span!(parent: None, "publish", otel.kind = "producer");
    trace::follow(&span, &message.headers);
    if let Some(traceparent) = trace::traceparent(&span) {
        message.headers.insert(TRACEPARENT.into(), traceparent);
    }
    (span, message)
}

/// How long a message that the broker does not take waits until it is tried again.
fn own_wait(attempts: u32) -> Duration {
    Duration::from_secs(1).saturating_mul(1 << attempts.min(6)).min(LONGEST_WAIT)
}

/// The message, with the time when it was sent. A retry has not only waited.
fn dated(unsent: &Unsent) -> Outgoing {
    let mut message = unsent.message.clone();
    if unsent.edition > 0 {
        return message;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sent_at = i64::try_from(now.as_millis()).unwrap_or(i64::MAX).saturating_sub(unsent.waited.max(0));
    message.headers.insert(SENT_AT.into(), sent_at.to_string());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_renewed_long_before_it_ends() {
        for lasts in [1, 2, 5, 60].map(Duration::from_secs) {
            assert!(renewal(lasts) * 3 < lasts, "{lasts:?}");
        }
    }
}
