//! What must hold for every lane set and every load, tried with lane sets and loads that were drawn by lot. Each failure names the
//! seed that shows it.

use super::{Chooser, LaneSet, Level, LevelState, Policy};

const SETS: u64 = 120;
const STEPS: usize = 300;

/// A lane set and its slots in the hands of a test.
struct Play {
    seed: u64,
    lot: fastrand::Rng,
    set: LaneSet,
    slots: usize,
    chooser: Chooser,
    levels: Vec<LevelState>,
}

impl Play {
    fn new(seed: u64, policy: Policy, limited: bool) -> Self {
        let mut lot = fastrand::Rng::with_seed(seed);
        let mut set = LaneSet::new("any", policy);
        for at in 0..lot.usize(2..=6) {
            let mut level = Level::new(format!("l{at}"), format!("q{at}")).weight(lot.u32(1..=7));
            if limited {
                level.reserve = lot.usize(0..=2);
            }
            if limited && lot.bool() || matches!(policy, Policy::Dedicated { .. }) {
                level.concurrency = Some(lot.usize(1..=4));
            }
            set.levels.push(level);
        }
        let reserved: usize = set.levels.iter().map(|level| level.reserve).sum();
        let slots = set.slots(reserved + lot.usize(1..=8));
        let levels = vec![LevelState::default(); set.levels.len()];
        Play { seed, lot, slots, chooser: Chooser::new(&set, slots), levels, set }
    }

    /// Something ends, and levels run out of messages or get some.
    fn happen(&mut self) {
        for level in &mut self.levels {
            if self.lot.u8(..) < 60 {
                level.ready = !level.ready;
            }
            if self.lot.u8(..) < 20 {
                level.aged = !level.aged;
            }
            level.running -= self.lot.usize(0..=level.running);
        }
    }

    /// One message ends, so that a slot is free; the levels always have others.
    fn end_one(&mut self) {
        let running: Vec<_> = (0..self.levels.len()).filter(|level| self.levels[*level].running > 0).collect();
        if let Some(level) = self.lot.choice(running) {
            self.levels[level].running -= 1;
        }
    }

    fn start(&mut self) -> Option<usize> {
        let pick = self.chooser.choose(&self.levels)?;
        self.chooser.start(pick);
        self.levels[pick.level()].running += 1;
        Some(pick.level())
    }

    fn running(&self) -> usize {
        self.levels.iter().map(|level| level.running).sum()
    }

    /// May this level start, by the words of the contract?
    fn may_start(&self, at: usize) -> bool {
        let (level, standing) = (&self.set.levels[at], &self.levels[at]);
        let kept = |other: usize| {
            let (level, standing) = (&self.set.levels[other], &self.levels[other]);
            let reserve = level.reserve.min(level.concurrency.unwrap_or(usize::MAX));
            reserve.saturating_sub(standing.running)
        };
        let kept: usize = (0..self.levels.len()).filter(|other| *other != at).map(kept).sum();
        let capped = level.concurrency.is_some_and(|most| standing.running >= most)
            && self.set.policy != Policy::Dedicated { borrow: true };
        standing.ready && !capped && self.running() + kept < self.slots
    }
}

const POLICIES: [Policy; 4] =
    [Policy::Strict, Policy::Weighted, Policy::Dedicated { borrow: false }, Policy::Dedicated { borrow: true }];

fn each_play(policies: &[Policy], limited: bool, mut check: impl FnMut(&mut Play)) {
    for policy in policies {
        for seed in 0..SETS {
            check(&mut Play::new(seed, *policy, limited));
        }
    }
}

#[test]
fn a_free_slot_is_never_left_empty_while_a_level_may_use_it() {
    each_play(&POLICIES, true, |play| {
        for _ in 0..STEPS {
            play.happen();
            while let Some(level) = (0..play.levels.len()).find(|level| play.may_start(*level)) {
                assert!(play.start().is_some(), "seed {}: level {level} waits: {:?}", play.seed, play.levels);
            }
            let started = play.start();
            assert_eq!(started, None, "seed {}: nobody may start: {:?}", play.seed, play.levels);
        }
    });
}

#[test]
fn caps_and_reserves_hold_at_every_start() {
    each_play(&POLICIES, true, |play| {
        for _ in 0..STEPS {
            play.happen();
            loop {
                let may: Vec<_> = (0..play.levels.len()).map(|level| play.may_start(level)).collect();
                let Some(level) = play.start() else { break };
                assert!(may[level], "seed {}: level {level} started: {:?}", play.seed, play.levels);
                assert!(play.running() <= play.slots, "seed {}: {:?}", play.seed, play.levels);
            }
        }
    });
}

#[test]
fn a_reserved_slot_is_there_whatever_the_others_run() {
    each_play(&[Policy::Strict, Policy::Weighted], true, |play| {
        for _ in 0..STEPS {
            play.happen();
            while play.start().is_some() {}
            for (at, level) in play.set.levels.clone().iter().enumerate() {
                let (standing, own) = (play.levels[at], level.concurrency.unwrap_or(usize::MAX));
                if standing.running < level.reserve.min(own) && !standing.ready {
                    play.levels[at].ready = true;
                    assert!(play.may_start(at), "seed {}: {:?}", play.seed, play.levels);
                    assert!(play.chooser.choose(&play.levels).is_some_and(|pick| pick.level() == at));
                    play.levels[at].ready = false;
                }
            }
        }
    });
}

#[test]
fn a_strict_set_starts_the_highest_that_may() {
    each_play(&[Policy::Strict], true, |play| {
        for _ in 0..STEPS {
            play.happen();
            play.levels.iter_mut().for_each(|level| level.aged = false);
            let highest = (0..play.levels.len()).find(|level| play.may_start(*level));
            assert_eq!(play.start(), highest, "seed {}", play.seed);
        }
    });
}

#[test]
fn weights_are_exact_in_every_window_while_the_same_levels_have_work() {
    each_play(&[Policy::Weighted], false, |play| {
        let weights: Vec<usize> = play.set.levels.iter().map(|level| level.weight as usize).collect();
        for _ in 0..20 {
            // Whatever was before: the levels that have work change in the middle of a round.
            play.levels.iter_mut().for_each(|level| level.ready = play.lot.bool());
            let busy: Vec<_> = (0..weights.len()).filter(|level| play.levels[*level].ready).collect();
            let window: usize = busy.iter().map(|level| weights[*level]).sum();
            let starts: Vec<_> = (0..window * 2 + play.lot.usize(0..window.max(1)))
                .map(|_| {
                    play.end_one();
                    play.start()
                })
                .collect();
            for (from, window) in starts.windows(window.max(1)).enumerate() {
                for level in &busy {
                    let count = window.iter().filter(|start| **start == Some(*level)).count();
                    assert_eq!(count, weights[*level], "seed {}: {starts:?} from {from}", play.seed);
                }
            }
        }
    });
}

#[test]
fn a_level_that_has_work_waits_for_at_most_the_turns_of_the_others() {
    each_play(&[Policy::Weighted], false, |play| {
        let total: u32 = play.set.levels.iter().map(|level| level.weight).sum();
        // One level has work all the time, the others come and go; nobody is old.
        let (patient, mut passed) = (play.lot.usize(0..play.levels.len()), 0);
        for _ in 0..STEPS {
            play.happen();
            play.levels.iter_mut().for_each(|level| level.aged = false);
            play.levels[patient].ready = true;
            let Some(level) = play.start() else { continue };
            passed = if level == patient { 0 } else { passed + 1 };
            let bound = total - play.set.levels[patient].weight;
            assert!(passed <= bound, "seed {}: {passed} > {bound}", play.seed);
        }
    });
}

#[test]
fn a_level_in_its_own_slots_never_waits_for_one_that_borrows() {
    each_play(&[Policy::Dedicated { borrow: true }], true, |play| {
        for _ in 0..STEPS {
            play.happen();
            let in_own = |at: usize| play.levels[at].running < play.set.levels[at].concurrency.unwrap();
            let waits = (0..play.levels.len()).find(|at| play.may_start(*at) && in_own(*at));
            let all_in_own: Vec<_> = (0..play.levels.len()).map(in_own).collect();
            if let (Some(waits), Some(level)) = (waits, play.start()) {
                assert!(all_in_own[level], "seed {}: {level} borrowed before {waits}", play.seed);
            }
        }
    });
}

/// Two levels that always have work, in one slot; the lower one is old.
fn starts_of_two(policy: Policy, weights: [u32; 2], aged: bool, count: usize) -> Vec<usize> {
    let set = LaneSet::new("two", policy)
        .level(Level::new("high", "h").weight(weights[0]))
        .level(Level::new("low", "l").weight(weights[1]));
    let mut chooser = Chooser::new(&set, 1);
    let standing = LevelState { ready: true, running: 0, aged: false };
    let levels = [standing, LevelState { aged, ..standing }];
    let mut start = || {
        let pick = chooser.choose(&levels).unwrap();
        chooser.start(pick);
        pick.level()
    };
    (0..count).map(|_| start()).collect()
}

#[test]
fn an_old_message_takes_turns_with_the_level_above() {
    assert_eq!(starts_of_two(Policy::Strict, [1, 1], false, 4), [0, 0, 0, 0]);
    assert_eq!(starts_of_two(Policy::Strict, [1, 1], true, 4), [1, 0, 1, 0]);
    // Of five turns it has its own, and half of the other four.
    assert_eq!(starts_of_two(Policy::Weighted, [4, 1], false, 5).iter().sum::<usize>(), 1);
    assert_eq!(starts_of_two(Policy::Weighted, [4, 1], true, 10).iter().sum::<usize>(), 6);
}

#[test]
fn an_old_message_competes_one_level_higher_and_no_more() {
    let set = (0..3).fold(LaneSet::new("three", Policy::Strict), |set, at| {
        set.level(Level::new(format!("l{at}"), format!("q{at}")))
    });
    let mut chooser = Chooser::new(&set, 1);
    let levels = [false, true, true].map(|aged| LevelState { ready: true, running: 0, aged });
    for expected in [1, 0, 1, 0] {
        let pick = chooser.choose(&levels).unwrap();
        chooser.start(pick);
        assert_eq!(pick.level(), expected, "the highest level shares its seat with the second alone");
    }
}
