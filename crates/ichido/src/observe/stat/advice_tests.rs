use std::time::Duration;

use super::{Backlog, Lane, Load, Tally, advice::spell, advise};

const SPAN: Duration = Duration::from_mins(5);
const SECOND: Duration = Duration::from_secs(1);

/// A queue that had so many slots, and whose messages took so long.
fn load(queue: &str, slots: u32, arrived: u64, done: u64, took: Duration) -> Load {
    let busy = took * u32::try_from(done).unwrap();
    let mut tally = Tally { started: done, done, busy, ..Tally::default() };
    (0..done).for_each(|_| tally.waiting.add(Duration::from_millis(100)));
    Load {
        queue: queue.into(),
        lane: None,
        span: SPAN,
        slots,
        tally,
        arrived: Some(arrived),
        arrived_in: SPAN,
        backlog: Backlog {
            ready: arrived.saturating_sub(done),
            claimed: 0,
            recent: Some(0),
            oldest: Some(SECOND),
            unpublished: None,
        },
        own_slots: false,
        target: None,
    }
}

fn level(level: &str, rank: u16, load: Load) -> Load {
    Load { lane: Some(Lane { lanes: "mail".into(), level: level.into(), rank }), ..load }
}

fn waits(mut load: Load, waits: &[(u64, Duration)]) -> Load {
    load.tally.waiting = super::Histogram::default();
    for (count, wait) in waits {
        (0..*count).for_each(|_| load.tally.waiting.add(*wait));
    }
    load
}

#[track_caller]
fn texts(loads: &[Load], expected: &[&str]) {
    let found: Vec<_> = advise(loads).into_iter().map(|advice| advice.text).collect();
    assert_eq!(found, expected);
}

#[test]
fn slots_that_cannot_do_what_arrives_are_told_with_how_many_would() {
    let service = Duration::from_secs_f64(4.0 / 8.3);
    let free = load("free", 4, 12 * 300, 2490, service);
    texts(&[free], &["free: 12.0/s arrive, 4 slots can handle 8.3/s: give it 2 more slots (6 would be 96 % busy)"]);
    let one = load("one", 1, 300, 270, SECOND);
    texts(&[one], &["one: 1.0/s arrive, 1 slot can handle 1.0/s: give it 1 more slot (2 would be 50 % busy)"]);
}

#[test]
fn repeated_runs_need_slots_too() {
    let mut free = load("free", 4, 7 * 300, 2100, Duration::from_millis(500));
    texts(std::slice::from_ref(&free), &[]);
    free.tally.retried = 600;
    free.tally.busy += SECOND * 300;
    let expected = "free: 7.0/s arrive and 2.0/s are retried, 4 slots can handle 8.0/s: give it 1 more slot (5 would be 90 % busy)";
    texts(&[free], &[expected]);
}

#[test]
fn what_runs_well_needs_no_advice() {
    texts(&[load("orders", 4, 2000, 2000, Duration::from_millis(400)), load("idle", 4, 0, 0, SECOND)], &[]);
}

#[test]
fn what_waits_and_is_run_by_nobody_is_told() {
    let mut orders = load("orders", 0, 300, 0, SECOND);
    texts(
        std::slice::from_ref(&orders),
        &["orders: 300 wait, and no live process has run any of them in the last 5 min"],
    );
    orders.backlog.ready = 100_000;
    let more = ["orders: more than 100000 wait, and no live process has run any of them in the last 5 min"];
    texts(std::slice::from_ref(&orders), &more);
    orders.backlog.claimed = 1;
    texts(&[orders], &[]); // somebody runs them, and has not told yet
}

#[test]
fn free_slots_beside_a_growing_backlog_are_not_to_be_multiplied() {
    let mut orders = load("orders", 4, 3000, 1200, Duration::from_millis(100));
    orders.backlog.oldest = Some(SPAN * 2);
    let [advice] = &advise(&[orders])[..] else { panic!("one advice") };
    assert!(advice.text.starts_with("orders: 1800 wait although its slots are only 10 % busy"), "{}", advice.text);
    assert_eq!(advice.more_slots, None);
}

#[test]
fn without_sent_times_a_busy_queue_is_told_without_inventing_arrivals() {
    let mut orders = load("orders", 4, 0, 2390, Duration::from_millis(500));
    orders.arrived = None;
    texts(std::slice::from_ref(&orders), &[]);
    orders.backlog.ready = 4800;
    let [advice] = &advise(&[orders])[..] else { panic!("one advice") };
    let expected =
        "orders: 4 slots are 100 % busy and handle 8.0/s; 4800 wait, which takes 10 min if nothing more arrives";
    assert!(advice.text.starts_with(expected), "{}", advice.text);
}

#[test]
fn a_queue_that_misses_its_target_is_told_how_many_slots_meet_it() {
    let mut orders = load("orders", 3, 600, 600, SECOND); // two slots are busy on average
    orders.target = Some(SECOND);
    texts(&[waits(orders.clone(), &[(90, SECOND / 2), (10, SECOND)])], &[]);
    let slow = waits(orders.clone(), &[(90, SECOND), (10, Duration::from_millis(3200))]);
    texts(&[slow], &["orders waits p95 3.3 s, target 1.0 s: give it 1 more slot (4 in all)"]);
    orders.slots = 8;
    let bursts = waits(orders, &[(90, SECOND), (10, Duration::from_millis(3200))]);
    let expected = "orders waits p95 3.3 s, target 1.0 s, although 8 slots are enough for 2.0/s on average: messages arrive in bursts; 0 wait now";
    texts(&[bursts], &[expected]);
}

#[test]
fn a_level_that_misses_its_target_gets_slots_of_its_own() {
    let free = level("free", 1, load("f", 8, 1500, 1500, SECOND));
    let mut member = level("member", 0, load("m", 8, 60, 60, SECOND / 2));
    member.target = Some(SECOND);
    let member = waits(member, &[(50, SECOND), (10, Duration::from_millis(3200))]);
    texts(&[free, member], &["member waits p95 3.3 s, target 1.0 s: reserve 1 slot"]);
}

#[test]
fn a_level_that_needs_all_slots_needs_more_of_them() {
    let mut member = level("member", 0, load("m", 2, 570, 570, SECOND));
    member.target = Some(SECOND);
    let member = waits(member, &[(500, SECOND), (70, 4 * SECOND)]);
    let expected =
        "member waits p95 4.1 s, target 1.0 s: 2 slots are not enough even for it alone; give its action 3 more slots";
    texts(&[member], &[expected]);
}

#[test]
fn levels_of_a_lane_set_share_their_slots() {
    let member = level("member", 0, load("m", 4, 600, 600, SECOND));
    let free = level("free", 1, load("f", 4, 1200, 600, SECOND));
    let expected = "mail: 6.0/s arrive, 4 slots can handle 4.0/s: give it 3 more slots (7 would be 86 % busy)";
    texts(&[member, free], &[expected]);
}

#[test]
fn levels_with_slots_of_their_own_are_looked_at_one_by_one() {
    let member = level("member", 0, load("m", 10, 600, 600, SECOND));
    let free = level("free", 1, load("f", 2, 1200, 600, SECOND));
    let own = |load: Load| Load { own_slots: true, ..load };
    let expected = "free: 4.0/s arrive, 2 slots can handle 2.0/s: give it 3 more slots (5 would be 80 % busy)";
    texts(&[own(member), own(free)], &[expected]);
}

#[test]
fn a_level_that_is_overtaken_is_told_with_the_one_that_does() {
    let mut member = waits(level("member", 0, load("m", 8, 400, 400, SECOND)), &[(400, Duration::from_millis(3200))]);
    let free = waits(level("free", 1, load("f", 8, 400, 400, SECOND)), &[(400, Duration::from_millis(400))]);
    texts(&[member.clone(), free.clone()], &[]);
    member.tally.overtaken = 120;
    let [advice] = &advise(&[free, member])[..] else { panic!("one advice") };
    let expected = "free overtakes member: 120 of 400 (30 %) started after a lower one that was sent later; they wait p95 3.3 s against 410 ms";
    assert!(advice.text.starts_with(expected), "{}", advice.text);
}

#[test]
fn times_are_spelled_with_about_two_digits() {
    let spelled = [50, 9_949, 12_000, 940_000, 950_000, 9_949_000, 42_000_000, 600_000_000, 9_000_000_000];
    let spelled = spelled.map(|micros| spell(Duration::from_micros(micros)));
    assert_eq!(spelled, ["0.1 ms", "9.9 ms", "12 ms", "940 ms", "0.9 s", "9.9 s", "42 s", "10 min", "2.5 h"]);
}
