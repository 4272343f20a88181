//! What a lane set would do under a load: the sliders of the lanes page, and what follows from them. It begins with what was measured in the last
//! minutes. The simulation is the core's, on the chooser that runs the lanes; here it is kept short, and played beside the other requests.

use std::time::Duration;

use ichido::lanes::{Forecast, LaneSet, Level, LevelForecast, Load as Arriving, Policy, Simulation, Spread};
use ichido::stat::{Load, spell};

use super::{
    chart::{Across, Chart, Series},
    scale::{Scale, decimal},
    visit::Visit,
    words::{grouped, whole},
};

/// No more messages are played, so that a slider answers at once.
const MOST_MESSAGES: f64 = 60_000.0;

/// At most this long.
const LONGEST: f64 = 600.0;

const MOST_SLOTS: usize = 64;

/// The sliders, and what follows.
pub(super) struct Simulated {
    pub(super) name: String,
    pub(super) policies: Vec<PolicyOption>,
    pub(super) slots: usize,
    pub(super) most_slots: usize,
    pub(super) levels: Vec<LevelSliders>,
    pub(super) forecast: Result<Told, String>,
}

pub(super) struct PolicyOption {
    pub(super) value: &'static str,
    pub(super) here: bool,
}

pub(super) struct LevelSliders {
    pub(super) name: String,
    pub(super) rate: f64,
    pub(super) most_rate: f64,
    pub(super) service: u64,
    pub(super) most_service: u64,
    pub(super) backlog: u64,
    pub(super) most_backlog: u64,
    pub(super) weight: u32,
    pub(super) reserve: usize,
}

/// A forecast.
pub(super) struct Told {
    pub(super) summary: String,
    pub(super) rows: Vec<Row>,
    pub(super) chart: Chart,
}

pub(super) struct Row {
    pub(super) level: String,
    pub(super) arrived: String,
    pub(super) p50: String,
    pub(super) p95: String,
    pub(super) p99: String,
    pub(super) max: String,
    pub(super) share: String,
    pub(super) left: String,
}

/// What the query asks of a set; what it does not say is as it was measured.
pub(super) async fn of(visit: &Visit, set: &LaneSet, loads: &[Load]) -> Simulated {
    let measured = |level: &Level| loads.iter().find(|load| *load.queue == *level.queue);
    let workers = visit.console.settings().workers.iter().find(|(name, _)| **name == *set.name);
    let seen = set.levels.iter().filter_map(measured).map(|load| load.slots as usize).max().unwrap_or_default();
    let configured = set.slots(workers.map_or(seen.max(1), |(_, workers)| *workers));
    let slots = number(visit, "slots").unwrap_or(configured).clamp(1, MOST_SLOTS);
    let levels: Vec<_> =
        set.levels.iter().enumerate().map(|(at, level)| sliders(visit, at, level, measured(level))).collect();
    let wanted = visit.field("policy");
    let policy = match &*wanted {
        "strict" => Policy::Strict,
        "weighted" => Policy::Weighted,
        "dedicated" => Policy::Dedicated { borrow: matches!(set.policy, Policy::Dedicated { borrow: true }) },
        _ => set.policy,
    };
    let simulation = simulation(set.clone().policy(policy), slots, &levels);
    let played = tokio::task::spawn_blocking(move || play(&simulation)).await;
    let forecast = played.unwrap_or_else(|_| Err("the simulation failed".into()));
    let policies =
        ["strict", "weighted", "dedicated"].map(|value| PolicyOption { value, here: value == name_of(policy) });
    Simulated {
        name: set.name.to_string(),
        policies: policies.into(),
        slots,
        most_slots: MOST_SLOTS.min(configured.max(slots) * 4),
        levels,
        forecast,
    }
}

fn name_of(policy: Policy) -> &'static str {
    match policy {
        Policy::Strict => "strict",
        Policy::Weighted => "weighted",
        Policy::Dedicated { .. } => "dedicated",
    }
}

fn number<T: std::str::FromStr>(visit: &Visit, name: &str) -> Option<T> {
    visit.fields.get(name).and_then(|text| text.parse().ok())
}

fn sliders(visit: &Visit, at: usize, level: &Level, load: Option<&Load>) -> LevelSliders {
    let arrive = load.and_then(Load::arrivals).filter(|rate| *rate > 0.05).unwrap_or(1.0);
    let service =
        load.and_then(Load::service).map_or(200, |time| u64::try_from(time.as_millis()).unwrap_or(200)).max(1);
    let rate: f64 = number(visit, &format!("rate{at}")).filter(|rate: &f64| rate.is_finite()).unwrap_or(arrive);
    let rate = (rate.clamp(0.0, 1000.0) * 10.0).round() / 10.0;
    let service = number(visit, &format!("service{at}")).unwrap_or(service).clamp(1, 600_000);
    let backlog =
        number(visit, &format!("backlog{at}")).unwrap_or_else(|| load.map_or(0, |load| load.backlog.ready)).min(50_000);
    LevelSliders {
        name: level.name.to_string(),
        rate,
        most_rate: (arrive.max(rate) * 4.0).max(10.0).ceil(),
        service,
        most_service: (service * 4).max(1000),
        backlog,
        most_backlog: (backlog * 2).max(1000),
        weight: number(visit, &format!("weight{at}")).unwrap_or(level.weight).clamp(1, 1000),
        reserve: number(visit, &format!("reserve{at}")).unwrap_or(level.reserve).min(MOST_SLOTS),
    }
}

fn simulation(mut set: LaneSet, slots: usize, levels: &[LevelSliders]) -> Simulation {
    let own = (slots / levels.len().max(1)).max(1);
    for (level, sliders) in set.levels.iter_mut().zip(levels) {
        (level.weight, level.reserve) = (sliders.weight, sliders.reserve);
        if matches!(set.policy, Policy::Dedicated { .. }) {
            level.concurrency = Some(level.concurrency.unwrap_or(own));
        }
    }
    let slots = set.slots(slots);
    let load = |level: &LevelSliders| Arriving {
        per_second: level.rate,
        service: Duration::from_millis(level.service),
        spread: Spread::Exponential,
        backlog: level.backlog,
    };
    let per_second: f64 = levels.iter().map(|level| level.rate).sum();
    let seconds = (MOST_MESSAGES / per_second.max(0.1)).min(LONGEST);
    Simulation {
        set,
        slots,
        loads: levels.iter().map(load).collect(),
        duration: Duration::from_secs_f64(seconds),
        seed: 1,
    }
}

fn play(simulation: &Simulation) -> Result<Told, String> {
    let forecast = simulation.run().map_err(|error| error.to_string())?;
    let busy = forecast.utilisation * 100.0;
    let (time, slots) = (spell(simulation.duration), simulation.slots);
    let told = format!("{}, {slots} slots, {time}: slots busy {busy:.0} % of the time", name_of(simulation.set.policy));
    Ok(Told { summary: told, rows: forecast.levels.iter().map(row).collect(), chart: chart(&forecast) })
}

fn row(level: &LevelForecast) -> Row {
    Row {
        level: level.level.clone(),
        arrived: grouped(whole(level.arrived)),
        p50: spell(level.p50),
        p95: spell(level.p95),
        p99: spell(level.p99),
        max: spell(level.max),
        share: format!("{:.0} %", level.share_of_slots * 100.0),
        left: grouped(whole(level.left)),
    }
}

/// How long the quickest half waits, and the slowest: part by part of a hundred.
fn chart(forecast: &Forecast) -> Chart {
    const STEPS: usize = 50;
    let per_mille = |at: usize| (at + 1) * 1000 / STEPS;
    let wait = |level: &LevelForecast, at: usize| level.wait_of(per_mille(at).min(1000)).as_secs_f64() * 1000.0;
    let series = forecast.levels.iter().map(|level| Series {
        name: level.level.clone(),
        values: (0..STEPS).map(|at| Some(wait(level, at))).collect(),
        target: None,
    });
    let percent = Scale::percents();
    let names =
        (0..STEPS).map(|at| format!("{} of the messages", percent.text(decimal(at + 1) * 100.0 / decimal(STEPS))));
    let labels = [(0, "quickest"), (25, "50 %"), (47, "95 %")].map(|(at, text)| (at, text.to_owned()));
    let across = Across { name: "Part", names: names.collect(), labels: labels.into() };
    let mut chart = Chart::lines("Simulated waiting time", Scale::times(), &series.collect::<Vec<_>>(), &across);
    chart.rows.clear();
    chart.or_else("Nothing arrives: move a slider.")
}
