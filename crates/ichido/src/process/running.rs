//! What runs now in this process, and since when. `read` says when a pass begins and ends; the heartbeat takes the list along, so that
//! nothing is written per message. It also knows which messages were cancelled, as of the last poll: a pass about one of them is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use crate::{Delivery, MessageId, store::Running};

/// The passes that run now.
#[derive(Default)]
pub(crate) struct Passes(Mutex<Begun>);

#[derive(Default)]
struct Begun {
    next: u64,
    /// In the order in which they began.
    passes: BTreeMap<u64, Begin>,
    /// What is cancelled, or to be, as of the last poll.
    cancelled: BTreeSet<MessageId>,
}

/// The beginning of a pass.
struct Begin {
    action: Arc<str>,
    since: Instant,
    /// As much time as it has.
    time: Option<Duration>,
    messages: Vec<MessageId>,
    /// Tells that one of its messages is cancelled.
    cancelled: CancellationToken,
}

impl Begin {
    fn tell(&self, cancelled: &BTreeSet<MessageId>) {
        if self.messages.iter().any(|id| cancelled.contains(id)) {
            self.cancelled.cancel();
        }
    }
}

impl Passes {
    /// A pass of an action about these messages begins, with as much time for each; it ends when the answer is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        action: &Arc<str>,
        window: &[Delivery],
        each: Option<Duration>,
        now: Instant,
    ) -> Pass {
        let time = each.map(|each| each.saturating_mul(u32::try_from(window.len()).unwrap_or(u32::MAX)));
        let messages = window.iter().map(|delivery| delivery.message.id()).collect();
        let mut begun = self.begun();
        let number = begun.next;
        begun.next += 1;
        let pass = Begin { action: action.clone(), since: now, time, messages, cancelled: CancellationToken::new() };
        pass.tell(&begun.cancelled);
        let cancelled = pass.cancelled.clone();
        begun.passes.insert(number, pass);
        Pass { passes: self.clone(), number, cancelled }
    }

    /// What runs now, the longest first.
    pub(crate) fn list(&self, now: Instant) -> Vec<Running> {
        let begun = self.begun();
        let each = begun.passes.values().flat_map(|pass| {
            let time = now.saturating_duration_since(pass.since);
            pass.messages.iter().map(move |id| Running::new(id, time))
        });
        each.collect()
    }

    /// A message whose pass should have ended so long ago.
    pub(crate) fn overdue(&self, now: Instant, by: Duration) -> Option<MessageId> {
        let begun = self.begun();
        let mut passes = begun.passes.values();
        let overdue = passes.find(|pass| {
            pass.time.is_some_and(|time| now.saturating_duration_since(pass.since) > time.saturating_add(by))
        })?;
        overdue.messages.first().cloned()
    }

    /// These messages are cancelled, or whoever runs them is asked to drop them: as of now, these and no others.
    pub(crate) fn see_cancelled(&self, cancelled: BTreeSet<MessageId>) {
        let mut begun = self.begun();
        begun.passes.values().for_each(|pass| pass.tell(&cancelled));
        begun.cancelled = cancelled;
    }

    /// A message's cancellation has been dealt with.
    pub(crate) fn forget_cancelled(&self, id: &MessageId) {
        self.begun().cancelled.remove(id);
    }

    /// How many workers of an action are at a message.
    pub(crate) fn busy(&self, action: &str) -> usize {
        self.begun().passes.values().filter(|pass| *pass.action == *action).count()
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while a pass runs.
pub(crate) struct Pass {
    passes: Arc<Passes>,
    number: u64,
    /// Tells that one of its messages is cancelled.
    pub(crate) cancelled: CancellationToken,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.passes.begun().passes.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Message};

    #[test]
    fn what_has_run_longest_comes_first_and_what_has_ended_is_gone() {
        let delivery = |key: &str| Delivery::unclaimed(Message::new("orders", Key::new([key]), *b"{}"));
        let (passes, start) = (Arc::new(Passes::default()), Instant::now());
        let first = passes.begin(&"Ship".into(), &[delivery("1")], Some(Duration::from_secs(1)), start);
        let _second =
            passes.begin(&"Bill".into(), &[delivery("2"), delivery("3")], None, start + Duration::from_secs(1));
        let list = |passes: &Passes| {
            let list = passes.list(start + Duration::from_secs(3));
            list.into_iter().map(|running| (running.id, running.ms)).collect::<Vec<_>>()
        };
        let later = [("orders/2".to_owned(), 2000), ("orders/3".to_owned(), 2000)];
        assert_eq!(list(&passes), [&[("orders/1".to_owned(), 3000)], &later[..]].concat());
        let overdue =
            |by| passes.overdue(start + Duration::from_secs(3), Duration::from_millis(by)).map(|id| id.to_string());
        assert_eq!((overdue(1999).as_deref(), overdue(2000)), (Some("orders/1"), None));
        assert_eq!((passes.busy("Ship"), passes.busy("Bill")), (1, 1));
        drop(first);
        assert_eq!((passes.busy("Ship"), passes.busy("Bill")), (0, 1));
        assert_eq!(list(&passes), later);
    }

    #[test]
    fn a_pass_is_told_that_its_message_is_cancelled_before_or_after_it_began() {
        let delivery = |key: &str| Delivery::unclaimed(Message::new("orders", Key::new([key]), *b"{}"));
        let id = |key: &str| MessageId { queue: "orders".into(), key: Key::new([key]) };
        let passes = Arc::new(Passes::default());
        let begin = |key: &str| passes.begin(&"Ship".into(), &[delivery(key)], None, Instant::now());
        let (first, other) = (begin("1"), begin("2"));
        passes.see_cancelled([id("1"), id("3")].into());
        let late = begin("3");
        assert!(first.cancelled.is_cancelled() && late.cancelled.is_cancelled() && !other.cancelled.is_cancelled());
        passes.forget_cancelled(&id("3"));
        assert!(!begin("3").cancelled.is_cancelled() && begin("1").cancelled.is_cancelled());
    }
}
