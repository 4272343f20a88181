//! What the reader of a lane set asks of its levels, with levels that only write it down. How it does over real queues is shown
//! by the conformance cases.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::*;
use crate::{BoxFuture, Key, Message, error::Result, lanes::Level};

/// A level that stands as the test says.
#[derive(Default)]
struct Played {
    queue: String,
    stance: Mutex<Stance>,
    /// Was it asked to look, and to claim once more for it?
    looks: Mutex<Vec<bool>>,
    share: Mutex<Option<Share>>,
}

impl DynReader for Played {
    fn try_next(&self) -> Result<Turn> {
        if self.stance.lock().unwrap().failed {
            return Err("an error of this level".into());
        }
        let message = Message::new(&*self.queue, Key::new(["1"]), *b"{}");
        Ok(Turn::Delivery(Box::new(Delivery::unclaimed(message))))
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn settle(&self, _: Delivery) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

impl LevelReader for Played {
    fn stance(&self) -> Stance {
        *self.stance.lock().unwrap()
    }

    fn look(&self, again: bool) {
        self.looks.lock().unwrap().push(again);
    }

    fn allow(&self, share: Share) {
        *self.share.lock().unwrap() = Some(share);
    }
}

/// A clock that a test turns.
#[derive(Debug, Clone)]
struct Turned(Arc<Mutex<Instant>>);

impl Clock for Turned {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

struct Scene {
    levels: Vec<Arc<Played>>,
    reader: LaneReader,
    clock: Turned,
}

const MS: Duration = Duration::from_millis(1);

impl Scene {
    /// Three levels and four slots, two messages ahead.
    fn new(change: impl FnOnce(LaneSet) -> LaneSet) -> Self {
        let queues = ["high", "middle", "low"];
        let set = LaneSet::new("site", Policy::Strict).look(MS * 20);
        let set = change(queues.iter().fold(set, |set, queue| set.level(Level::new(*queue, *queue))));
        let levels: Vec<_> =
            queues.iter().map(|queue| Arc::new(Played { queue: (*queue).into(), ..Played::default() })).collect();
        let clock = Turned(Arc::new(Mutex::new(Instant::now())));
        let lanes = levels.iter().map(|level| level.clone() as Arc<dyn LevelReader>).collect();
        let changed = Arc::new(Notify::new());
        let reader = LaneReader::new(Arc::new(set), 4, (1, 2), lanes, changed, Arc::new(clock.clone()));
        let scene = Scene { levels, reader, clock };
        (0..3).for_each(|level| scene.level(level, |stance| stance.reads = true));
        scene
    }

    fn level(&self, level: usize, change: impl FnOnce(&mut Stance)) {
        change(&mut self.levels[level].stance.lock().unwrap());
    }

    fn ready(&self, level: usize) {
        self.level(level, |stance| stance.ready = true);
    }

    /// A claim finds nothing, now.
    fn emptied(&self, level: usize) {
        let now = self.clock.now();
        self.level(level, |stance| {
            stance.claims += 1;
            stance.emptied = Some(EmptyLook { began: now, ended: now, number: stance.claims });
        });
    }

    fn pass(&self, time: Duration) {
        *self.clock.0.lock().unwrap() += time;
    }

    /// What a worker gets.
    fn next(&self) -> Option<String> {
        match Reader::try_next(&self.reader).unwrap() {
            Turn::Delivery(delivery) => Some(delivery.message.queue.to_string()),
            Turn::Empty => None,
            Turn::Finished => panic!("nothing is finished"),
        }
    }

    fn looks(&self, level: usize) -> Vec<bool> {
        std::mem::take(&mut self.levels[level].looks.lock().unwrap())
    }

    fn share(&self, level: usize) -> Share {
        self.levels[level].share.lock().unwrap().unwrap()
    }
}

#[test]
fn a_lower_level_waits_for_the_first_claim_of_a_higher_one() {
    let scene = Scene::new(|set| set);
    scene.ready(1);
    assert_eq!(scene.next(), None);
    assert_eq!(scene.looks(0), [false], "its claim is under way: it only has to tell");
    assert_eq!(scene.share(1), Share::NOTHING, "nothing is read ahead meanwhile");
    scene.emptied(0);
    assert_eq!(scene.next().as_deref(), Some("middle"));
}

#[test]
fn an_old_look_is_repeated_before_a_lower_start_and_a_bit_earlier_beside_it() {
    let scene = Scene::new(|set| set);
    scene.ready(1);
    scene.emptied(0);
    assert!(scene.next().is_some() && scene.looks(0).is_empty());
    scene.pass(MS * 11);
    assert!(scene.next().is_some() && scene.looks(0).contains(&true), "it is time, and nobody waits for it");
    scene.pass(MS * 10);
    scene.looks(0);
    assert_eq!((scene.next(), scene.looks(0)), (None, vec![true]));
    scene.emptied(0);
    assert!(scene.next().is_some());
}

#[test]
fn a_look_that_takes_longer_than_it_may_is_no_wait_for_ever() {
    let scene = Scene::new(|set| set);
    scene.ready(1);
    let began = scene.clock.now();
    scene.pass(MS * 50);
    let ended = scene.clock.now();
    scene.level(0, |stance| stance.emptied = Some(EmptyLook { began, ended, number: 1 }));
    assert_eq!(scene.next().as_deref(), Some("middle"));
    scene.pass(MS * 11);
    assert_eq!(scene.next(), None);
}

#[test]
fn without_a_look_one_claim_serves_one_lower_start() {
    let scene = Scene::new(|set| set.look(Duration::ZERO));
    scene.ready(2);
    scene.emptied(0);
    scene.emptied(1);
    assert!(scene.next().is_some());
    assert_eq!((scene.next(), scene.looks(0).last()), (None, Some(&true)));
    scene.emptied(0);
    assert_eq!((scene.next(), scene.looks(1).last()), (None, Some(&true)), "every higher level is looked at");
    scene.emptied(1);
    assert!(scene.next().is_some());
}

#[test]
fn nobody_looks_while_nothing_lower_can_start() {
    let scene = Scene::new(|set| set);
    (0..3).for_each(|level| scene.emptied(level));
    scene.pass(MS * 1000);
    assert_eq!(scene.next(), None);
    scene.ready(0);
    assert_eq!(scene.next().as_deref(), Some("high"));
    assert!((0..3).all(|level| scene.looks(level).is_empty()));
}

#[test]
fn a_lower_level_reads_nothing_ahead_while_a_higher_one_has_work() {
    let scene = Scene::new(|set| set);
    scene.ready(0);
    scene.ready(1);
    scene.next();
    assert_eq!([scene.share(1), scene.share(2)], [Share::NOTHING; 2]);
    assert_eq!(scene.share(0), Share::of(4 + 2 + 1), "four slots, two ahead, and one for fewer claims");
    scene.level(0, |stance| stance.ready = false);
    scene.emptied(0);
    scene.next();
    assert_eq!(scene.share(1), Share::of(3 + 2 + 1), "one slot is taken");
    assert_eq!(scene.share(2), Share::NOTHING);
}

#[test]
fn a_level_that_has_all_it_may_have_holds_up_nobody() {
    let scene = Scene::new(|mut set| {
        set.levels[0].concurrency = Some(1);
        set
    });
    scene.ready(0);
    scene.ready(1);
    assert_eq!([scene.next(), scene.next()].map(Option::unwrap), ["high", "middle"]);
    assert_ne!(scene.share(1), Share::NOTHING);
}

#[test]
fn what_waits_to_grow_old_stays_at_hand_and_takes_turns() {
    let scene = Scene::new(|set| set.age_after(MS * 1000));
    scene.ready(0);
    scene.ready(1);
    let now = scene.clock.now();
    scene.level(1, |stance| stance.sent = Some(now));
    assert_eq!([scene.next(), scene.next()].map(Option::unwrap), ["high", "high"]);
    assert_eq!(scene.share(1), Share { claimed: 2, ready: 2 });
    scene.pass(MS * 1000);
    assert_eq!([scene.next(), scene.next()].map(Option::unwrap), ["middle", "high"]);
}

#[test]
fn a_weighted_level_is_not_passed_over_while_it_claims() {
    let scene = Scene::new(|set| set.policy(Policy::Weighted));
    scene.ready(1);
    assert_eq!((scene.next(), scene.looks(0)), (None, vec![false]));
    scene.emptied(0);
    scene.pass(MS * 1000);
    assert_eq!(scene.next().as_deref(), Some("middle"), "however old that look is");
    assert_eq!((scene.next(), scene.looks(2)), (None, vec![false, false]));
}

#[test]
fn dedicated_levels_do_not_wait_for_each_other() {
    let scene = Scene::new(|set| {
        let mut set = set.policy(Policy::Dedicated { borrow: false });
        set.levels.iter_mut().for_each(|level| level.concurrency = Some(1));
        set
    });
    scene.ready(1);
    assert_eq!(scene.next().as_deref(), Some("middle"));
}

#[test]
fn a_level_full_of_suspects_that_must_wait_is_passed_over() {
    let scene = Scene::new(|set| set);
    scene.ready(1);
    scene.level(0, |stance| stance.held = 7);
    assert_eq!(scene.next().as_deref(), Some("middle"));
}

#[tokio::test]
async fn a_slot_is_free_when_its_message_is_settled() {
    let scene = Scene::new(|set| set);
    scene.ready(0);
    for _ in 0..4 {
        assert!(scene.next().is_some());
    }
    assert_eq!(scene.next(), None);
    let message = Message::new("high", Key::new(["1"]), *b"{}");
    Reader::settle(&scene.reader, Delivery::unclaimed(message)).await.unwrap();
    assert!(scene.next().is_some());
}

#[test]
fn an_error_of_any_level_is_told_and_a_drained_level_ends_all() {
    let scene = Scene::new(|set| set);
    scene.level(2, |stance| stance.failed = true);
    assert!(Reader::try_next(&scene.reader).unwrap_err().to_string().contains("an error of this level"));
    for end in [|stance: &mut Stance| stance.finished = true, |stance: &mut Stance| stance.ended = true] {
        let scene = Scene::new(|set| set);
        scene.level(1, end);
        assert!(matches!(Reader::try_next(&scene.reader).unwrap(), Turn::Finished));
    }
}
