//! Loads with a known answer: messages that arrive by lot and are served by so many slots, event by event, and counted minute by
//! minute as a process would count them. What is advised must be what the lot was drawn from, and must help.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::{Backlog, Histogram, Load, Stat, StatRow, Tally, WINDOW, advise, loads, slots_for};
use crate::store::ProcessId;

/// Messages that arrive and are served one after another by the next free slot.
struct Scene {
    per_second: f64,
    service: f64,
    slots: u32,
    seed: u64,
}

fn drawn(lot: &mut fastrand::Rng, mean: f64) -> f64 {
    -(1.0 - lot.f64()).ln() * mean
}

fn seconds(time: f64) -> Duration {
    Duration::from_secs_f64(time.max(0.0))
}

impl Scene {
    /// When each message was sent, when it started and when it ended.
    fn messages(&self, until: f64) -> Vec<(f64, f64, f64)> {
        let mut lot = fastrand::Rng::with_seed(self.seed);
        let nanos = |time: f64| u64::try_from(seconds(time).as_nanos()).unwrap();
        let mut free: BinaryHeap<_> = (0..self.slots).map(|_| Reverse(0)).collect();
        let (mut sent, mut messages) = (0.0, Vec::new());
        loop {
            sent += drawn(&mut lot, 1.0 / self.per_second);
            if sent > until {
                return messages;
            }
            let Reverse(slot) = free.pop().unwrap();
            let started = sent.max(Duration::from_nanos(slot).as_secs_f64());
            let ended = started + drawn(&mut lot, self.service);
            free.push(Reverse(nanos(ended)));
            messages.push((sent, started, ended));
        }
    }

    /// What `status` would see after this time, with rows written minute by minute.
    fn load(&self, until: f64) -> Load {
        let (me, messages) = (ProcessId::random(), self.messages(until));
        let (mut rows, mut minute) = (Vec::new(), 0.0);
        while minute < until {
            let within = |time: f64| minute <= time && time < (minute + 60.0).min(until);
            let mut tally = Tally::default();
            for (sent, started, ended) in &messages {
                if within(*started) {
                    tally.started += 1;
                    tally.waiting.add(seconds(started - sent));
                }
                if within(*ended) {
                    tally.done += 1;
                    tally.busy += seconds(ended - started);
                }
            }
            let stat = Stat { queue: "orders".into(), lane: None, slots: self.slots, tally };
            rows.push(StatRow { process: me, minute: 0, age: seconds(until - minute), stat });
            minute += 60.0;
        }
        rows.retain(|row| row.age <= WINDOW);
        let waiting: Vec<_> = messages.iter().filter(|(_, started, _)| *started >= until).collect();
        let recent = waiting.iter().filter(|(sent, ..)| *sent >= until - WINDOW.as_secs_f64()).count();
        let backlog = Backlog {
            claimed: 0,
            ready: waiting.len() as u64,
            recent: Some(recent as u64),
            oldest: waiting.first().map(|(sent, ..)| seconds(until - sent)),
            unpublished: None,
        };
        loads(&rows, &[("orders".into(), backlog)], &[(me, seconds(until))].into(), WINDOW).remove(0)
    }

    fn p95(&self) -> Duration {
        let mut waits = Histogram::default();
        self.messages(3600.0).iter().for_each(|(sent, started, _)| waits.add(seconds(started - sent)));
        waits.quantile(950).unwrap()
    }
}

#[track_caller]
fn close(found: f64, known: f64, part: f64) {
    assert!((found - known).abs() <= known * part, "{found} is not {known}");
}

#[test]
fn an_overload_is_measured_as_it_is_and_the_advice_ends_it() {
    for seed in 1..=10 {
        let scene = Scene { per_second: 10.0, service: 0.5, slots: 4, seed };
        let load = scene.load(900.0);
        close(load.arrivals().unwrap(), 10.0, 0.08);
        close(load.capacity().unwrap(), 8.0, 0.08);
        close(load.share().unwrap(), 1.0, 0.03);
        let [advice] = &advise(&[load])[..] else { panic!("one advice") };
        assert_eq!(advice.more_slots, Some(2), "five slots' worth of work arrives: {}", advice.text);
        let helped = Scene { slots: 6, ..scene }.load(900.0);
        assert_eq!(advise(std::slice::from_ref(&helped)), [], "with six slots");
        assert!(helped.backlog.ready < 100, "{:?}", helped.backlog);
    }
}

#[test]
fn arrivals_are_known_also_when_what_starts_was_sent_long_ago() {
    // After half an hour, what starts has waited for longer than the window: nothing of it has arrived in it.
    let load = Scene { per_second: 10.0, service: 0.5, slots: 4, seed: 3 }.load(1800.0);
    assert!(load.backlog.oldest.unwrap() > WINDOW);
    close(load.arrivals().unwrap(), 10.0, 0.08);
    assert!(load.tally.waiting.quantile(500).unwrap() > WINDOW);
}

#[test]
fn a_missed_target_is_met_with_the_advised_slots_and_not_with_one_less() {
    let (service, target) = (Duration::from_millis(500), Duration::from_millis(100));
    let few = Scene { per_second: 10.0, service: 0.5, slots: 6, seed: 5 };
    let load = Load { target: Some(target), ..few.load(900.0) };
    let [advice] = &advise(&[load])[..] else { panic!("one advice") };
    let enough = slots_for(5.0, service, target).unwrap();
    assert_eq!(advice.more_slots, Some(enough - 6), "{}", advice.text);
    assert!(Scene { slots: enough, ..few }.p95() <= target);
    assert!(Scene { slots: enough - 1, ..few }.p95() > target);
}
