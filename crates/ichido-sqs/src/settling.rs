//! Deletes messages, and changes how long they are out of sight, in batches of ten: each call costs the same, however many it is about. One
//! task for each of the two verbs collects for a moment, if others are about to come. Who settles waits for the answer to its own entry.

use std::{sync::Arc, time::Duration};

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout_at},
};

use crate::{Result, Server, publisher::BATCH, server::TIMEOUT};

/// How long an entry waits for others.
const LINGER: Duration = Duration::from_millis(200);

/// So often a batch is tried; what is left then comes again by itself.
const TRIES: u32 = 5;

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// SQS was told.
    Told,
    /// Its receipt is worth nothing any more, or SQS does not answer: it is handed out again.
    Gone,
}

/// Settles deliveries of one queue. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Settling {
    delete: mpsc::UnboundedSender<Request>,
    hide: mpsc::UnboundedSender<Request>,
}

#[derive(Debug)]
struct Request {
    receipt: String,
    /// In seconds; none: it is deleted.
    hide: Option<i32>,
    /// Others will come: it waits for them.
    waits: bool,
    told: oneshot::Sender<Settled>,
}

impl Settling {
    /// For deliveries of this queue, so many at a time together at least, unless that takes too long.
    pub(crate) fn start(server: &Server, queue: &str, together: usize) -> Self {
        let task = || {
            let (sender, requests) = mpsc::unbounded_channel();
            let caller = Arc::new(Caller { server: server.clone(), queue: queue.to_owned() });
            tokio::spawn(collect(requests, caller, together.clamp(1, BATCH)));
            sender
        };
        Self { delete: task(), hide: task() }
    }

    /// It is finished. If `others` are about to be, it waits a moment for them.
    pub(crate) async fn delete(&self, receipt: &str, others: bool) -> Settled {
        ask(&self.delete, receipt, None, others).await
    }

    /// They come back after this time, in this order; at once if it is zero. Tells how many of them do so only by themselves.
    pub(crate) async fn hide_all(&self, receipts: impl Iterator<Item = &str>, time: Duration) -> usize {
        // All are asked for before anything is waited for.
        let asked: Vec<_> = receipts.map(|receipt| ask(&self.hide, receipt, Some(seconds(time)), true)).collect();
        let mut gone = 0;
        for answer in asked {
            gone += usize::from(answer.await == Settled::Gone);
        }
        gone
    }
}

/// Whole seconds, and not fewer than were asked for.
pub(crate) fn seconds(time: Duration) -> i32 {
    let up = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i32::try_from(up).unwrap_or(i32::MAX)
}

/// Asks now, and returns what waits for the answer.
fn ask(
    to: &mpsc::UnboundedSender<Request>,
    receipt: &str,
    hide: Option<i32>,
    waits: bool,
) -> impl Future<Output = Settled> + Send + use<> {
    let (told, answer) = oneshot::channel();
    // A request that nobody takes is dropped, and so is its answer.
    let _ = to.send(Request { receipt: receipt.to_owned(), hide, waits, told });
    async { answer.await.unwrap_or(Settled::Gone) }
}

/// How many are waiting is bounded by how many are in hand.
async fn collect(mut requests: mpsc::UnboundedReceiver<Request>, caller: Arc<Caller>, together: usize) {
    while let Some(first) = requests.recv().await {
        let until = Instant::now() + LINGER;
        let mut waits = first.waits;
        let mut batch = vec![first];
        while waits && batch.len() < together {
            match timeout_at(until, requests.recv()).await {
                Ok(Some(next)) => {
                    waits = next.waits;
                    batch.push(next);
                }
                Ok(None) | Err(_) => break,
            }
        }
        while batch.len() < BATCH
            && let Ok(next) = requests.try_recv()
        {
            batch.push(next);
        }
        let caller = caller.clone();
        tokio::spawn(async move { caller.until_told(batch).await });
    }
}

#[derive(Debug)]
struct Caller {
    server: Server,
    queue: String,
}

impl Caller {
    /// Single entries may fail, and are tried again alone.
    async fn until_told(&self, mut left: Vec<Request>) {
        for tries in 0..TRIES {
            let failed = match self.call(&left).await {
                Ok(failed) => failed,
                Err(error) => {
                    tracing::debug!(%error, queue = self.queue, "deliveries not settled yet");
                    if !error.is_transient() {
                        break;
                    }
                    pause(tries).await;
                    continue;
                }
            };
            let mut again = Vec::new();
            for (at, request) in left.into_iter().enumerate() {
                match failed.iter().find(|failed| failed.id() == at.to_string()) {
                    None => drop(request.told.send(Settled::Told)),
                    Some(failed) if failed.sender_fault() => drop(request.told.send(Settled::Gone)),
                    Some(_) => again.push(request),
                }
            }
            left = again;
            if left.is_empty() {
                return;
            }
            pause(tries).await;
        }
        for request in left {
            let _ = request.told.send(Settled::Gone);
        }
    }

    /// Those that were not taken.
    async fn call(&self, batch: &[Request]) -> Result<Vec<BatchResultErrorEntry>> {
        if batch.iter().all(|request| request.hide.is_none()) {
            let receipts = batch.iter().map(|request| request.receipt.as_str());
            return delete(&self.server, &self.queue, receipts).await;
        }
        let receipts = batch.iter().map(|request| (request.receipt.as_str(), request.hide.unwrap_or_default()));
        change_visibility(&self.server, &self.queue, receipts).await
    }
}

async fn delete(
    server: &Server,
    queue: &str,
    receipts: impl Iterator<Item = &str>,
) -> Result<Vec<BatchResultErrorEntry>> {
    let entry = |(id, receipt): (usize, &str)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(id.to_string()).receipt_handle(receipt);
        entry.build().expect("an entry with its id and receipt")
    };
    let entries = receipts.enumerate().map(entry).collect();
    let call = server.client().await?.delete_message_batch().queue_url(server.url(queue).await?);
    let doing = format!("deleting from queue {queue:?}");
    Ok(server.answer(&doing, TIMEOUT, call.set_entries(Some(entries)).send()).await?.failed)
}

/// Hides messages for so many seconds each; tells those for which that failed, by their place.
pub(crate) async fn change_visibility(
    server: &Server,
    queue: &str,
    receipts: impl Iterator<Item = (&str, i32)>,
) -> Result<Vec<BatchResultErrorEntry>> {
    let entry = |(id, (receipt, hidden)): (usize, (&str, i32))| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id.to_string()).receipt_handle(receipt);
        entry.visibility_timeout(hidden).build().expect("an entry with its id and receipt")
    };
    let entries = receipts.enumerate().map(entry).collect();
    let call = server.client().await?.change_message_visibility_batch().queue_url(server.url(queue).await?);
    let doing = format!("changing the visibility of messages of queue {queue:?}");
    Ok(server.answer(&doing, TIMEOUT, call.set_entries(Some(entries)).send()).await?.failed)
}

async fn pause(tries: u32) {
    let most = Duration::from_millis(100) * 2u32.pow(tries);
    sleep(most.mul_f64(fastrand::f64())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_never_shorter_in_whole_seconds() {
        assert_eq!([0, 1, 999, 1000, 1001].map(|ms| seconds(Duration::from_millis(ms))), [0, 1, 1, 1, 2]);
    }
}
