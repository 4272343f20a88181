//! Lane sets: their levels side by side, over time, against their targets; what to tune; and what another policy would do (`simulate`).

use askama::Template;
use ichido::{
    BoxFuture,
    by_hand::LaneTargets,
    lanes::{LaneSet, Level, Policy},
    stat::{Load, spell},
};

use super::{
    chart::Chart,
    concern::{self, Concern},
    hour::Named,
    simulate::{self, Simulated},
    snapshot::Snapshot,
    visit::{Frame, Visit, rendered},
    words::{NONE, counted, milliseconds, rate, seconds_or, whole},
};
use crate::Problem;

#[derive(Template)]
#[template(path = "lanes.html")]
struct LanesPage {
    frame: Frame,
    sentence: &'static str,
    problems: Vec<Concern>,
    sets: Vec<SetView>,
    simulated: Option<Simulated>,
}

struct SetView {
    name: String,
    policy: String,
    levels: Vec<LevelRow>,
    charts: Vec<Chart>,
}

struct LevelRow {
    name: String,
    queue: String,
    rule: String,
    ready: String,
    oldest: String,
    arrive: String,
    leave: String,
    p50: String,
    p95: String,
    target: Option<Badge>,
    share: Option<String>,
}

struct Badge {
    kind: &'static str,
    text: String,
}

/// All lane sets.
pub(super) fn lanes(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let snapshot = visit.snapshot().await?;
        let (standing, lanes) = (&snapshot.standing, visit.console.lanes());
        let about = |name: &str| {
            lanes.iter().any(|one| *one.set.name == *name || one.set.levels.iter().any(|level| *level.name == *name))
        };
        let advice: Vec<_> = standing.advice.iter().filter(|advice| about(&advice.about)).cloned().collect();
        let asked = visit.field("set");
        let simulated = lanes.iter().find(|one| *one.set.name == *asked).or(lanes.first());
        Ok(rendered(&LanesPage {
            frame: visit.frame("/lanes", &snapshot),
            sentence: "Queues ordered by service level, and how their levels share the slots.",
            problems: concern::of_advice(&advice, &standing.loads).map(|concern| concern.on("/lanes")).collect(),
            sets: lanes.iter().map(|one| set(one, &snapshot)).collect(),
            simulated: match simulated {
                Some(one) => Some(simulate::of(visit, &one.set, &standing.loads).await),
                None => None,
            },
        }))
    })
}

fn set(lanes: &LaneTargets, snapshot: &Snapshot) -> SetView {
    let standing = &snapshot.standing;
    let load = |level: &Level| standing.loads.iter().find(|load| *load.queue == *level.queue);
    let rows = lanes.set.levels.iter().map(|level| {
        let counts = standing.overview.queues.iter().find(|counts| *counts.queue == *level.queue);
        let (ready, oldest) = counts
            .map_or((NONE.into(), NONE.into()), |counts| (counted(counts.ready), seconds_or(counts.oldest_seconds)));
        row(&lanes.set, level, load(level), ready, oldest)
    });
    let named: Vec<_> = lanes
        .set
        .levels
        .iter()
        .zip(&lanes.targets)
        .map(|(level, target)| Named { queue: level.queue.to_string(), name: level.name.to_string(), target: *target })
        .collect();
    SetView {
        name: lanes.set.name.to_string(),
        policy: policy(&lanes.set),
        levels: rows.collect(),
        charts: vec![snapshot.hour.waits(&named), snapshot.hour.throughput(&named)],
    }
}

/// How the levels share the slots, in words.
pub(super) fn policy(set: &LaneSet) -> String {
    let policy = match set.policy {
        Policy::Strict => "strict: the highest level that has something gets the next free slot",
        Policy::Weighted => "weighted: each level gets the share that its weight says",
        Policy::Dedicated { borrow: false } => "dedicated: each level has slots of its own",
        Policy::Dedicated { borrow: true } => "dedicated: each level has slots of its own, idle ones help the others",
    };
    let aging = set
        .age_after
        .map_or_else(String::new, |wait| format!("; after {} a message competes one level higher", spell(wait)));
    format!("{policy}{aging}")
}

fn rule(set: &LaneSet, level: &Level) -> String {
    let mut rules = Vec::new();
    if set.policy == Policy::Weighted {
        rules.push(format!("weight {}", level.weight));
    }
    if level.reserve > 0 {
        rules.push(format!("{} reserved", level.reserve));
    }
    if let Some(slots) = level.concurrency {
        let most = if matches!(set.policy, Policy::Dedicated { .. }) { "" } else { "at most " };
        rules.push(format!("{most}{slots} slots"));
    }
    rules.join(", ")
}

fn row(set: &LaneSet, level: &Level, load: Option<&Load>, ready: String, oldest: String) -> LevelRow {
    let measured = load.map(Load::summary);
    let measured = measured.as_ref();
    let waits = measured.and_then(|measured| measured.waiting_ms);
    let target = load.and_then(|load| load.target).map(|target| {
        let met = waits.is_none_or(|waits| waits.p95 <= target.as_secs_f64() * 1000.0);
        let text = format!("{} {}", spell(target), if met { "met" } else { "missed" });
        Badge { kind: if met { "ok" } else { "bad" }, text }
    });
    LevelRow {
        name: level.name.to_string(),
        queue: level.queue.to_string(),
        rule: rule(set, level),
        ready,
        oldest,
        arrive: measured.map_or_else(|| NONE.into(), |one| rate(one.in_per_minute)),
        leave: measured.map_or_else(|| NONE.into(), |one| rate(Some(one.out_per_minute))),
        p50: milliseconds(waits.map(|waits| waits.p50)),
        p95: milliseconds(waits.map(|waits| waits.p95)),
        target,
        share: measured.and_then(|one| one.share_of_slots).map(percent),
    }
}

fn percent(part: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "0 to 100")]
    let percent = (part * 100.0).round() as i64;
    whole(percent).to_string()
}
