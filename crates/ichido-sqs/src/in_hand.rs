//! What was received and is not settled: until when each delivery is out of sight of others, and which of a group may run. SQS hands out several
//! messages of a group at once; they run one after the other, and when one of them comes back, so do those behind it. The subscription
//! fills it, the renewal asks it what is due.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::Delivery;

/// SQS hides a message for twelve hours at most, from when it was received; we stop a while before.
const LONGEST: Duration = Duration::from_mins(12 * 60 - 1);

/// Deliveries by their numbers.
#[derive(Debug, Default)]
pub(crate) struct InHand {
    last: u64,
    /// Those that nobody has taken and that may run.
    ready: VecDeque<u64>,
    out: BTreeMap<u64, Held>,
    /// The deliveries of each group in their order: only the first one runs.
    groups: HashMap<String, VecDeque<u64>>,
}

#[derive(Debug)]
struct Held {
    delivery: Arc<Delivery>,
    since: Instant,
    renewed: Instant,
    /// Out of sight until then.
    until: Instant,
    /// It is about to be deleted.
    settling: bool,
}

impl InHand {
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// One more, which is out of sight for so long from now on.
    pub(crate) fn put(&mut self, delivery: Delivery, now: Instant, visibility: Duration) {
        self.last += 1;
        let (tag, group) = (self.last, delivery.group.clone());
        let held =
            Held { delivery: Arc::new(delivery), since: now, renewed: now, until: now + visibility, settling: false };
        self.out.insert(tag, held);
        match group {
            None => self.ready.push_back(tag),
            Some(group) => {
                let line = self.groups.entry(group).or_default();
                line.push_back(tag);
                if line.len() == 1 {
                    self.ready.push_back(tag);
                }
            }
        }
    }

    /// The next that may run.
    pub(crate) fn next(&mut self) -> Option<(u64, Arc<Delivery>)> {
        let tag = self.ready.pop_front()?;
        Some((tag, self.out.get(&tag)?.delivery.clone()))
    }

    pub(crate) fn find(&self, tag: u64) -> Option<Arc<Delivery>> {
        Some(self.out.get(&tag)?.delivery.clone())
    }

    /// Is it still out of sight of others?
    pub(crate) fn is_current(&self, tag: u64, now: Instant) -> bool {
        self.out.get(&tag).is_some_and(|held| now < held.until)
    }

    /// How much longer it can be kept out of sight at all.
    pub(crate) fn room(&self, tag: u64, now: Instant) -> Duration {
        self.out.get(&tag).map_or(Duration::ZERO, |held| (held.since + LONGEST).saturating_duration_since(now))
    }

    /// It is about to be deleted, for its effects are committed: the next of its group may run. Also tells whether there are others that are
    /// not about to be settled yet.
    pub(crate) fn settles(&mut self, tag: u64) -> Option<(Arc<Delivery>, bool)> {
        let held = self.out.get_mut(&tag)?;
        held.settling = true;
        let delivery = held.delivery.clone();
        self.leave_group(tag, delivery.group.as_deref());
        Some((delivery, self.out.values().any(|held| !held.settling)))
    }

    /// It is settled.
    pub(crate) fn finished(&mut self, tag: u64) {
        if let Some(held) = self.out.remove(&tag) {
            self.leave_group(tag, held.delivery.group.as_deref());
        }
    }

    fn leave_group(&mut self, tag: u64, group: Option<&str>) {
        let Some((group, line)) = group.and_then(|group| Some((group, self.groups.get_mut(group)?))) else { return };
        let first = line.front() == Some(&tag);
        line.retain(|other| *other != tag);
        match line.front() {
            None => drop(self.groups.remove(group)),
            Some(next) if first => self.ready.push_back(*next),
            Some(_) => {}
        }
    }

    /// It comes again, later: those behind it in its group must not overtake it. They are not in hand any more, and are given back.
    pub(crate) fn comes_again(&mut self, tag: u64) -> Vec<Arc<Delivery>> {
        let Some(held) = self.out.remove(&tag) else { return Vec::new() };
        self.ready.retain(|ready| *ready != tag);
        let Some(line) = held.delivery.group.as_ref().and_then(|group| self.groups.get_mut(group)) else {
            return Vec::new();
        };
        let Some(at) = line.iter().position(|other| *other == tag) else { return Vec::new() };
        let mut behind = line.split_off(at);
        behind.pop_front();
        if line.is_empty() {
            self.groups.remove(held.delivery.group.as_deref().unwrap_or_default());
        }
        behind.iter().filter_map(|tag| Some(self.out.remove(tag)?.delivery)).collect()
    }

    /// Everything that nobody has taken; it is not in hand any more.
    pub(crate) fn take_untaken(&mut self) -> Vec<Arc<Delivery>> {
        let mut untaken: Vec<u64> = self.ready.drain(..).collect();
        untaken.extend(self.groups.values_mut().flat_map(|line| line.split_off(1.min(line.len()))));
        let taken = |tag: &u64| !untaken.contains(tag);
        self.groups.retain(|_, line| {
            line.retain(taken);
            !line.is_empty()
        });
        untaken.sort_unstable();
        untaken.dedup();
        untaken.iter().filter_map(|tag| Some(self.out.remove(tag)?.delivery)).collect()
    }

    /// What must be renewed now to stay out of sight, and for how long: not longer than SQS can.
    pub(crate) fn due(&self, now: Instant, visibility: Duration) -> Vec<(u64, String, Duration)> {
        let due = |(tag, held): (&u64, &Held)| {
            let room = (held.since + LONGEST).saturating_duration_since(now);
            let worth = now + room > held.until;
            let asked = now >= held.renewed + visibility / 3 && now < held.until && worth;
            asked.then(|| (*tag, held.delivery.receipt.clone(), visibility.min(room)))
        };
        self.out.iter().filter_map(due).collect()
    }

    pub(crate) fn renewed(&mut self, tag: u64, now: Instant, visibility: Duration) {
        if let Some(held) = self.out.get_mut(&tag) {
            (held.renewed, held.until) = (now, now + visibility);
        }
    }

    /// Those that others may see by now.
    pub(crate) fn expired(&self, now: Instant) -> Vec<u64> {
        self.out.iter().filter(|(_, held)| now >= held.until).map(|(tag, _)| *tag).collect()
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};

    use super::*;

    const VISIBILITY: Duration = Duration::from_mins(1);

    fn delivery(id: &str, group: Option<&str>) -> Delivery {
        let message = Message::builder().message_id(id).receipt_handle(id);
        let message = match group {
            Some(group) => message.attributes(MessageSystemAttributeName::MessageGroupId, group),
            None => message,
        };
        Delivery::new(message.build()).expect("a receipt")
    }

    fn with(deliveries: &[(&str, Option<&str>)]) -> (InHand, Instant) {
        let (mut in_hand, now) = (InHand::default(), Instant::now());
        for (id, group) in deliveries {
            in_hand.put(delivery(id, *group), now, VISIBILITY);
        }
        (in_hand, now)
    }

    fn next(in_hand: &mut InHand) -> Option<(u64, String)> {
        in_hand.next().map(|(tag, delivery)| (tag, delivery.message_id.clone()))
    }

    #[test]
    fn a_group_runs_one_at_a_time_and_others_go_on() {
        let (mut in_hand, _) = with(&[("a1", Some("a")), ("a2", Some("a")), ("b1", Some("b")), ("x", None)]);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut in_hand)).collect();
        assert_eq!(order, [(1, "a1".to_owned()), (3, "b1".to_owned()), (4, "x".to_owned())]);
        in_hand.finished(1);
        assert_eq!(next(&mut in_hand), Some((2, "a2".to_owned())));
    }

    #[test]
    fn the_next_of_a_group_does_not_wait_for_a_delete() {
        let (mut in_hand, _) = with(&[("a1", Some("a")), ("a2", Some("a"))]);
        assert_eq!(next(&mut in_hand), Some((1, "a1".to_owned())));
        assert!(in_hand.settles(1).is_some_and(|(_, others)| others));
        assert_eq!((next(&mut in_hand), in_hand.len()), (Some((2, "a2".to_owned())), 2));
        assert!(in_hand.settles(2).is_some_and(|(_, others)| !others), "both are about to be deleted");
        in_hand.finished(1);
        in_hand.finished(2);
        assert_eq!((next(&mut in_hand), in_hand.len()), (None, 0));
    }

    #[test]
    fn what_is_behind_a_message_that_comes_again_comes_again_too() {
        let (mut in_hand, _) = with(&[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a")), ("b1", Some("b"))]);
        assert_eq!(next(&mut in_hand), Some((1, "a1".to_owned())));
        let behind: Vec<_> = in_hand.comes_again(1).iter().map(|delivery| delivery.message_id.clone()).collect();
        assert_eq!(behind, ["a2", "a3"]);
        assert_eq!((in_hand.len(), next(&mut in_hand)), (1, Some((4, "b1".to_owned()))));
    }

    #[test]
    fn what_nobody_has_taken_is_given_back_at_the_end() {
        let (mut in_hand, _) = with(&[("a1", Some("a")), ("a2", Some("a")), ("b1", Some("b")), ("x", None)]);
        next(&mut in_hand);
        assert_eq!((in_hand.take_untaken().len(), in_hand.len()), (3, 1));
        in_hand.finished(1);
        assert_eq!(next(&mut in_hand), None);
    }

    #[test]
    fn a_delivery_is_renewed_until_sqs_hides_it_no_longer() {
        let (mut in_hand, start) = with(&[("x", None)]);
        assert!(in_hand.due(start, VISIBILITY).is_empty(), "just received");
        let mut now = start;
        let mut renewals = 0;
        loop {
            now += VISIBILITY / 3;
            let due = in_hand.due(now, VISIBILITY);
            let Some((tag, _, hidden)) = due.first() else { break };
            assert!(now + *hidden <= start + LONGEST);
            in_hand.renewed(*tag, now, *hidden);
            renewals += 1;
        }
        assert!(renewals > 2000, "{renewals} in almost twelve hours");
        assert!(in_hand.is_current(1, (start + LONGEST).checked_sub(Duration::from_secs(1)).unwrap()));
        assert_eq!(in_hand.expired(start + LONGEST), [1]);
    }
}
