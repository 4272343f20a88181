//! Lane sets: their levels, and how long messages would wait.

use std::time::Duration;

use axum::{Json, extract::Path};
use ichido::{
    by_hand::LaneTargets,
    lanes::{Forecast, Load, Policy, Simulation, Spread},
};
use serde::{Deserialize, Serialize};

use super::{Answered, Body};
use crate::{
    Console, Problem,
    access::{As, Read},
    fields::Fields,
};

/// So many messages are played at most: a request must not cost more than a moment.
const MOST_ARRIVALS: f64 = 500_000.0;

#[derive(Serialize)]
pub(super) struct Lanes {
    lanes: Vec<Set>,
}

#[derive(Serialize)]
struct Set {
    lanes: String,
    policy: &'static str,
    borrow: bool,
    levels: Vec<Level>,
}

#[derive(Serialize)]
struct Level {
    #[serde(rename = "level")]
    name: String,
    queue: String,
    weight: u32,
    reserve: usize,
    concurrency: Option<usize>,
    target_seconds: Option<f64>,
}

pub(super) async fn list(who: As<Read>, query: Fields) -> Answered<Lanes> {
    query.only(&[])?;
    Ok(Json(Lanes { lanes: who.console().lanes().iter().map(set).collect() }))
}

fn set(LaneTargets { set, targets }: &LaneTargets) -> Set {
    let (policy, borrow) = match set.policy {
        Policy::Strict => ("strict", false),
        Policy::Weighted => ("weighted", false),
        Policy::Dedicated { borrow } => ("dedicated", borrow),
    };
    let levels = set.levels.iter().zip(targets).map(|(level, target)| Level {
        name: level.name.to_string(),
        queue: level.queue.to_string(),
        weight: level.weight,
        reserve: level.reserve,
        concurrency: level.concurrency,
        target_seconds: target.map(|target| target.as_secs_f64()),
    });
    Set { lanes: set.name.to_string(), policy, borrow, levels: levels.collect() }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Simulate {
    levels: Vec<Arriving>,
    concurrency: Option<u16>,
    policy: Option<String>,
    seconds: Option<u32>,
    seed: Option<u64>,
    #[serde(default)]
    fixed: bool,
}

/// What arrives at a level, which must be one of the set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arriving {
    level: String,
    #[serde(default)]
    per_second: f64,
    service_ms: f64,
    #[serde(default)]
    backlog: u32,
}

#[derive(Serialize)]
pub(super) struct Simulated {
    lanes: String,
    concurrency: usize,
    seconds: u32,
    seed: u64,
    #[serde(flatten)]
    forecast: Forecast,
}

/// Asks no database and changes nothing.
pub(super) async fn simulate(who: As<Read>, Path(lanes): Path<String>, body: Body<Simulate>) -> Answered<Simulated> {
    let asked = body.value;
    let seed = asked.seed.unwrap_or(1);
    let (simulation, seconds) = simulation(who.console(), &lanes, &asked, seed)?;
    let concurrency = simulation.slots;
    let played = tokio::task::spawn_blocking(move || simulation.run()).await;
    let played = played.map_err(|_| Problem::refused("this cannot be simulated"))?;
    let forecast = played.map_err(|error| Problem::refused(error.to_string()))?;
    Ok(Json(Simulated { lanes, concurrency, seconds, seed, forecast }))
}

fn simulation(console: &Console, lanes: &str, asked: &Simulate, seed: u64) -> Result<(Simulation, u32), Problem> {
    let known = console.lanes().iter().find(|known| *known.set.name == *lanes);
    let set = known.ok_or_else(|| Problem::nowhere(format!("no lane set `{lanes}` in the configuration")))?.set.clone();
    let policy = match asked.policy.as_deref() {
        None => set.policy,
        Some("strict") => Policy::Strict,
        Some("weighted") => Policy::Weighted,
        Some("dedicated") => Policy::Dedicated { borrow: set.policy == Policy::Dedicated { borrow: true } },
        Some(_) => return Err(Problem::bad("`policy` must be dedicated, strict or weighted")),
    };
    let set = set.policy(policy);
    let seconds = asked.seconds.unwrap_or(600);
    let spread = if asked.fixed { Spread::Fixed } else { Spread::Exponential };
    let mut loads = vec![Load { per_second: 0.0, service: Duration::ZERO, spread, backlog: 0 }; set.levels.len()];
    for arriving in &asked.levels {
        let at = set.levels.iter().position(|level| *level.name == *arriving.level);
        let at = at.ok_or_else(|| Problem::bad(format!("no level `{}` in `{lanes}`", arriving.level)))?;
        let is_sane = (0.0..=1e6).contains(&arriving.per_second) && (0.001..=1e9).contains(&arriving.service_ms);
        if !is_sane || arriving.backlog > 1_000_000 {
            return Err(Problem::bad(
                "`per_second` must be 0 to 1000000, `service_ms` 0.001 to 1000000000, `backlog` at most 1000000",
            ));
        }
        loads[at].per_second = arriving.per_second;
        loads[at].service = Duration::from_secs_f64(arriving.service_ms / 1000.0);
        loads[at].backlog = arriving.backlog.into();
    }
    let all: f64 = loads.iter().map(|load| load.per_second * f64::from(seconds) + count(load.backlog)).sum();
    if !(1.0..=MOST_ARRIVALS).contains(&all) || !(1..=86_400).contains(&seconds) {
        return Err(Problem::bad(format!(
            "between 1 and {MOST_ARRIVALS} messages can be played, over 1 to 86400 seconds"
        )));
    }
    let working = console.settings().workers.iter().find(|(name, _)| name == lanes).map(|(_, workers)| *workers);
    let given = asked.concurrency.map(usize::from);
    if given.is_some_and(|workers| !(1..=1024).contains(&workers)) {
        return Err(Problem::bad("`concurrency` must be a number from 1 to 1024"));
    }
    let slots = set.slots(given.or(working).unwrap_or(ichido::process::CONCURRENCY));
    Ok((Simulation { set, slots, loads, duration: Duration::from_secs(seconds.into()), seed }, seconds))
}

fn count(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}
