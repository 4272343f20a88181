//! Reads the dead letters of a queue without taking them: for the doctor, `failed` and the console. AMQP can only look at a
//! message by being handed it, so a reading holds all letters until it is closed, and gives those back, in their order, that
//! nobody has deleted or moved. Whoever reads sees a page at a time, so memory is bounded however many there are.
//!
//! What was measured on RabbitMQ 3.10.8, with 10,000 letters:
//!
//! - A quorum queue counts every delivery that comes back, also one that nobody has touched and whose channel was just closed. At
//!   its delivery limit it drops it. So a queue that may have a limit is refused before anything is read. ichido's own
//!   dead-letter queues have a limit that is never reached. Classic queues do not count.
//! - A quorum queue puts what comes back before what was never handed out, and behind what has come back before. So the order is
//!   kept if everything is read and comes back in its order. One `basic.nack` for more than 32 letters mixes them (Erlang's
//!   larger maps have no order); so do several that it has not come to yet, because it then makes one of them, and so does a
//!   channel that is closed. So they come back 32 at a time, and are waited for now and then. A reading that is cut off loses
//!   nothing, and mixes them.
//! - Pages of 128 by a consumer each take 4 s, `basic.get` 22 s (6 s on a classic queue).

use std::{collections::VecDeque, future::poll_fn, pin::Pin, time::Duration};

use futures_core::Stream;
use lapin::{
    Channel, Connection, Consumer,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
        QueueDeclareOptions, QueueDeleteOptions,
    },
    types::FieldTable,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Delivery, Envelope, Error, Publisher, RabbitMq, Result, Settled, depths::look, error::code, server::answered,
    subscription::heard,
};
use ichido::broker::Unpublished;

const READING: &str = "reading dead letters";

/// So many letters are in memory at a time.
const PAGE: u32 = 128;

/// So many are released together.
const GROUP: usize = 32;

/// So many groups may be on their way back.
const GROUPS: usize = 16;

/// The broker has its letters at hand: if none comes for so long, others have taken them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long those that are released may take to be there again.
const BACK: Duration = Duration::from_secs(5);

/// A delivery limit that leaves less room is too close.
const ROOM: u64 = 100;

/// A reading of the dead letters of one queue. While it is open, other consumers find none; another reading is refused.
pub struct DeadLetters {
    connection: Connection,
    channel: Channel,
    queue: String,
    /// A queue that is there as long as we read.
    lock: String,
    publisher: Publisher,
    /// How often the broker hands a letter out before it drops it.
    limit: Option<u64>,
    /// So many were there at the beginning and are not read yet.
    left: u32,
    page: VecDeque<Delivery>,
    /// The tags of what is to be released, by page.
    out: Vec<Vec<u64>>,
}

impl RabbitMq {
    /// Begins to read the dead letters that are there now.
    ///
    /// # Errors
    /// If the broker is away, somebody else reads them ([`Error::Busy`]), or reading could lose them: if the queue is not as
    /// ichido would declare it, and the management API does not say that it has no delivery limit.
    pub async fn dead_letters(&self) -> Result<DeadLetters> {
        let limit = self.delivery_limit().await?;
        let queue = self.topology().dead_letter_queue.clone();
        if limit.is_some_and(|limit| limit < ROOM) {
            return Err(limited(&queue, limit));
        }
        let connection = self.broker().connect("ichido dead letters").await?;
        let lock = answered(READING, lock(&connection, &queue)).await?;
        let (left, _) = look(&connection, &queue).await?;
        let channel = answered(READING, opened(&connection)).await?;
        let publisher = self.publisher().clone();
        let (page, out) = (VecDeque::new(), Vec::new());
        Ok(DeadLetters { connection, channel, queue, lock, publisher, limit, left, page, out })
    }

    async fn delivery_limit(&self) -> Result<Option<u64>> {
        if let Some(management) = self.management() {
            return management.delivery_limit(&self.topology().dead_letter_queue, self.broker()).await;
        }
        let connection = self.broker().connect("ichido dead letters").await?;
        let same = answered(READING, self.topology().has_own_dead_letters(&connection)).await?;
        if same {
            return Ok(None);
        }
        let queue = &self.topology().dead_letter_queue;
        Err(Error::Setup(format!(
            "the queue {queue:?} is not as ichido would declare it, so it may have a delivery limit, and each time a \
             dead letter is read counts as a delivery: set the URL of the management API, which knows the limit"
        )))
    }
}

impl DeadLetters {
    /// The next letter; none if all are read that were there at the beginning. It stays where it is, unless it is deleted or
    /// moved.
    ///
    /// # Errors
    /// If the connection is lost, or a letter comes close to the queue's delivery limit. The reading is over then: the broker
    /// takes all letters back.
    pub async fn next(&mut self) -> Result<Option<Delivery>> {
        if self.page.is_empty() && self.left > 0 {
            self.turn_the_page().await?;
        }
        let Some(letter) = self.page.pop_front() else {
            return Ok(None);
        };
        let room = |limit: u64| letter.delivery_count().unwrap_or_default() + ROOM / 2 < limit;
        if self.limit.is_some_and(|limit| !room(limit)) {
            return Err(limited(&self.queue, self.limit));
        }
        Ok(Some(letter))
    }

    /// The letter is gone for good.
    pub async fn delete(&mut self, letter: &Delivery) -> Settled {
        let settled = heard(letter.acker.ack(BasicAckOptions::default())).await;
        let page = self.out.iter_mut().rfind(|page| page.contains(&letter.tag));
        if let Some(page) = page {
            page.retain(|tag| *tag != letter.tag);
        }
        settled
    }

    /// The letter goes to an exchange, without its history and its reason, and is there before it is deleted here.
    ///
    /// # Errors
    /// If it could not be put there. It stays here then.
    pub async fn move_to(
        &mut self,
        letter: &Delivery,
        exchange: &str,
        routing_key: &str,
    ) -> Result<Settled, Unpublished> {
        let copy = Envelope::copy(&letter.properties, &letter.payload, exchange, routing_key);
        let copy = copy.map_err(|error| Unpublished::Refused(error.to_string()))?;
        self.publisher.publish_one(copy).await?;
        Ok(self.delete(letter).await)
    }

    /// Releases what was neither deleted nor moved, in its order, and returns when it is there again.
    ///
    /// # Errors
    /// If the connection is lost. The broker takes them back then.
    pub async fn close(self) -> Result<()> {
        self.release_unstarted().await?;
        let unlocked = async {
            let channel = opened(&self.connection).await?;
            let unlocked = channel.queue_delete(self.lock.as_str().into(), QueueDeleteOptions::default()).await;
            unlocked.map(drop).map_err(Error::broker("closing the reader of dead letters"))
        };
        answered(READING, unlocked).await
    }

    async fn release_unstarted(&self) -> Result<()> {
        let (mut there, _) = look(&self.connection, &self.queue).await?;
        let mut alone = true;
        for (number, group) in self.out.iter().flat_map(|page| page.chunks(GROUP)).enumerate() {
            there += u32::try_from(group.len()).expect("a group is small");
            let back = BasicNackOptions { requeue: true, multiple: true };
            let told = self.channel.basic_nack(*group.last().expect("no group is empty"), back).await;
            told.map_err(Error::broker("requeueing dead letters"))?;
            // After the first one: then it has also come to everything that was deleted.
            if number % GROUPS == 0 && alone {
                alone = self.has_again(there).await?;
            }
        }
        if alone {
            self.has_again(there).await?;
        }
        Ok(())
    }

    /// Waits until so many letters are in the queue, and tells whether they are: others may take them.
    async fn has_again(&self, letters: u32) -> Result<bool> {
        let began = Instant::now();
        while look(&self.connection, &self.queue).await?.0 < letters {
            if began.elapsed() > BACK {
                return Ok(false);
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(true)
    }

    async fn turn_the_page(&mut self) -> Result<()> {
        let size = self.left.min(PAGE);
        self.left -= size;
        self.out.push(Vec::new());
        let mut consumer = answered(READING, self.consume(size)).await?;
        for _ in 0..size {
            match timeout(TIMEOUT, letter(&mut consumer)).await {
                Ok(Some(letter)) => self.take(letter?),
                Ok(None) => return Err(Error::Setup(format!("the queue {:?} was deleted", self.queue))),
                Err(_) if look(&self.connection, &self.queue).await?.0 == 0 => break,
                Err(_) => return Err(Error::Busy(format!("another consumer reads the queue {:?}", self.queue))),
            }
        }
        // Before anything is deleted: its place would be filled, out of turn.
        for late in answered(READING, cancelled(&self.channel, consumer)).await? {
            self.take(late);
        }
        Ok(())
    }

    async fn consume(&self, size: u32) -> Result<Consumer> {
        let size = u16::try_from(size).expect("a page is small");
        let limited = self.channel.basic_qos(size, BasicQosOptions::default()).await;
        limited.map_err(Error::broker(READING))?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = self.channel.basic_consume(self.queue.as_str().into(), "".into(), options, arguments).await;
        consumer.map_err(Error::broker(READING))
    }

    fn take(&mut self, letter: Delivery) {
        self.out.last_mut().expect("a page was turned").push(letter.tag);
        self.page.push_back(letter);
    }
}

async fn letter(consumer: &mut Consumer) -> Option<Result<Delivery>> {
    let letter = poll_fn(|cx| Pin::new(&mut *consumer).poll_next(cx)).await?;
    Some(letter.map(Delivery::new).map_err(Error::broker(READING)))
}

/// Ends a consumer; what it still had.
async fn cancelled(channel: &Channel, mut consumer: Consumer) -> Result<Vec<Delivery>> {
    let cancelled = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await;
    cancelled.map_err(Error::broker(READING))?;
    let mut late = Vec::new();
    while let Some(letter) = letter(&mut consumer).await {
        late.push(letter?);
    }
    Ok(late)
}

async fn opened(connection: &Connection) -> Result<Channel> {
    connection.create_channel().await.map_err(Error::broker("opening a channel"))
}

/// Two readings would each find half of the letters. The queue is nobody's but the connection's, and ends with it.
async fn lock(connection: &Connection, queue: &str) -> Result<String> {
    let name = format!("{}.reading", &queue[..queue.floor_char_boundary(240)]);
    let ours = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let channel = opened(connection).await?;
    let declared = channel.queue_declare(name.as_str().into(), ours, FieldTable::default()).await;
    declared.map_err(|error| match code(&error) {
        Some(405) => Error::Busy(format!("another process is reading the dead letters in queue {queue:?}")),
        _ => Error::Broker { doing: format!("declaring queue {name:?}"), source: error },
    })?;
    Ok(name)
}

fn limited(queue: &str, limit: Option<u64>) -> Error {
    let limit = limit.unwrap_or_default();
    Error::Setup(format!(
        "the queue {queue:?} drops messages after {limit} deliveries, and each time a dead letter is read counts as \
         one: remove the delivery limit with a policy, or use another queue"
    ))
}
