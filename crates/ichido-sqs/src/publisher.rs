//! Sends messages in batches of ten, several at once where no order is kept, and tells the fate of each: taken by SQS, refused, or unknown. The relay and the source call it. It keeps no
//! message of its own: whoever calls holds them, waits, and is told in time.

use std::{
    collections::{HashMap, HashSet},
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use aws_sdk_sqs::types::{BatchResultErrorEntry, QueueAttributeName as Name};
use ichido::broker::Unpublished;
use tokio::time::{Instant, sleep};

use crate::{Envelope, Error, Result, Server, server::TIMEOUT};

/// SQS's limit for a batch.
pub(crate) const BATCH: usize = 10;

/// So many batches are sent at once where no order is kept.
pub(crate) const AT_ONCE: usize = 4;

/// What a batch may have together, whatever its queue is set to: SQS's limit before 2025, which compatible servers may still have.
const LEAST_TOGETHER: usize = 256 << 10;

/// What a message may have where the queue does not say.
const LARGEST: usize = 1 << 20;

/// So often an entry that fails alone is sent again. What has arrived is not known to the caller before that: it takes a second at most, and
/// whoever publishes tries again later anyway.
const RETRIES: u32 = 4;

/// The longest pause before the first of them; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

type Fate = Result<(), Unpublished>;

/// Publishes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    server: Server,
    deadline: Duration,
    /// The largest message of each queue.
    largest: Mutex<HashMap<String, usize>>,
}

impl Publisher {
    /// A publisher that tells the fate of what it is given after this time at the latest.
    #[must_use]
    pub fn new(server: Server, deadline: Duration) -> Self {
        Self(Arc::new(Inner { server, deadline, largest: Mutex::default() }))
    }

    pub(crate) async fn publish_one(&self, message: Envelope) -> Fate {
        self.publish(&[message]).await.pop().expect("one fate for one message")
    }

    /// Publishes messages and tells the fate of each, in their order. A queue that keeps an order gets them in it.
    ///
    /// If it is dropped before its end, the fate of the messages is unknown.
    pub async fn publish(&self, messages: &[Envelope]) -> Vec<Fate> {
        let until = Instant::now() + self.0.deadline;
        let mut fates = Vec::with_capacity(messages.len());
        while fates.len() < messages.len() {
            let (sent, goes_on) = self.0.send_some(&messages[fates.len()..], until).await;
            fates.extend(sent);
            if !goes_on {
                break;
            }
        }
        let why = Unpublished::Unsent("an earlier message could not be sent".to_owned());
        fates.extend(all(&messages[fates.len()..], &why));
        fates
    }
}

impl Inner {
    /// Sends the first of these, as many as go at once; and whether the others may follow.
    async fn send_some(&self, messages: &[Envelope], until: Instant) -> (Vec<Fate>, bool) {
        let largest = match self.largest(&messages[0].queue).await {
            Ok(largest) => largest,
            Err(error) => return (all(messages, &fate_of(&error)), false),
        };
        let batches = batches(messages, largest);
        let sent = at_once(batches.into_iter().map(|batch| self.send_fitting(batch, largest, until))).await;
        // Where order is kept, nothing may overtake what could not be sent; anywhere else one entry holds up no other.
        let in_order = messages[0].place.is_some();
        let has_failed = |fates: &Vec<Fate>| {
            let mut failed = fates.iter().map(is_passing);
            if in_order { failed.any(|failed| failed) } else { failed.all(|failed| failed) }
        };
        let goes_on = !sent.iter().any(has_failed);
        (sent.into_iter().flatten().collect(), goes_on)
    }

    /// A batch; what is too large for the queue is one of its own, and is refused.
    async fn send_fitting(&self, batch: &[Envelope], largest: usize, until: Instant) -> Vec<Fate> {
        match batch[0].size() {
            size if size > largest => {
                let why = format!("it has {size} bytes with its attributes; the queue takes at most {largest}");
                vec![Err(Unpublished::Refused(why))]
            }
            _ => self.send(batch, until).await,
        }
    }

    async fn send(&self, batch: &[Envelope], until: Instant) -> Vec<Fate> {
        let within = until.saturating_duration_since(Instant::now()).min(TIMEOUT);
        if within.is_zero() {
            return all(batch, &Unpublished::Unsent("the deadline has passed".to_owned()));
        }
        match self.send_batch(batch, within).await {
            Ok(mut fates) => {
                self.send_failed_again(batch, &mut fates, until).await;
                fates
            }
            // A compatible server may have a lower limit than SQS.
            Err(error) if error.is_code("BatchRequestTooLong") && batch.len() > 1 => {
                let (left, right) = batch.split_at(batch.len() / 2);
                let mut fates = Box::pin(self.send(left, until)).await;
                fates.extend(Box::pin(self.send(right, until)).await);
                fates
            }
            Err(error) => {
                if let Error::Missing(_) = error {
                    self.largest_of().remove(&batch[0].queue);
                }
                all(batch, &fate_of(&error))
            }
        }
    }

    /// Single entries fail although the call succeeds: only those are sent again.
    async fn send_failed_again(&self, batch: &[Envelope], fates: &mut [Fate], until: Instant) {
        for retries in 0..RETRIES {
            let failed: Vec<usize> = (0..batch.len()).filter(|at| is_passing(&fates[*at])).collect();
            let pause = FIRST_PAUSE.saturating_mul(1 << retries).mul_f64(fastrand::f64());
            let within = until.saturating_duration_since(Instant::now() + pause).min(TIMEOUT);
            if failed.is_empty() || within.is_zero() {
                return;
            }
            sleep(pause).await;
            let left: Vec<_> = failed.iter().map(|at| batch[*at].clone()).collect();
            let sent = self.send_batch(&left, within).await;
            let is_over = sent.is_err();
            for (at, fate) in failed.into_iter().zip(sent.unwrap_or_else(|error| all(&left, &fate_of(&error)))) {
                fates[at] = fate;
            }
            if is_over {
                return;
            }
        }
    }

    async fn send_batch(&self, batch: &[Envelope], within: Duration) -> Result<Vec<Fate>> {
        let queue = &batch[0].queue;
        let url = self.server.url(queue).await?;
        let entries = batch.iter().enumerate().map(|(id, message)| message.entry(id)).collect();
        let call = self.server.client().await?.send_message_batch().queue_url(url).set_entries(Some(entries)).send();
        let answer = self.server.answer(&format!("sending to queue {queue:?}"), within, call).await?;
        let silent = || Err(Unpublished::Unknown("SQS says nothing about it".to_owned()));
        let mut fates: Vec<Fate> = batch.iter().map(|_| silent()).collect();
        for sent in answer.successful() {
            if let Some(fate) = sent.id().parse().ok().and_then(|at: usize| fates.get_mut(at)) {
                *fate = Ok(());
            }
        }
        for failed in answer.failed() {
            if let Some(fate) = failed.id().parse().ok().and_then(|at: usize| fates.get_mut(at)) {
                *fate = Err(fate_of_entry(failed));
            }
        }
        Ok(fates)
    }

    async fn largest(&self, queue: &str) -> Result<usize> {
        if let Some(known) = self.largest_of().get(queue) {
            return Ok(*known);
        }
        let set = self.server.attributes(queue, &[Name::MaximumMessageSize]).await?;
        let largest = set.get(&Name::MaximumMessageSize).and_then(|text| text.parse().ok()).unwrap_or(LARGEST);
        self.largest_of().insert(queue.to_owned(), largest);
        Ok(largest)
    }

    fn largest_of(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.largest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The batches that go at once: all to one queue, and one at a time where order is kept.
fn batches(messages: &[Envelope], largest: usize) -> Vec<&[Envelope]> {
    let first = &messages[0];
    let most = if first.place.is_some() { 1 } else { AT_ONCE };
    let (mut batches, mut rest) = (Vec::new(), messages);
    while batches.len() < most && rest.first().is_some_and(|next| next.queue == first.queue) {
        let (batch, others) = rest.split_at(together(rest, largest));
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Runs all of these at the same time; what comes of each, in their order.
async fn at_once<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, done) in running.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                *done = Some(value);
            }
        }
        if running.iter().all(|(_, done)| done.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}

/// How many of these go together: to one queue, and no more than a batch may have. Entries of a batch can fail one by one, so that no two of
/// a group go together: the second must not overtake the first.
fn together(messages: &[Envelope], largest: usize) -> usize {
    let most = largest.max(LEAST_TOGETHER);
    let (mut size, mut groups) = (0, HashSet::new());
    let fits = |message: &&Envelope| {
        size += message.size();
        let alone = message.place.as_ref().is_none_or(|(group, _)| groups.insert(group.clone()));
        message.queue == messages[0].queue && message.size() <= largest && size <= most && alone
    };
    messages.iter().take(BATCH).take_while(fits).count().max(1)
}

/// May it succeed if it is sent again?
fn is_passing(fate: &Fate) -> bool {
    matches!(fate, Err(Unpublished::Unsent(_) | Unpublished::Unknown(_)))
}

fn fate_of(error: &Error) -> Unpublished {
    match error {
        Error::Missing(why) => Unpublished::Unroutable(why.clone()),
        Error::Unreachable { .. } => Unpublished::Unknown(error.to_string()),
        error if error.is_code("InvalidMessageContents") || error.is_code("BatchRequestTooLong") => {
            Unpublished::Refused(error.to_string())
        }
        error => Unpublished::Unsent(error.to_string()),
    }
}

fn fate_of_entry(failed: &BatchResultErrorEntry) -> Unpublished {
    let why = format!("{} ({})", failed.message().unwrap_or("no reason given"), failed.code());
    if failed.sender_fault() { Unpublished::Refused(why) } else { Unpublished::Unsent(why) }
}

fn all(messages: &[Envelope], why: &Unpublished) -> Vec<Fate> {
    messages.iter().map(|_| Err(why.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(queue: &str, size: usize) -> Envelope {
        Envelope { queue: queue.to_owned(), body: "x".repeat(size), attributes: HashMap::new(), place: None }
    }

    #[test]
    fn a_batch_has_ten_messages_and_no_more_than_it_may() {
        let small: Vec<_> = (0..25).map(|_| message("q", 100)).collect();
        assert_eq!(together(&small, 1 << 20), 10);
        let large: Vec<_> = (0..5).map(|_| message("q", 100 << 10)).collect();
        assert_eq!(together(&large, 200 << 10), 2, "256 KiB together");
        assert_eq!(together(&[message("q", 1), message("q", 2000)], 1024), 1, "what is too large goes alone");
        assert_eq!(together(&large, 400 << 10), 4);
        assert_eq!(together(&[message("q", 1), message("r", 1)], 1024), 1, "one queue at a time");
    }

    #[test]
    fn several_batches_go_at_once_but_not_where_order_is_kept() {
        let lengths = |messages: &[Envelope]| -> Vec<_> { batches(messages, 1024).iter().map(|b| b.len()).collect() };
        let of = |queue: &str, many| (0..many).map(|_| message(queue, 1)).collect::<Vec<_>>();
        assert_eq!(lengths(&of("q", 25)), [10, 10, 5]);
        assert_eq!(lengths(&of("q", 99)), [10; AT_ONCE]);
        assert_eq!(lengths(&[of("q", 3), of("r", 3)].concat()), [3]);
        let place = |n: usize| Some((n.to_string(), n.to_string()));
        let line: Vec<_> = (0..25).map(|n| Envelope { place: place(n), ..message("q.fifo", 1) }).collect();
        assert_eq!(lengths(&line), [10]);
    }

    #[test]
    fn messages_of_a_group_never_share_a_batch() {
        let of =
            |group: &str, id: &str| Envelope { place: Some((group.to_owned(), id.to_owned())), ..message("q.fifo", 1) };
        assert_eq!(together(&[of("a", "1"), of("b", "2"), of("c", "3"), of("a", "4")], 1024), 3);
        assert_eq!(together(&[of("a", "1"), of("a", "2")], 1024), 1);
    }
}
