//! Where deliveries come from. A [`Reader`] hands out deliveries and settles them; the `read` handler is its only caller. [`QueueReader`]
//! reads a store's queue, another one a broker's, `lanes` decides between several; users write their own for anything else. It is
//! not a stream: a waiting `next()` that is dropped would lose a claim. Readers call the store's verbs and the seam for brokers.

pub(crate) mod broker_reader;
mod buffer;
pub(crate) mod lane_reader;
pub mod lanes;
pub(crate) mod limited;
pub(crate) mod queue_reader;

pub use self::queue_reader::QueueReader;

use crate::{BoxFuture, Delivery, error::Result};

/// What a reader has for a worker.
#[derive(Debug)]
pub enum Turn {
    /// This delivery.
    Delivery(Box<Delivery>),
    /// Nothing now; wait for [`Reader::changed`].
    Empty,
    /// Nothing, and nothing will come: the worker ends.
    Finished,
}

/// Hands out deliveries, shared by all workers of a pool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reader",
    note = "a reader has `try_next`, `changed`, `settle` and `close`"
)]
pub trait Reader: Send + Sync + 'static {
    /// The next delivery, if one is available. Never waits.
    ///
    /// # Errors
    /// What kept the reader from reading; the process's retry handler decides what follows.
    fn try_next(&self) -> crate::Result<Turn>;

    /// Resolves when `try_next` may find something again. It is dropped when the process stops.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Takes a delivery back with its mark: acknowledges what is done, releases what has no mark.
    fn settle(&self, delivery: Delivery) -> impl Future<Output = crate::Result<()>> + Send;

    /// Nothing is read afterwards. Releases what is claimed and not begun, unless somebody else does it right after.
    fn close(&self) -> impl Future<Output = crate::Result<()>> + Send;
}

/// The boxed twin of [`Reader`]; implemented for every reader, never by hand.
pub(crate) trait DynReader: Send + Sync {
    fn try_next(&self) -> Result<Turn>;
    fn changed(&self) -> BoxFuture<'_, ()>;
    fn settle(&self, delivery: Delivery) -> BoxFuture<'_, Result<()>>;
    fn close(&self) -> BoxFuture<'_, Result<()>>;
}

impl<R: Reader> DynReader for R {
    fn try_next(&self) -> Result<Turn> {
        Ok(Reader::try_next(self)?)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(Reader::changed(self))
    }

    fn settle(&self, delivery: Delivery) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { Ok(Reader::settle(self, delivery).await?) })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { Ok(Reader::close(self).await?) })
    }
}
