//! Receives from a queue and settles. The reader of a pool asks it for the next delivery, which never waits, and gives each
//! delivery back with what shall become of it. It has a connection of its own, which comes back by itself: after a cut, a
//! consumer that the broker has cancelled, a channel that it has closed because an acknowledgement took too long, a queue that
//! was deleted. Each time with a new connection, so that no acknowledgement can reach a channel that is not its own.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_core::Stream;
use ichido::broker::{RowName, Unpublished};
use lapin::{
    Channel, Connection, Consumer,
    options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    Delivery, Envelope, Error, Publisher, Result, Server, State, Topology,
    header::{REASON, REDELIVERED, ROW},
    link::Link,
    server::{answered, answered_within},
};

/// How long the broker's side may take to hear of an acknowledgement before it counts as lost.
const TIMEOUT: Duration = Duration::from_secs(10);

const CANCELLING: &str = "cancelling the consumer";

/// In bytes.
const LONGEST_REASON: usize = 2000;

/// What became of a delivery's settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The broker was told.
    Told,
    /// The connection on which it came is gone, or it was settled before. The broker hands it out again, if it does not know
    /// of an earlier settlement.
    Gone,
}

/// Hands out deliveries of one queue, shared by all workers of a pool. When it is dropped, what is not settled goes back.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    link: Link,
    topology: Topology,
    prefetch: u16,
    publisher: Publisher,
    ready: Mutex<VecDeque<Delivery>>,
    /// Why nothing is received, if so.
    why_not: Mutex<Option<String>>,
    changed: Notify,
    closed: watch::Sender<bool>,
}

impl Subscription {
    /// Starts to receive, at most `prefetch` deliveries that are not settled at a time. The publisher sends what is busy or dead to
    /// its place.
    #[must_use]
    pub fn start(broker: Server, topology: Topology, prefetch: u16, publisher: Publisher) -> Self {
        let link = Link::new(broker, "ichido source");
        let shared = Arc::new(Shared {
            link,
            topology,
            prefetch: prefetch.max(1),
            publisher,
            ready: Mutex::default(),
            why_not: Mutex::new(Some("not connected yet".to_owned())),
            changed: Notify::new(),
            closed: watch::Sender::new(false),
        });
        let task = tokio::spawn(Arc::clone(&shared).run());
        Self { shared, task }
    }

    /// The next delivery, if there is one at hand. Never waits.
    #[must_use]
    pub fn try_next(&self) -> Option<Delivery> {
        if self.is_closed() { None } else { self.shared.ready().pop_front() }
    }

    /// Resolves when `try_next` may find something, or nothing will come any more.
    pub async fn changed(&self) {
        // Before the look, so that nothing comes unheard between the two.
        let rung = self.shared.changed.notified();
        if self.shared.ready().is_empty() && !self.is_closed() {
            rung.await;
        }
    }

    /// So many deliveries that are not settled it hands out at most.
    #[must_use]
    pub fn prefetch(&self) -> u16 {
        self.shared.prefetch
    }

    /// How its connection is; away also if it is there and nothing can be received, for example because the queue is missing.
    #[must_use]
    pub fn state(&self) -> State {
        let why_not = self.shared.why_not.lock().unwrap_or_else(PoisonError::into_inner).clone();
        why_not.map_or_else(|| self.shared.link.state(), State::Away)
    }

    /// It is done: the broker forgets it.
    pub async fn ack(&self, delivery: &Delivery) -> Settled {
        heard(delivery.acker.ack(BasicAckOptions::default())).await
    }

    /// It goes back to the queue, for anybody, at once.
    pub async fn release(&self, delivery: &Delivery) -> Settled {
        release(delivery).await
    }

    /// Somebody else is at it: it comes back after the busy delay. It is with the busy queue before it is acknowledged.
    ///
    /// # Errors
    /// If it could not be put there. It is not settled then: try again, or release it.
    pub async fn busy(&self, delivery: &Delivery) -> Result<Settled, Unpublished> {
        let topology = &self.shared.topology;
        let mark = delivery.is_redelivered().then_some((REDELIVERED, "true"));
        let copy = copy(delivery, "", &topology.busy_queue, mark.as_slice())?;
        // The queue has the same delay, and RabbitMQ can lose that: a node that crashed just after the queue was declared starts it anew without.
        self.send_away(delivery, copy.expires_after(topology.busy_delay)).await
    }

    /// It goes to the dead letters, with the reason in a header. A copy is with the dead-letter queue before it is
    /// acknowledged: a plain reject could not tell the reason, and on a classic queue could lose it.
    ///
    /// # Errors
    /// If it could not be put there. It is not settled then: try again, or release it.
    pub async fn dead_letter(&self, delivery: &Delivery, reason: &str) -> Result<Settled, Unpublished> {
        let topology = &self.shared.topology;
        let marks = [(REASON, shortened(reason))];
        self.send_away(delivery, copy(delivery, &topology.dead_letter_exchange, &topology.queue, &marks)?).await
    }

    /// The same for one that has failed for good, with the name of its row: so the doctor knows it, whoever has sent it.
    ///
    /// # Errors
    /// If it could not be put there. It is not settled then: try again, or release it.
    pub async fn dead_letter_failed(
        &self,
        delivery: &Delivery,
        reason: &str,
        row: &RowName,
    ) -> Result<Settled, Unpublished> {
        let (topology, row) = (&self.shared.topology, row.to_string());
        let marks = [(REASON, shortened(reason)), (ROW, &row)];
        self.send_away(delivery, copy(delivery, &topology.dead_letter_exchange, &topology.queue, &marks)?).await
    }

    /// Receives nothing any more and releases what nobody has taken. What was taken can still be settled until the source is
    /// dropped.
    pub async fn close(&self) {
        self.shared.closed.send_replace(true);
        self.shared.release_unstarted().await;
        self.shared.changed.notify_waiters();
    }

    fn is_closed(&self) -> bool {
        *self.shared.closed.borrow()
    }

    async fn send_away(&self, delivery: &Delivery, copy: Envelope) -> Result<Settled, Unpublished> {
        if !delivery.is_current() {
            return Ok(Settled::Gone);
        }
        self.shared.publisher.publish_one(copy).await?;
        Ok(self.ack(delivery).await)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.ready().clear();
        // By word: a consumer that was only just opening would hold on to its connection, and to what the broker has handed out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move { shared.link.close().await });
        }
    }
}

fn copy(delivery: &Delivery, exchange: &str, key: &str, marks: &[(&str, &str)]) -> Result<Envelope, Unpublished> {
    let copy = Envelope::copy(&delivery.properties, &delivery.payload, exchange, key);
    let copy = marks.iter().fold(copy, |copy, (header, value)| copy?.header(header, value));
    copy.map_err(|error| Unpublished::Unsent(error.to_string()))
}

/// The whole text is with the message's row; here it must fit beside the other headers.
fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(LONGEST_REASON)]
}

async fn release(delivery: &Delivery) -> Settled {
    heard(delivery.acker.nack(BasicNackOptions { requeue: true, multiple: false })).await
}

pub(crate) async fn heard(told: impl Future<Output = lapin::Result<bool>>) -> Settled {
    match timeout(TIMEOUT, told).await {
        Ok(Ok(true)) => Settled::Told,
        _ => Settled::Gone,
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        while !*self.closed.borrow() {
            let why = match self.receive().await {
                Ok(()) => return,
                Err(error) => error.to_string(),
            };
            tracing::warn!(why, queue = self.topology.queue, "cannot receive; retrying");
            self.why_not(Some(why.clone()));
            // The broker hands them out again.
            self.ready().clear();
            self.link.give_up(&why).await;
        }
    }

    /// Receives until it is closed, and then stays for those who have something to settle.
    async fn receive(&self) -> Result<()> {
        let connection = self.link.connection().await?;
        // A node that is just starting may take a question and never answer.
        let (channel, mut consumer) = answered("consuming", self.open(&connection)).await?;
        self.link.worked();
        self.why_not(None);
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => {}
            lost = self.take_from(&mut consumer) => return Err(lost),
        }
        answered_within(TIMEOUT, CANCELLING, async {
            let cancelled = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await;
            cancelled.map_err(Error::broker(CANCELLING))?;
            // What came meanwhile; its end is the answer to the cancel.
            self.take_from(&mut consumer).await;
            Ok(())
        })
        .await?;
        self.release_unstarted().await;
        // Until it is dropped.
        std::future::pending().await
    }

    async fn open(&self, connection: &Connection) -> Result<(Channel, Consumer)> {
        if self.topology.declare {
            self.topology.declare_on(connection).await?;
        }
        let channel = connection.create_channel().await.map_err(Error::broker("opening a channel"))?;
        let consumer = self.consume(&channel).await?;
        Ok((channel, consumer))
    }

    /// Releases what nobody has taken. If the broker does not hear of one, it takes all of them back with the connection.
    async fn release_unstarted(&self) {
        let left: Vec<Delivery> = self.ready().drain(..).collect();
        for delivery in &left {
            if release(delivery).await == Settled::Gone {
                return;
            }
        }
    }

    async fn consume(&self, channel: &Channel) -> Result<Consumer> {
        let queue = &self.topology.queue;
        let limited = channel.basic_qos(self.prefetch, BasicQosOptions::default()).await;
        limited.map_err(Error::broker("setting the prefetch"))?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel.basic_consume(queue.as_str().into(), "".into(), options, arguments).await;
        consumer.map_err(Error::broker(format!("consuming from queue {queue:?}")))
    }

    /// Ends when the consumer does.
    async fn take_from(&self, consumer: &mut Consumer) -> Error {
        loop {
            match poll_fn(|cx| Pin::new(&mut *consumer).poll_next(cx)).await {
                Some(Ok(delivery)) => {
                    self.ready().push_back(Delivery::new(delivery));
                    self.changed.notify_waiters();
                }
                Some(Err(source)) => {
                    return Error::Broker { doing: format!("consuming from queue {:?}", self.topology.queue), source };
                }
                None => {
                    let queue = &self.topology.queue;
                    return Error::Setup(format!("the broker cancelled the consumer of queue {queue:?}"));
                }
            }
        }
    }

    fn why_not(&self, why_not: Option<String>) {
        *self.why_not.lock().unwrap_or_else(PoisonError::into_inner) = why_not;
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<Delivery>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
