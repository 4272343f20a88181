//! What to tune and why, in words and numbers, from what arrived and how long it took. Pure: the same loads give the same
//! advice. It says nothing where there is nothing to say.

use std::time::Duration;

use serde::Serialize;

use super::{ERROR, Load, load::number, slots_for};

/// Slots busier than this leave no room for chance.
const FULL: f64 = 0.97;

/// Slots that are busy for less than this are not what holds messages up.
const HALF: f64 = 0.5;

/// Fewer messages than this say little.
const FEW: u64 = 20;

/// One message in so many that is overtaken is chance.
const CHANCE: u64 = 20;

/// One thing to tune.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// The queue, or the lane set, that it is about.
    pub about: String,
    /// In words.
    pub text: String,
    /// How many more slots, if that is the advice.
    pub more_slots: Option<u32>,
    /// How many slots to reserve, if that is the advice.
    pub reserve: Option<u32>,
}

impl Advice {
    fn new(about: &str, text: String) -> Self {
        Advice { about: about.to_owned(), text, more_slots: None, reserve: None }
    }
}

/// What to tune, queue by queue; levels of a lane set together, in the order of their ranks.
#[must_use]
pub fn advise(loads: &[Load]) -> Vec<Advice> {
    let mut advice = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for load in loads {
        match &load.lane {
            None => advice.extend(about_queue(load)),
            Some(lane) if !seen.contains(&&*lane.lanes) => {
                seen.push(&lane.lanes);
                let same = |other: &&Load| other.lane.as_ref().is_some_and(|other| other.lanes == lane.lanes);
                let mut levels: Vec<_> = loads.iter().filter(same).collect();
                levels.sort_by_key(|level| level.lane.as_ref().map(|lane| lane.rank));
                advice.extend(about_lanes(&lane.lanes, &levels));
            }
            Some(_) => {}
        }
    }
    advice
}

fn about_queue(load: &Load) -> Option<Advice> {
    let name = load.name();
    unserved(load)
        .or_else(|| held_up(load))
        .or_else(|| overload(name, &[load]))
        .or_else(|| busy_with_unknown(load))
        .or_else(|| slow_queue(load))
}

fn about_lanes(set: &str, levels: &[&Load]) -> Vec<Advice> {
    let mut advice: Vec<_> = levels.iter().filter_map(|level| unserved(level).or_else(|| held_up(level))).collect();
    if advice.is_empty() {
        let sharing: Vec<_> = levels.iter().copied().filter(|level| !level.own_slots).collect();
        advice.extend(overload(set, &sharing));
    }
    for (at, level) in levels.iter().enumerate() {
        let slow = if level.own_slots {
            overload(level.name(), &[level]).or_else(|| slow_queue(level))
        } else {
            slow_level(level)
        };
        advice.extend(slow.or_else(|| overtaken(level, &levels[at + 1..])));
    }
    advice
}

/// Something waits and nobody runs it. Who has claimed some of it may not have told yet what it counted.
fn unserved(load: &Load) -> Option<Advice> {
    (load.slots == 0 && load.backlog.ready > 0 && load.backlog.claimed == 0).then(|| {
        let (name, waiting, span) = (load.name(), waiting(load), spell(load.span));
        let text = format!("{name}: {waiting} wait, and no live process has run any of them in the last {span}");
        Advice::new(name, text)
    })
}

/// More arrives than is done although slots are free: something else holds it up.
fn held_up(load: &Load) -> Option<Advice> {
    let share = load.share().filter(|share| *share < HALF)?;
    let behind = load.arrived? * 10 > load.tally.ended() * 11 && load.backlog.ready >= FEW;
    let old = load.backlog.oldest.is_some_and(|oldest| oldest * 2 > load.span);
    (behind && old).then(|| {
        let (name, waiting, share) = (load.name(), waiting(load), percent(share));
        let text = format!(
            "{name}: {waiting} wait although its slots are only {share} busy: more slots would not help; it is \
             paused, its groups wait for each other, or claims or the connection pool are slow"
        );
        Advice::new(name, text)
    })
}

/// More arrives than the slots can do.
fn overload(about: &str, sharing: &[&Load]) -> Option<Advice> {
    let slots = sharing.iter().map(|load| load.slots).max().filter(|slots| *slots > 0)?;
    let with_work: Vec<_> = sharing.iter().filter(|load| load.tally.ended() > 0).collect();
    let offered: f64 = with_work.iter().map(|load| load.offered()).sum::<Option<f64>>()?;
    let (ended, busy) = with_work
        .iter()
        .fold((0, Duration::ZERO), |(ended, busy), load| (ended + load.tally.ended(), busy + load.tally.busy));
    if ended < FEW || offered <= f64::from(slots) * FULL {
        return None;
    }
    let arrive: f64 = with_work.iter().filter_map(|load| load.arrivals()).sum();
    let able = f64::from(slots) * number(ended) / busy.as_secs_f64();
    let retried: f64 = with_work.iter().map(|load| number(load.tally.retried) / load.span.as_secs_f64()).sum();
    let snoozed: f64 = with_work.iter().map(|load| number(load.tally.snoozed) / load.span.as_secs_f64()).sum();
    let again = |rate: f64, how: &str| if rate >= 0.05 { format!(" and {rate:.1}/s are {how}") } else { String::new() };
    let again = again(retried, "retried") + &again(snoozed, "snoozed");
    let least = if with_work.iter().any(|load| load.backlog.is_cut()) { "at least " } else { "" };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let enough = ((offered / FULL).ceil() as u32).max(slots + 1);
    let (more, then) = (enough - slots, percent(offered / f64::from(enough)));
    let text = format!(
        "{about}: {least}{arrive:.1}/s arrive{again}, {} can handle {able:.1}/s: give it {} ({enough} would be {then} busy)",
        count(slots, "slot"),
        count(more, "more slot"),
    );
    Some(Advice { more_slots: Some(more), ..Advice::new(about, text) })
}

/// All slots are busy and something waits, but nobody knows how much arrives.
fn busy_with_unknown(load: &Load) -> Option<Advice> {
    let share = load.share().filter(|share| *share > FULL && load.arrived.is_none())?;
    let able = load.capacity().filter(|_| load.tally.ended() >= FEW && load.backlog.ready > u64::from(load.slots))?;
    let drained = Duration::try_from_secs_f64(number(load.backlog.ready) / able).ok()?;
    let (name, slots, waiting) = (load.name(), count(load.slots, "slot"), waiting(load));
    let (share, drained) = (percent(share), spell(drained));
    let text = format!(
        "{name}: {slots} are {share} busy and handle {able:.1}/s; {waiting} wait, which takes {drained} if nothing \
         more arrives: more slots would help (set `sent_at` to measure how long messages wait)"
    );
    Some(Advice::new(name, text))
}

/// Messages wait longer than they should, and the slots could do what arrives.
fn slow_queue(load: &Load) -> Option<Advice> {
    let (slow, target) = misses(load)?;
    let (offered, service) = (load.offered()?, load.service()?);
    let name = load.name();
    match slots_for(offered, service, target) {
        Some(enough) if enough > load.slots => {
            let more = enough - load.slots;
            let text = format!("{slow}: give it {} ({enough} in all)", count(more, "more slot"));
            Some(Advice { more_slots: Some(more), ..Advice::new(name, text) })
        }
        _ => {
            let (slots, arrive) = (count(load.slots, "slot"), load.arrivals()?);
            let text = format!(
                "{slow}, although {slots} are enough for {arrive:.1}/s on average: messages arrive in bursts; {} wait now",
                waiting(load)
            );
            Some(Advice::new(name, text))
        }
    }
}

/// The same for a level, which can have slots of its own.
fn slow_level(level: &Load) -> Option<Advice> {
    let (slow, target) = misses(level)?;
    let name = level.name();
    let alone = slots_for(level.offered()?, level.service()?, target);
    if let Some(alone) = alone.filter(|alone| *alone < level.slots) {
        let text = format!("{slow}: reserve {}", count(alone, "slot"));
        return Some(Advice { reserve: Some(alone), ..Advice::new(name, text) });
    }
    let more = alone.map_or(1, |alone| alone - level.slots + 1);
    let (slots, more_slots) = (count(level.slots, "slot"), count(more, "more slot"));
    let text = format!("{slow}: {slots} are not enough even for it alone; give its action {more_slots}");
    Some(Advice { more_slots: Some(more), ..Advice::new(name, text) })
}

/// How a load misses its target, in words, and the target.
fn misses(load: &Load) -> Option<(String, Duration)> {
    let target = load.target.filter(|_| load.tally.waiting.count() >= FEW && load.slots > 0)?;
    let p95 = load.tally.waiting.quantile(950)?;
    let missed = p95.as_secs_f64() > target.as_secs_f64() * (1.0 + ERROR);
    missed.then(|| (format!("{} waits p95 {}, target {}", load.name(), spell(p95), spell(target)), target))
}

/// Lower levels overtake this one.
fn overtaken(level: &Load, lower: &[&Load]) -> Option<Advice> {
    let (waits, starts) = (level.tally.waiting.quantile(950)?, level.tally.waiting.count());
    let rivals = lower.iter().filter(|other| other.tally.waiting.count() >= FEW);
    let rivals = rivals.filter_map(|other| Some((other, other.tally.waiting.quantile(950)?)));
    let (rival, faster) = rivals.min_by_key(|(_, p95)| *p95).filter(|_| starts >= FEW)?;
    let often = level.tally.overtaken * CHANCE > starts;
    let slower = waits.as_secs_f64() > faster.as_secs_f64() * (1.0 + 2.0 * ERROR);
    (often && slower).then(|| {
        let (name, rival, overtaken) = (level.name(), rival.name(), level.tally.overtaken);
        let part = percent(number(overtaken) / number(starts));
        let text = format!(
            "{rival} overtakes {name}: {overtaken} of {starts} ({part}) started after a lower one that was sent later; they wait p95 {} \
             against {}: give {name} a larger `weight`, a `reserve`, or the policy `strict`",
            spell(waits),
            spell(faster)
        );
        Advice::new(name, text)
    })
}

fn waiting(load: &Load) -> String {
    let more = if load.backlog.is_cut() { "more than " } else { "" };
    format!("{more}{}", load.backlog.ready)
}

fn count(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// A time as people say it, with about two digits.
#[must_use]
pub fn spell(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 5400.0 => format!("{:.1} h", seconds / 3600.0),
        seconds if seconds >= 90.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds >= 9.95 => format!("{seconds:.0} s"),
        seconds if seconds >= 0.95 => format!("{seconds:.1} s"),
        seconds if seconds >= 0.00995 => format!("{:.0} ms", seconds * 1000.0),
        seconds => format!("{:.1} ms", seconds * 1000.0),
    }
}
