//! A reading of dead letters, whatever broker keeps them: `rabbitmq` and `sqs` say how theirs are read; here each of a page gets its number, by
//! which the doctor deletes it.

use ichido::{
    BoxFuture,
    broker::{DeadLetter, Received},
};

use super::{
    Opened, Reading,
    failing::{FailsAtBroker, failure},
};
use crate::failure::Failure;

/// The reading of a broker's crate.
pub(super) trait ReadsDeadLetters: Send + 'static {
    type Delivery: Send + Sync;
    type Error: FailsAtBroker;

    /// The next of them, at most so many; none at the end.
    fn page(&mut self, most: usize) -> impl Future<Output = Result<Vec<Self::Delivery>, Self::Error>> + Send;

    /// What a delivery says.
    fn dead_letter(delivery: &Self::Delivery) -> DeadLetter;

    /// Deletes it; false if that is not certain.
    fn delete(&mut self, delivery: &Self::Delivery) -> impl Future<Output = bool> + Send;

    /// Releases the others.
    fn close(self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What came of an attempt to read those of the queue with this key.
pub(super) fn opened<R: ReadsDeadLetters>(key: String, reading: Result<R, R::Error>) -> Result<Opened, Failure> {
    match reading {
        Ok(reading) => Ok(Opened::Reading(Box::new(DeadLetters { key, reading, page: Vec::new() }))),
        Err(error) if error.is_busy() => Ok(Opened::Busy(error.to_string())),
        Err(error) => Err(failure(&key, &error)),
    }
}

struct DeadLetters<R: ReadsDeadLetters> {
    /// The queue's, in the configuration.
    key: String,
    reading: R,
    /// The last page; a tag is a place in it.
    page: Vec<R::Delivery>,
}

impl<R: ReadsDeadLetters> Reading for DeadLetters<R> {
    fn page(&mut self, most: usize) -> BoxFuture<'_, Result<Vec<DeadLetter>, Failure>> {
        Box::pin(async move {
            self.page = self.reading.page(most).await.map_err(|error| failure(&self.key, &error))?;
            let numbered = |(tag, delivery)| {
                let told = R::dead_letter(delivery);
                DeadLetter { received: Received { tag, ..told.received }, ..told }
            };
            Ok((0..).zip(&self.page).map(numbered).collect())
        })
    }

    fn delete(&mut self, tag: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            match usize::try_from(tag).ok().and_then(|at| self.page.get(at)) {
                Some(delivery) => self.reading.delete(delivery).await,
                None => false,
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move { self.reading.close().await.map_err(|error| failure(&self.key, &error)) })
    }
}
