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
        let admissions = self.shared.admissions();
        let paused = receiving.following.is_paused();
        let head = admissions.buffer.head(life);
        let now = clock.now();
        let look = EmptyLook { began: now, ended: now, number: 1 };
        Stance {
            ended: closing.is_cancelled() || receiving.following.stop.is_cancelled(),
            finished: admissions.buffer.finished,
            failed: admissions.buffer.error.is_some(),
            ready: !paused && head.is_some(),
            reads: !paused && !admissions.buffer.finished,
            held: admissions.buffer.len() + admissions.in_flight,
            sent: head.and_then(|head| head.sent),
            claims: 0,
            emptied: (admissions.settled_in && !admissions.more).then_some(look),
        }
    }

    fn look(&self, _: bool) {
        self.shared.asked.ask();
    }

    fn allow(&self, _: Share) {
        self.shared.asked.ask();
    }
}
