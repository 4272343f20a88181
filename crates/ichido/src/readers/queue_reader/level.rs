//! A queue's reader as a level of a lane set: how it stands, how much it may claim, and a look into the queue when the set
//! needs to know before something lower starts.

use super::{Buffer, Delivery, QueueReader, Share, Shared};
use crate::{
    Store,
    readers::lane_reader::{LevelReader, Stance},
};

impl Buffer {
    /// Another claim begins: its number.
    pub(super) fn next_claim(&mut self) -> u64 {
        self.claims += 1;
        self.claims
    }

    /// Takes out what is at hand beyond the share, the last first. The rest of the queue is not known to be empty then.
    pub(super) fn take_surplus(&mut self) -> Vec<Delivery> {
        let keep = self.share.ready.min(self.ready.len());
        let surplus: Vec<_> = self.ready.drain(keep..).collect();
        if !surplus.is_empty() {
            self.emptied = None;
        }
        surplus
    }
}

impl<S: Store> Shared<S> {
    /// The delivery that would be taken now.
    fn head<'a>(&self, buffer: &'a Buffer) -> Option<&'a Delivery> {
        let suspect = buffer.suspects.front().filter(|_| !self.life.suspect_runs());
        suspect.or(buffer.ready.front())
    }
}

impl<S: Store> LevelReader for QueueReader<S> {
    fn stance(&self) -> Stance {
        let Shared { reading, closing, .. } = &*self.shared;
        let buffer = self.shared.buffer();
        let (ended, paused) =
            (closing.is_cancelled() || reading.following.stop.is_cancelled(), reading.following.is_paused());
        Stance {
            ended,
            finished: buffer.finished,
            failed: buffer.error.is_some(),
            ready: !paused && self.shared.head(&buffer).is_some(),
            reads: !paused && !buffer.finished,
            held: buffer.claimed(),
            sent: self.shared.head(&buffer).and_then(|head| head.sent),
            claims: buffer.claims,
            emptied: buffer.emptied,
        }
    }

    fn look(&self, again: bool) {
        let asked = std::mem::replace(&mut self.shared.buffer().awaited, true);
        if again && !asked {
            self.shared.wake.notify_one();
        }
    }

    fn allow(&self, share: Share) {
        self.shared.ask();
        let mut buffer = self.shared.buffer();
        let before = std::mem::replace(&mut buffer.share, share);
        let surplus = buffer.ready.len() > share.ready;
        drop(buffer);
        if surplus {
            self.shared.wake.notify_one();
        }
        if surplus || share.claimed > before.claimed {
            self.shared.room.notify_one();
        }
    }
}
