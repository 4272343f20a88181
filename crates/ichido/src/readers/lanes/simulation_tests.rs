//! Predictions whose answer is known: from queueing theory, to within what the number of messages allows at a fixed seed, and from the
//! bounds that the policies state.

use std::time::Duration;

use super::{Forecast, LaneSet, Level, Load, Policy, Simulation, Spread, Start};

const HOUR: Duration = Duration::from_hours(1);

fn load(per_second: f64, service_ms: u64, spread: Spread) -> Load {
    Load { per_second, service: Duration::from_millis(service_ms), spread, backlog: 0 }
}

fn set(policy: Policy) -> LaneSet {
    LaneSet::new("lanes", policy).level(Level::new("member", "m").weight(4)).level(Level::new("free", "f"))
}

fn simulation(policy: Policy, slots: usize, loads: [Load; 2], duration: Duration) -> Simulation {
    Simulation { set: set(policy), slots, loads: loads.into(), duration, seed: 7 }
}

/// The mean wait of both levels, in seconds.
fn waits(policy: Policy, slots: usize, loads: [Load; 2]) -> [f64; 2] {
    let forecast = simulation(policy, slots, loads, HOUR * 30).run().unwrap();
    [0, 1].map(|level| forecast.levels[level].mean.as_secs_f64())
}

/// Within one part of thirty: with half a million messages, five times what chance makes of it.
#[track_caller]
fn about(found: f64, expected: f64) {
    assert!((found - expected).abs() < expected / 30.0, "expected about {expected}, found {found}");
}

const NOTHING: Load = Load { per_second: 0.0, service: Duration::ZERO, spread: Spread::Fixed, backlog: 0 };

#[test]
fn one_slot_waits_as_pollaczek_and_khinchine_say() {
    // Five messages a second, each a tenth of a second: the slot is busy for half of the time.
    let (rate, service, busy) = (5.0, 0.1, 0.5);
    let exponential = waits(Policy::Strict, 1, [load(rate, 100, Spread::Exponential), NOTHING]);
    about(exponential[0], busy * service / (1.0 - busy));
    let fixed = waits(Policy::Strict, 1, [load(rate, 100, Spread::Fixed), NOTHING]);
    about(fixed[0], busy * service / (2.0 * (1.0 - busy)));
}

#[test]
fn four_slots_wait_as_erlang_says() {
    let offered: f64 = 2.4;
    let terms = [1.0, offered, offered.powi(2) / 2.0, offered.powi(3) / 6.0];
    let all_busy = offered.powi(4) / 24.0 * 4.0 / (4.0 - offered);
    let must_wait = all_busy / (terms.iter().sum::<f64>() + all_busy);
    let found = waits(Policy::Strict, 4, [load(24.0, 100, Spread::Exponential), NOTHING]);
    about(found[0], must_wait * 0.1 / (4.0 - offered));
}

#[test]
fn strict_levels_wait_as_cobham_says() {
    let (high, low) = (load(2.0, 100, Spread::Exponential), load(4.0, 100, Spread::Exponential));
    // What is left of the running message when one arrives; who runs is never interrupted.
    let (rest, busy_high, busy) = (6.0 * 2.0 * 0.01 / 2.0, 0.2, 0.6);
    let found = waits(Policy::Strict, 1, [high, low]);
    about(found[0], rest / (1.0 - busy_high));
    about(found[1], rest / ((1.0 - busy_high) * (1.0 - busy)));
}

#[test]
fn the_same_seed_gives_the_same_forecast_and_another_seed_another() {
    let mut simulation = simulation(Policy::Weighted, 2, [load(9.0, 100, Spread::Exponential); 2], HOUR / 60);
    let first = simulation.run().unwrap().levels[1].mean;
    assert_eq!(simulation.run().unwrap().levels[1].mean, first);
    simulation.seed = 8;
    assert_ne!(simulation.run().unwrap().levels[1].mean, first);
}

#[test]
fn policies_are_compared_on_the_same_messages() {
    let loads = [load(9.0, 100, Spread::Exponential); 2];
    let arrived = |policy| {
        let forecast = simulation(policy, 2, loads, HOUR / 60).run().unwrap();
        forecast.levels.iter().map(|level| level.arrived).collect::<Vec<_>>()
    };
    assert_eq!(arrived(Policy::Strict), arrived(Policy::Weighted));
}

/// Ten minutes in which the members alone would need twice the slots: all starts, and how the levels fared.
fn saturated(policy: Policy, free_per_second: f64) -> (Vec<Start>, Forecast) {
    let loads = [load(80.0, 100, Spread::Exponential), load(free_per_second, 100, Spread::Exponential)];
    let mut starts = Vec::new();
    let forecast = simulation(policy, 4, loads, HOUR / 6).watch(|start| starts.push(start)).unwrap();
    assert!(forecast.levels[0].left > 10_000, "the members saturate it");
    (starts, forecast)
}

#[test]
fn a_saturating_level_does_not_starve_a_weighted_one_beyond_the_bound() {
    let (starts, forecast) = saturated(Policy::Weighted, 4.0);
    let (mut head_since, mut members) = (Duration::ZERO, Vec::new());
    for start in starts {
        if start.level == 0 {
            members.push(start.at);
            continue;
        }
        // At the head of its line since it arrived, or since the one before it started.
        let since = head_since.max(start.at.saturating_sub(start.waited));
        let passed = members.iter().rev().take_while(|at| **at > since).count();
        assert!(passed <= 4, "{passed} members started while {start:?} was at the head");
        head_since = start.at;
    }
    assert!(forecast.levels[1].started > 2_000 && forecast.levels[1].left < 20, "{:?}", forecast.levels[1]);
    let (_, strict) = saturated(Policy::Strict, 4.0);
    assert!(strict.levels[1].started < 100, "strictly it would starve: {:?}", strict.levels[1]);
}

#[test]
fn while_both_levels_have_work_every_window_of_five_starts_is_four_to_one() {
    let (starts, _) = saturated(Policy::Weighted, 80.0);
    // At the beginning the lines are short.
    let starts: Vec<_> = starts.iter().skip(100).map(|start| start.level).collect();
    assert!(starts.len() > 20_000 && starts.windows(5).all(|window| window.iter().sum::<usize>() == 1));
}

#[test]
fn aging_lets_a_level_through_that_would_starve() {
    let loads = [load(80.0, 100, Spread::Exponential), load(4.0, 100, Spread::Exponential)];
    let mut aging = simulation(Policy::Strict, 4, loads, HOUR / 6);
    aging.set.age_after = Some(Duration::from_secs(5));
    let free = &aging.run().unwrap().levels[1];
    assert!(free.started > 2_000 && free.p50 >= Duration::from_millis(4500), "{free:?}");
    assert!(free.p99 < Duration::from_secs(6), "{free:?}");
}

#[test]
fn a_backlog_waits_from_the_beginning_and_what_is_left_counts() {
    let mut load = load(0.0, 1000, Spread::Fixed);
    load.backlog = 100;
    let forecast = simulation(Policy::Strict, 1, [NOTHING, load], Duration::from_secs(50)).run().unwrap();
    let free = &forecast.levels[1];
    assert_eq!((free.arrived, free.started, free.done, free.left), (100, 51, 50, 49));
    assert_eq!((free.p50.as_secs(), free.max.as_secs()), (49, 50));
    assert!((forecast.utilisation - 1.0).abs() < 1e-9, "{}", forecast.utilisation);
}

#[test]
fn what_is_no_load_is_refused() {
    for bad in [f64::NAN, -1.0, f64::INFINITY, 1e9] {
        let loads = [load(bad, 100, Spread::Fixed), NOTHING];
        assert!(simulation(Policy::Strict, 1, loads, HOUR).run().is_err(), "{bad}");
    }
    assert!(Simulation { loads: vec![NOTHING], ..simulation(Policy::Strict, 1, [NOTHING; 2], HOUR) }.run().is_err());
}
