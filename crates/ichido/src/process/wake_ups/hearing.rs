//! When a process looks into a queue that another one has told of. All processes of a fleet hear it, and few are needed: a handful look at once,
//! chosen by chance, the others a little later, each at another time, and find that nothing is left, or that there is work for them too.
//!
//! Processes of one host hear of each send twice: through their sockets, and through the database, which cannot know who has heard already;
//! either may be first. The second time must not disturb what the first one has begun, and may still be about another send.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// So many processes of a fleet look at once when they hear of a queue.
pub(super) const AT_ONCE: u32 = 4;

/// How much later each of the others does.
const APART: Duration = Duration::from_millis(4);

/// However large the fleet is, nobody looks later than as one of so many: then polling is as good.
const MOST_APART: u32 = 64;

/// What the database tells so soon after the host did, or the other way round, is probably the same, and is looked after this much later.
const ECHO: Duration = Duration::from_millis(20);

/// More is not remembered of what only one of them has told: polling is as good then.
const MOST_UNMATCHED: usize = 64;

/// Who has told of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Teller {
    Host,
    Database,
}

#[derive(Default)]
pub(super) struct Hearing {
    /// How many processes there are, as far as this one knows.
    pub(super) fleet: AtomicU32,
    /// The queues that will be looked at soon.
    soon: Mutex<BTreeSet<Arc<str>>>,
    /// What was told lately of queues that somebody waits for.
    told: Mutex<BTreeMap<Arc<str>, Told>>,
}

/// When a queue was told of, by one of the two and not yet by the other.
#[derive(Default)]
struct Told {
    host: VecDeque<Instant>,
    database: VecDeque<Instant>,
}

impl Told {
    /// Notes who tells; true if the other one has told the same a moment ago.
    fn is_echo(&mut self, teller: Teller, now: Instant) -> bool {
        for told in [&mut self.host, &mut self.database] {
            while told.front().is_some_and(|told| now - *told >= ECHO) {
                told.pop_front();
            }
        }
        let (ours, others) = match teller {
            Teller::Host => (&mut self.host, &mut self.database),
            Teller::Database => (&mut self.database, &mut self.host),
        };
        let is_echo = others.pop_front().is_some();
        if !is_echo && ours.len() < MOST_UNMATCHED {
            ours.push_back(now);
        }
        is_echo
    }
}

impl Hearing {
    /// How long to wait until looking into a queue that somebody waits for.
    pub(super) fn wait(&self, queue: &Arc<str>, teller: Teller) -> Duration {
        let is_echo = lock(&self.told).entry(queue.clone()).or_default().is_echo(teller, Instant::now());
        turn(self.fleet.load(Ordering::Relaxed)).max(if is_echo { ECHO } else { Duration::ZERO })
    }

    /// It will be looked into the queue soon; false if that was known.
    pub(super) fn begin(&self, queue: &Arc<str>) -> bool {
        lock(&self.soon).insert(queue.clone())
    }

    pub(super) fn end(&self, queue: &Arc<str>) {
        lock(&self.soon).remove(queue);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long one of so many processes waits until it looks: each draws a place in the line, and those at its head do not wait.
fn turn(processes: u32) -> Duration {
    let place = if processes > AT_ONCE { fastrand::u32(..processes.min(MOST_APART)) } else { 0 };
    if place < AT_ONCE { Duration::ZERO } else { APART * place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_large_fleet_only_some_look_at_once_and_each_at_another_time() {
        let turns: Vec<_> = (0..6400).map(|_| turn(64)).collect();
        let at_once = turns.iter().filter(|turn| turn.is_zero()).count();
        assert!((250..=600).contains(&at_once), "{at_once} of 6400 looked at once: about 1 in 16 should");
        let times: BTreeSet<_> = turns.iter().collect();
        assert!(times.len() > 50 && *times.last().unwrap() <= &(APART * MOST_APART), "{times:?}");
        assert!((0..6400).all(|_| turn(100_000) <= APART * MOST_APART));
    }

    #[test]
    fn one_look_is_enough_for_all_that_is_heard_before_it() {
        let (hearing, orders) = (Hearing::default(), "orders".into());
        assert!(hearing.begin(&orders) && !hearing.begin(&orders));
        hearing.end(&orders);
        assert!(hearing.begin(&orders));
    }

    #[test]
    fn in_a_small_fleet_nobody_waits() {
        assert!((0..=AT_ONCE).all(|processes| turn(processes).is_zero()));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_tells_second_does_not_disturb() {
        for (first, second) in [(Teller::Host, Teller::Database), (Teller::Database, Teller::Host)] {
            let (hearing, orders, mail) = (Hearing::default(), "orders".into(), "mail".into());
            assert_eq!(hearing.wait(&orders, first), Duration::ZERO);
            tokio::time::advance(ECHO / 4).await;
            assert_eq!(hearing.wait(&orders, second), ECHO, "it is looked all the same, but later");
            assert_eq!(hearing.wait(&orders, second), Duration::ZERO, "each is the echo of one");
            assert_eq!(hearing.wait(&mail, second), Duration::ZERO, "that is another queue");
            tokio::time::advance(ECHO).await;
            assert_eq!(hearing.wait(&orders, first), Duration::ZERO, "that is another send");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_each_send_one_of_both_is_followed_at_once() {
        let (hearing, orders) = (Hearing::default(), "orders".into());
        for _ in 0..100 {
            let waits = [Teller::Database, Teller::Host].map(|teller| hearing.wait(&orders, teller));
            assert_eq!(waits, [Duration::ZERO, ECHO], "of a send every 10 ms");
            tokio::time::advance(ECHO / 2).await;
        }
    }
}
