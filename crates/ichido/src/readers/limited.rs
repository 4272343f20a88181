//! A reader that ends after so many messages, for `ichido run --max-messages`. It stands before the pool's own reader; what
//! that one has claimed beyond is released when the process deregisters.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::{
    BoxFuture, Delivery,
    error::Result,
    message::Mark,
    readers::{DynReader, Turn},
};

/// How many messages may still be handed out, in all pools of the process.
pub(crate) struct Allowance {
    left: Mutex<u64>,
    used_up: Notify,
}

impl Allowance {
    pub(crate) fn new(messages: u64) -> Arc<Self> {
        Arc::new(Allowance { left: Mutex::new(messages), used_up: Notify::new() })
    }

    fn left(&self) -> MutexGuard<'_, u64> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader within an allowance.
pub(crate) struct Limited {
    pub(crate) inner: Arc<dyn DynReader>,
    pub(crate) allowance: Arc<Allowance>,
}

impl DynReader for Limited {
    fn try_next(&self) -> Result<Turn> {
        let mut left = self.allowance.left();
        if *left == 0 {
            return Ok(Turn::Finished);
        }
        let turn = self.inner.try_next()?;
        if matches!(turn, Turn::Delivery(_)) {
            *left -= 1;
            if *left == 0 {
                self.allowance.used_up.notify_waiters();
            }
        }
        Ok(turn)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut used_up = std::pin::pin!(self.allowance.used_up.notified());
            used_up.as_mut().enable();
            if *self.allowance.left() == 0 {
                return;
            }
            tokio::select! {
                () = self.inner.changed() => {}
                () = used_up => {}
            }
        })
    }

    /// A message that was not run to an end has not used the allowance; its worker comes back for another one.
    fn settle(&self, delivery: Delivery) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let ran = matches!(delivery.mark, Some(Mark::Done | Mark::Parked));
            let settled = self.inner.settle(delivery).await;
            if !ran {
                *self.allowance.left() += 1;
            }
            settled
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }
}
