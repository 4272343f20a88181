//! The upright axis of a chart: round steps for counts, and powers of ten for times, because waits differ by more than any other scale can
//! show. `chart` draws with it.

use std::time::Duration;

use ichido::stat::spell;

use super::words::rate;

/// What is shorter is at the bottom of a chart of times: a millisecond.
const SHORTEST: f64 = 1.0;

/// An axis, from its bottom to its top.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    unit: Unit,
    top: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    /// In milliseconds.
    Time,
    Percent,
}

impl Scale {
    /// Of counts, from nothing on.
    pub(super) fn counts() -> Self {
        Scale { unit: Unit::Count, top: 1.0 }
    }

    /// Of times in milliseconds, on a logarithmic scale.
    pub(super) fn times() -> Self {
        Scale { unit: Unit::Time, top: 1.0 }
    }

    /// Of parts of a hundred.
    pub(super) fn percents() -> Self {
        Scale { unit: Unit::Percent, top: 100.0 }
    }

    /// So high that this value fits.
    pub(super) fn up_to(self, highest: f64) -> Self {
        let top = match self.unit {
            Unit::Count => step(highest) * (highest / step(highest)).ceil(),
            Unit::Time => {
                let decades = (highest.max(SHORTEST) / SHORTEST).log10().ceil().max(1.0);
                SHORTEST * 10_f64.powf(decades)
            }
            Unit::Percent => 100.0,
        };
        Scale { top, ..self }
    }

    /// Which part of the way up a value is.
    pub(super) fn part(&self, value: f64) -> f64 {
        match self.unit {
            Unit::Count | Unit::Percent => value / self.top,
            Unit::Time => (value.max(SHORTEST) / SHORTEST).log10() / (self.top / SHORTEST).log10(),
        }
    }

    /// Where labels stand, from the bottom on.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.unit {
            Unit::Count => {
                let step = step(self.top);
                (0..=5_u32).map(|at| f64::from(at) * step).filter(|at| *at <= self.top * 1.001).collect()
            }
            Unit::Time => {
                (0..=12_i32).map(|at| SHORTEST * 10_f64.powi(at)).filter(|at| *at <= self.top * 1.001).collect()
            }
            Unit::Percent => vec![0.0, 25.0, 50.0, 75.0, 100.0],
        }
    }

    /// A value in words.
    pub(super) fn text(&self, value: f64) -> String {
        match self.unit {
            Unit::Count => rate(Some(value)),
            Unit::Time => whole_time(value).unwrap_or_else(|| spell(Duration::from_secs_f64(value.max(0.0) / 1000.0))),
            Unit::Percent => format!("{value:.0} %"),
        }
    }
}

/// The labels of the axis need no digits after the point.
fn whole_time(milliseconds: f64) -> Option<String> {
    let known = [(1.0, "1 ms"), (1e3, "1 s"), (1e4, "10 s"), (1e5, "100 s"), (1e6, "17 min"), (1e7, "2.8 h")];
    known.iter().find(|(value, _)| (value - milliseconds).abs() < 1e-9).map(|(_, text)| (*text).to_owned())
}

/// A round step of which four or five reach this value.
fn step(highest: f64) -> f64 {
    let raw = (highest / 4.0).max(0.25);
    let power = 10_f64.powf(raw.log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|round| round * power >= raw * 0.999);
    let step = round.unwrap_or(10.0) * power;
    if step < 1.0 { step.max(0.25) } else { step }
}

/// A small number, to reckon with.
pub(super) fn decimal(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_round_steps_up_to_the_highest() {
        for (highest, top, second) in
            [(7.0, 8.0, 2.0), (40.0, 40.0, 10.0), (41.0, 60.0, 20.0), (9300.0, 10_000.0, 2500.0)]
        {
            let scale = Scale::counts().up_to(highest);
            assert!((scale.top - top).abs() < 1e-9 && (scale.ticks()[1] - second).abs() < 1e-9, "{highest}: {scale:?}");
        }
    }

    #[test]
    fn times_have_a_decade_each() {
        let scale = Scale::times().up_to(4200.0);
        let texts: Vec<_> = scale.ticks().into_iter().map(|tick| scale.text(tick)).collect();
        assert_eq!(texts, ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        assert!((scale.part(100.0) - 0.5).abs() < 1e-9);
        assert!(scale.part(0.0).abs() < 1e-9, "what is shorter than a millisecond is at the bottom");
    }
}
