//! A broker's queue as a level of a lane set. A broker hands out what it has by itself, up to the prefetch: what is not at hand
//! is not there, unless as many were out as may be, and the next are still on their way.

use super::{BrokerReader, Shared};
use crate::{
    Store,
    readers::{
        lane_reader::{LevelReader, Stance},
        queue_reader::{EmptyLook, Share},
    },
};

impl<S: Store> LevelReader for BrokerReader<S> {
    fn stance(&self) -> Stance {
        let Shared { receiving, closing, life, clock, .. } = &*self.shared;
        let buffer = self.shared.buffer();
        let paused = receiving.following.is_paused();
        let suspect = !buffer.suspects.is_empty() && !life.suspect_runs();
        let now = clock.now();
        Stance {
            ended: closing.is_cancelled() || receiving.following.stop.is_cancelled(),
            finished: buffer.finished,
            failed: buffer.error.is_some(),
            ready: !paused && (suspect || !buffer.ready.is_empty()),
            reads: !paused && !buffer.finished,
            held: buffer.ready.len() + buffer.suspects.len() + buffer.in_flight,
            sent: buffer.suspects.front().filter(|_| suspect).or(buffer.ready.front()).and_then(|head| head.sent),
            claims: 0,
            emptied: (buffer.settled_in && !buffer.more).then_some(EmptyLook { began: now, ended: now, number: 1 }),
        }
    }

    fn look(&self, _: bool) {
        self.shared.ask();
    }

    fn allow(&self, _: Share) {
        self.shared.ask();
    }
}
