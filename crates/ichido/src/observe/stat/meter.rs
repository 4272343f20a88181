//! Counts while messages run. Every worker of the process writes into the same counters, without a lock and without an
//! allocation; they only ever grow, so that who reads them twice knows what happened in between.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{
    Histogram, Lane, QueueMeasures, Stat, Tally,
    histogram::{BUCKETS, bucket, micros},
};

/// Messages sent closer to each other count as sent at the same time: that is how exactly two claims can tell.
const SAME_TIME: i64 = 50_000;

/// More levels than any lane set has.
const LEVELS: usize = 16;

/// The counters of a process.
pub(crate) struct Meters {
    /// Sent times are counted from here, in microseconds.
    epoch: Instant,
    queues: RwLock<BTreeMap<Arc<str>, Arc<Meter>>>,
    /// What actions have sent and committed, by queue: also queues that others serve.
    sent: Mutex<BTreeMap<Arc<str>, Sent>>,
}

/// How many messages were sent to a queue, and the level that it is.
struct Sent {
    level: Option<Arc<str>>,
    count: u64,
}

/// The counters of a queue.
pub(crate) struct Meter {
    lane: Option<(Lane, Arc<Newest>)>,
    slots: u32,
    started: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    retried: AtomicU64,
    snoozed: AtomicU64,
    overtaken: AtomicU64,
    duplicates: AtomicU64,
    found_busy: AtomicU64,
    claims: AtomicU64,
    busy: AtomicU64,
    waiting: Buckets,
    running: Buckets,
}

/// For each level of a lane set, when the newest of its messages that has started was sent.
struct Newest([AtomicI64; LEVELS]);

struct Buckets {
    counts: Box<[AtomicU64]>,
    /// All times together, in microseconds.
    sum: AtomicU64,
}

impl Buckets {
    fn new() -> Self {
        Buckets { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    fn add(&self, time: Duration) {
        self.counts[bucket(micros(time))].fetch_add(1, Relaxed);
        self.sum.fetch_add(micros(time), Relaxed);
    }

    fn read(&self) -> Histogram {
        Histogram::of_buckets(self.counts.iter().map(|count| count.load(Relaxed)))
    }

    fn sum(&self) -> Duration {
        Duration::from_micros(self.sum.load(Relaxed))
    }
}

impl Meters {
    pub(crate) fn new(now: Instant) -> Self {
        Meters { epoch: now, queues: RwLock::default(), sent: Mutex::default() }
    }

    /// The counters of a queue; at its first message, `place` says who runs it and where it is in a lane set.
    pub(crate) fn of(&self, queue: &Arc<str>, place: impl FnOnce() -> (u32, Option<Lane>)) -> Arc<Meter> {
        if let Some(meter) = self.find(queue) {
            return meter;
        }
        let (slots, lane) = place();
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let newest = |lane: &Lane| {
            let mut lanes = queues.values().filter_map(|meter| meter.lane.as_ref());
            let same_set = lanes.find(|(other, _)| other.lanes == lane.lanes);
            same_set.map_or_else(|| Arc::new(Newest::never()), |(_, newest)| newest.clone())
        };
        let lane = lane.filter(|lane| usize::from(lane.rank) < LEVELS).map(|lane| (lane.clone(), newest(&lane)));
        queues.entry(queue.clone()).or_insert_with(|| Arc::new(Meter::new(slots, lane))).clone()
    }

    pub(crate) fn find(&self, queue: &str) -> Option<Arc<Meter>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).get(queue).cloned()
    }

    /// A message of a queue starts. It was sent so long before this moment, if that is known.
    pub(crate) fn start(&self, meter: &Meter, now: Instant, waited: Option<Duration>) {
        meter.started.fetch_add(1, Relaxed);
        let Some(waited) = waited else { return };
        meter.waiting.add(waited);
        if let Some((lane, newest)) = &meter.lane {
            let since = i64::try_from(now.saturating_duration_since(self.epoch).as_micros()).unwrap_or(i64::MAX);
            let sent = since.saturating_sub(i64::try_from(waited.as_micros()).unwrap_or(i64::MAX));
            if newest.start(usize::from(lane.rank), sent) {
                meter.overtaken.fetch_add(1, Relaxed);
            }
        }
    }

    /// So many messages to this queue, and level, were sent and committed by an action.
    pub(crate) fn sent(&self, queue: Arc<str>, level: Option<Arc<str>>, count: u64) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.entry(queue).or_insert(Sent { level, count: 0 }).count += count;
    }

    /// What was counted so far, for monitors.
    pub(crate) fn measure(&self) -> Vec<QueueMeasures> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        let measures = |(queue, meter): (&Arc<str>, &Arc<Meter>)| QueueMeasures {
            level: meter.lane.as_ref().map(|(lane, _)| lane.level.clone()),
            claims: Some(meter.claims.load(Relaxed)),
            tally: meter.read(),
            waited: meter.waiting.sum(),
            ran: meter.running.sum(),
            ..QueueMeasures::new(queue.clone())
        };
        let mut all: Vec<_> = queues.iter().map(measures).collect();
        for (queue, Sent { level, count }) in &*self.sent.lock().unwrap_or_else(PoisonError::into_inner) {
            match all.iter_mut().find(|known| known.queue == *queue) {
                Some(known) => known.sent += count,
                None => {
                    all.push(QueueMeasures { level: level.clone(), sent: *count, ..QueueMeasures::new(queue.clone()) });
                }
            }
        }
        all
    }

    /// What was counted so far.
    pub(crate) fn read(&self) -> Vec<Stat> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        let stat = |(queue, meter): (&Arc<str>, &Arc<Meter>)| Stat {
            queue: queue.clone(),
            lane: meter.lane.as_ref().map(|(lane, _)| lane.clone()),
            slots: meter.slots,
            tally: meter.read(),
        };
        queues.iter().map(stat).collect()
    }
}

impl Newest {
    fn never() -> Self {
        Newest(std::array::from_fn(|_| AtomicI64::new(i64::MIN)))
    }

    /// A message of this level starts that was sent then. Was it overtaken by one of a lower level?
    fn start(&self, rank: usize, sent: i64) -> bool {
        self.0[rank].fetch_max(sent, Relaxed);
        self.0[rank + 1..].iter().any(|lower| lower.load(Relaxed) > sent.saturating_add(SAME_TIME))
    }
}

impl Meter {
    fn new(slots: u32, lane: Option<(Lane, Arc<Newest>)>) -> Self {
        let zero = || AtomicU64::new(0);
        Meter {
            lane,
            slots,
            started: zero(),
            done: zero(),
            failed: zero(),
            retried: zero(),
            snoozed: zero(),
            overtaken: zero(),
            duplicates: zero(),
            found_busy: zero(),
            claims: zero(),
            busy: zero(),
            waiting: Buckets::new(),
            running: Buckets::new(),
        }
    }

    /// Messages were completed.
    pub(crate) fn done(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// The failure of a message was recorded, for good or not.
    pub(crate) fn failed(&self, for_good: bool) {
        let counter = if for_good { &self.failed } else { &self.retried };
        counter.fetch_add(1, Relaxed);
    }

    /// A message was snoozed.
    pub(crate) fn snoozed(&self) {
        self.snoozed.fetch_add(1, Relaxed);
    }

    /// A broker handed out a message that was done already.
    pub(crate) fn duplicate(&self) {
        self.duplicates.fetch_add(1, Relaxed);
    }

    /// A broker handed out a message that somebody else was at.
    pub(crate) fn found_busy(&self) {
        self.found_busy.fetch_add(1, Relaxed);
    }

    /// A statement claimed messages, or found none.
    pub(crate) fn claimed(&self) {
        self.claims.fetch_add(1, Relaxed);
    }

    /// A slot was busy with a message for this time, and the message came to its end or not.
    pub(crate) fn ran(&self, time: Duration, ended: bool) {
        self.busy.fetch_add(micros(time), Relaxed);
        if ended {
            self.running.add(time);
        }
    }

    fn read(&self) -> Tally {
        Tally {
            started: self.started.load(Relaxed),
            done: self.done.load(Relaxed),
            failed: self.failed.load(Relaxed),
            retried: self.retried.load(Relaxed),
            snoozed: self.snoozed.load(Relaxed),
            overtaken: self.overtaken.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
            found_busy: self.found_busy.load(Relaxed),
            busy: Duration::from_micros(self.busy.load(Relaxed)),
            waiting: self.waiting.read(),
            running: self.running.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn level(meters: &Meters, level: &str, rank: u16) -> Arc<Meter> {
        let lane = Lane { lanes: "mail".into(), level: level.into(), rank };
        meters.of(&level.into(), || (4, Some(lane)))
    }

    #[test]
    fn a_message_is_overtaken_when_a_lower_one_that_was_sent_later_has_started() {
        let begun = Instant::now();
        let meters = Meters::new(begun);
        let (member, free) = (level(&meters, "member", 0), level(&meters, "free", 1));
        let at = |seconds| begun + SECOND * seconds;
        meters.start(&free, at(10), Some(SECOND)); // sent at 9
        meters.start(&member, at(11), Some(SECOND)); // sent at 10: after the free one
        assert_eq!(member.read().overtaken, 0);
        meters.start(&member, at(12), Some(SECOND * 4)); // sent at 8: before it
        assert_eq!(member.read().overtaken, 1);
        meters.start(&free, at(13), Some(SECOND * 9));
        assert_eq!(free.read().overtaken, 0, "what is higher may go first");
    }

    #[test]
    fn messages_sent_at_the_same_time_overtake_nobody_and_lane_sets_have_nothing_to_do_with_each_other() {
        let begun = Instant::now();
        let meters = Meters::new(begun);
        let (member, free) = (level(&meters, "member", 0), level(&meters, "free", 1));
        meters.start(&free, begun, Some(Duration::from_millis(10)));
        meters.start(&member, begun, Some(Duration::from_millis(50)));
        assert_eq!(member.read().overtaken, 0);
        let other = Lane { lanes: "sms".into(), level: "vip".into(), rank: 0 };
        let other = meters.of(&"vip".into(), || (4, Some(other)));
        meters.start(&other, begun, Some(SECOND));
        assert_eq!(other.read().overtaken, 0);
    }

    #[test]
    fn what_is_counted_is_read() {
        let begun = Instant::now();
        let meters = Meters::new(begun);
        let meter = meters.of(&"orders".into(), || (8, None));
        assert!(Arc::ptr_eq(&meter, &meters.of(&"orders".into(), || unreachable!("it is known"))));
        meters.start(&meter, begun, None);
        meters.start(&meter, begun, Some(SECOND));
        (0..3).for_each(|_| meter.done());
        meter.failed(true);
        meter.failed(false);
        (0..4).for_each(|_| meter.snoozed());
        meter.duplicate();
        (0..2).for_each(|_| meter.found_busy());
        meter.ran(SECOND, true);
        meter.ran(SECOND, false);
        let [stat] = &meters.read()[..] else { panic!("one queue") };
        let tally = &stat.tally;
        assert_eq!((&*stat.queue, stat.slots), ("orders", 8));
        assert_eq!((tally.started, tally.done, tally.failed, tally.retried), (2, 3, 1, 1));
        assert_eq!((tally.snoozed, tally.duplicates, tally.found_busy), (4, 1, 2));
        assert_eq!((tally.busy, tally.waiting.count(), tally.running.count()), (SECOND * 2, 1, 1));
        meter.claimed();
        meters.sent("mail".into(), Some("free".into()), 2);
        let [orders, mail] = &meters.measure()[..] else { panic!("two queues") };
        assert_eq!((orders.claims, orders.waited, orders.ran, orders.sent), (Some(1), SECOND, SECOND, 0));
        assert_eq!((mail.claims, mail.level.as_deref(), mail.sent), (None, Some("free"), 2));
    }
}
