//! `ichido lanes simulate`: how long would messages of each level wait? The lane set of the configuration is played against
//! messages that are drawn by lot; nothing is connected to.

mod plot;

use std::time::Duration;

use ichido::lanes::{Forecast, LaneSet, LevelForecast, Load, Policy, Simulation, Spread};
use serde::Serialize;

use crate::{
    args::Simulate,
    config::{Config, parse_duration},
    failure::Failure,
    lanes::unknown_set,
    output,
};

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    lanes: &'a str,
    concurrency: usize,
    seconds: f64,
    seed: u64,
    #[serde(flatten)]
    forecast: &'a Forecast,
}

pub(crate) fn simulate(args: &Simulate, config: &Config) -> Result<u8, Failure> {
    let set = the_set(args, config)?;
    let slots = set.slots(concurrency(args, config, &set.name));
    let (seconds, seed, duration) = (args.duration.as_secs_f64(), args.seed, args.duration);
    let simulation = Simulation { loads: loads(args, &set)?, set, slots, duration, seed };
    let forecast = simulation.run().map_err(|error| Failure::usage(error.to_string()))?;
    let lanes = &*simulation.set.name;
    if let Some(file) = &args.svg {
        let plot = plot::svg(&format!("{lanes}: {}", described(&simulation)), &forecast);
        std::fs::write(file, plot).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    }
    if args.json {
        output::json(&Report { lanes, concurrency: slots, seconds, seed, forecast: &forecast })?;
    } else {
        print(&simulation, &forecast)?;
    }
    Ok(0)
}

/// The lane set that is meant, with the policy that is asked for.
fn the_set(args: &Simulate, config: &Config) -> Result<LaneSet, Failure> {
    let name = match (&args.lanes, &config.lanes.keys().collect::<Vec<_>>()[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, _) => {
            return Err(Failure::usage(
                "no lane set given, and the configuration does not have exactly one; write `ichido lanes simulate NAME`",
            ));
        }
    };
    let lanes = config.lanes.get(name).ok_or_else(|| unknown_set(name, config))?;
    let policy = match args.policy.as_deref() {
        Some("strict") => Policy::Strict,
        Some("weighted") => Policy::Weighted,
        Some(_) => Policy::Dedicated { borrow: lanes.borrow },
        None => lanes.set.policy,
    };
    Ok(lanes.set.clone().policy(policy))
}

/// The workers of the action that works on these lanes, unless they are given.
fn concurrency(args: &Simulate, config: &Config, lanes: &str) -> usize {
    let working = config.actions.values().find(|action| action.from == lanes).map(|action| action.concurrency);
    let given = args.concurrency.map(|workers| workers as usize);
    given.or(working).unwrap_or(ichido::process::CONCURRENCY)
}

fn loads(args: &Simulate, set: &LaneSet) -> Result<Vec<Load>, Failure> {
    let spread = if args.fixed { Spread::Fixed } else { Spread::Exponential };
    let nothing = Load { per_second: 0.0, service: Duration::ZERO, spread, backlog: 0 };
    let mut loads = vec![nothing; set.levels.len()];
    for (level, rate) in values("--rate", &args.rate, set, rate)? {
        loads[level].per_second = rate;
    }
    for (level, service) in values("--service", &args.service, set, parse_duration)? {
        loads[level].service = service;
    }
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number of messages"));
    for (level, backlog) in values("--backlog", &args.backlog, set, number)? {
        loads[level].backlog = backlog;
    }
    if loads.iter().all(|load| load.per_second <= 0.0 && load.backlog == 0) {
        return Err(Failure::usage("nothing arrives: set --rate LEVEL=50/s or --backlog LEVEL=1000"));
    }
    Ok(loads)
}

/// What a flag says about levels: `LEVEL=VALUE`, or `VALUE` for all of them. What is said last counts.
fn values<T: Clone>(
    flag: &str,
    texts: &[String],
    set: &LaneSet,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<(usize, T)>, Failure> {
    let mut values = Vec::new();
    for text in texts {
        let (level, value) = text.split_once('=').map_or((None, text.as_str()), |(level, value)| (Some(level), value));
        let value = parse(value).map_err(|error| Failure::usage(format!("{flag} {text}: {error}")))?;
        let meant = |name: &str| level.is_none_or(|level| level == name);
        let before = values.len();
        let levels = set.levels.iter().enumerate().filter(|(_, level)| meant(&level.name));
        values.extend(levels.map(|(at, _)| (at, value.clone())));
        if let (Some(name), true) = (level, values.len() == before) {
            set.find(name).map_err(|error| Failure::usage(error.to_string()))?;
        }
    }
    Ok(values)
}

/// Messages per second, from `50/s`, `0.5/s`, `3000/m`, `10/h` or `200/d`.
fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a valid rate; write it like 50/s, 3000/m, 10/h or 200/d");
    let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    if number.is_finite() && number >= 0.0 { Ok(number / seconds) } else { Err(wrong()) }
}

fn described(simulation: &Simulation) -> String {
    let policy = match simulation.set.policy {
        Policy::Strict => "strict",
        Policy::Weighted => "weighted",
        Policy::Dedicated { borrow: false } => "dedicated",
        Policy::Dedicated { borrow: true } => "dedicated, borrowing",
    };
    let aging = simulation.set.age_after.map_or(String::new(), |wait| format!(", aging after {}", spelled(wait)));
    let (slots, time) = (simulation.slots, spelled(simulation.duration));
    format!("{policy}{aging}, {slots} slots, {time}, seed {}", simulation.seed)
}

fn print(simulation: &Simulation, forecast: &Forecast) -> Result<(), Failure> {
    let row = |level: &LevelForecast| {
        let [mean, p50, p95, p99, max] = [level.mean, level.p50, level.p95, level.p99, level.max].map(spelled);
        let [arrived, left] = [level.arrived, level.left].map(|count| count.to_string());
        let share = format!("{:.1} %", level.share_of_slots * 100.0);
        [level.level.clone(), arrived, mean, p50, p95, p99, max, share, left]
    };
    let heads = ["LEVEL", "ARRIVED", "WAIT MEAN", "P50", "P95", "P99", "MAX", "SLOTS", "LEFT"];
    output::table(heads, &forecast.levels.iter().map(row).collect::<Vec<_>>())?;
    let busy = forecast.utilisation * 100.0;
    let name = &simulation.set.name;
    output::complain(&format!("{name}: {}; slots busy {busy:.1} % of the time", described(simulation)));
    Ok(())
}

/// A time with three digits that matter.
fn spelled(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (number, unit) = match seconds {
        0.0 => return "0".into(),
        _ if seconds < 0.001 => (seconds * 1e6, "µs"),
        _ if seconds < 1.0 => (seconds * 1e3, "ms"),
        _ if seconds < 120.0 => (seconds, "s"),
        _ if seconds < 7200.0 => (seconds / 60.0, "m"),
        _ => (seconds / 3600.0, "h"),
    };
    let digits = if number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_unit() {
        assert_eq!([rate("50/s"), rate("3000/m"), rate("0.5/s")], [Ok(50.0), Ok(50.0), Ok(0.5)]);
        for bad in ["50", "50/w", "-1/s", "inf/s", "NaN/s", "x/s", "/s", ""] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_three_digits() {
        let texts = [12, 1_500, 38_440, 1_234_000, 60_000_000, 600_000_000, 999_960]
            .map(|micros| spelled(Duration::from_micros(micros)));
        assert_eq!(texts, ["12µs", "1.5ms", "38.4ms", "1.23s", "60s", "10m", "1000ms"]);
    }
}
