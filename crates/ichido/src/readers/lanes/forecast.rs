//! What a simulation has found: how long messages waited, level by level, and who had the slots.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// What to expect of a lane set under a load.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Forecast {
    /// The levels, highest first.
    pub levels: Vec<LevelForecast>,
    /// The part of the time in which a slot is busy, 0 to 1.
    pub utilisation: f64,
}

/// What to expect of one level.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LevelForecast {
    /// Its name.
    pub level: String,
    /// Messages that arrived, the backlog included.
    pub arrived: u64,
    /// Messages that have started.
    pub started: u64,
    /// Messages that finished.
    pub done: u64,
    /// Messages that still wait at the end.
    pub left: u64,
    /// The waiting time on average. In all of these, what still waits counts with what it has waited so far.
    #[serde(serialize_with = "milliseconds", rename = "wait_mean_ms")]
    pub mean: Duration,
    /// Half of the messages wait no longer.
    #[serde(serialize_with = "milliseconds", rename = "wait_p50_ms")]
    pub p50: Duration,
    /// 95 of 100 messages wait no longer.
    #[serde(serialize_with = "milliseconds", rename = "wait_p95_ms")]
    pub p95: Duration,
    /// 99 of 100 messages wait no longer.
    #[serde(serialize_with = "milliseconds", rename = "wait_p99_ms")]
    pub p99: Duration,
    /// No message waits longer.
    #[serde(serialize_with = "milliseconds", rename = "wait_max_ms")]
    pub max: Duration,
    /// Its part of the time of all slots, 0 to 1.
    pub share_of_slots: f64,
    /// All waiting times, the shortest first, in nanoseconds.
    #[serde(skip)]
    waits: Vec<u64>,
    #[serde(skip)]
    busy: Duration,
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1000.0)
}

impl Forecast {
    pub(super) fn new(mut levels: Vec<LevelForecast>, duration: Duration, slots: usize) -> Self {
        let all = duration.as_secs_f64() * f64::from(u32::try_from(slots).unwrap_or(u32::MAX));
        for level in &mut levels {
            level.share_of_slots = if all > 0.0 { level.busy.as_secs_f64() / all } else { 0.0 };
        }
        let utilisation = levels.iter().map(|level| level.share_of_slots).sum();
        Forecast { levels, utilisation }
    }
}

impl LevelForecast {
    /// From all waiting times, the shortest first.
    pub(super) fn new(level: &str, waits: Vec<u64>, (started, done, left): (u64, u64, u64), busy: Duration) -> Self {
        let sum: u128 = waits.iter().copied().map(u128::from).sum();
        let mean = u64::try_from(sum / waits.len().max(1) as u128).unwrap_or(u64::MAX);
        let mut forecast = LevelForecast {
            level: level.to_owned(),
            arrived: started + left,
            started,
            done,
            left,
            mean: Duration::from_nanos(mean),
            p50: Duration::ZERO,
            p95: Duration::ZERO,
            p99: Duration::ZERO,
            max: Duration::ZERO,
            share_of_slots: 0.0,
            waits,
            busy,
        };
        forecast.p50 = forecast.wait_of(500);
        forecast.p95 = forecast.wait_of(950);
        forecast.p99 = forecast.wait_of(990);
        forecast.max = forecast.wait_of(1000);
        forecast
    }

    /// So many of a thousand messages wait no longer than this.
    #[must_use]
    pub fn wait_of(&self, per_mille: usize) -> Duration {
        let rank = (self.waits.len() * per_mille.min(1000)).div_ceil(1000).max(1);
        Duration::from_nanos(self.waits.get(rank - 1).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_messages_the_percentiles_are_the_messages() {
        let forecast = LevelForecast::new("l", (1..=100).collect(), (98, 97, 2), Duration::ZERO);
        let nanos = [forecast.p50, forecast.p95, forecast.p99, forecast.max].map(|time| time.as_nanos());
        assert_eq!(nanos, [50, 95, 99, 100]);
        assert_eq!((forecast.mean.as_nanos(), forecast.arrived), (50, 100));
    }

    #[test]
    fn a_level_without_messages_waits_for_nothing() {
        let forecast = LevelForecast::new("l", Vec::new(), (0, 0, 0), Duration::ZERO);
        assert_eq!((forecast.mean, forecast.max), (Duration::ZERO, Duration::ZERO));
    }
}
