//! A queue's reader as a level of a lane set: how it stands, how much it may claim, and a look into the queue when the set
//! needs to know before something lower starts.

use super::{Claims, Delivery, QueueReader, Share, Shared};
use crate::{
    Store,
    readers::lane_reader::{LevelReader, Stance},
};

impl Claims {
    /// Another claim begins: its number.
    pub(super) fn next_claim(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Takes out what is at hand beyond the share, the last first. The rest of the queue is not known to be empty then.
    pub(super) fn take_surplus(&mut self) -> Vec<Delivery> {
        let ready = &mut self.buffer.ready;
        let keep = self.share.ready.min(ready.len());
        let surplus: Vec<_> = ready.drain(keep..).collect();
        if !surplus.is_empty() {
            self.emptied = None;
        }
        surplus
    }
}

impl<S: Store> LevelReader for QueueReader<S> {
    fn stance(&self) -> Stance {
        let Shared { reading, closing, life, .. } = &*self.shared;
        let claims = self.shared.claims();
        let head = claims.buffer.head(life);
        let (ended, paused) =
            (closing.is_cancelled() || reading.following.stop.is_cancelled(), reading.following.is_paused());
        Stance {
            ended,
            finished: claims.buffer.finished,
            failed: claims.buffer.error.is_some(),
            ready: !paused && head.is_some(),
            reads: !paused && !claims.buffer.finished,
            held: claims.counted(),
            sent: head.and_then(|head| head.sent),
            claims: claims.begun,
            emptied: claims.emptied,
        }
    }

    fn look(&self, again: bool) {
        let asked = std::mem::replace(&mut self.shared.claims().awaited, true);
        if again && !asked {
            self.shared.wake.notify_one();
        }
    }

    fn allow(&self, share: Share) {
        self.shared.asked.ask();
        let mut claims = self.shared.claims();
        let before = std::mem::replace(&mut claims.share, share);
        let surplus = claims.buffer.ready.len() > share.ready;
        drop(claims);
        if surplus {
            self.shared.wake.notify_one();
        }
        if surplus || share.claimed > before.claimed {
            self.shared.room.notify_one();
        }
    }
}
