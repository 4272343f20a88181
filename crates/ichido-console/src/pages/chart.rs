//! Charts as SVG, drawn on the server: columns that stand on each other for counts, lines for times. What is here has only places and
//! texts; `chart.html` writes the markup, escapes the texts, and repeats the numbers as a table for whoever cannot see them.

use std::fmt::Write;

use super::{
    scale::{Scale, decimal},
    words::NONE,
};

/// About as wide as a chart is on a screen, so that its texts are as large as they say.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 454.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 164.0;

/// How many colours there are; what comes after them uses them again.
const COLOURS: usize = 6;

/// A drawn chart.
#[derive(Debug, Default)]
pub(super) struct Chart {
    pub(super) title: String,
    /// Beside the title.
    pub(super) note: String,
    /// Where there is nothing to draw: why.
    pub(super) nothing: String,
    /// For who cannot see it.
    pub(super) told: String,
    /// What is across it, for the table.
    pub(super) across: &'static str,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) names: Vec<String>,
    pub(super) levels: Vec<Tick>,
    pub(super) times: Vec<Tick>,
    pub(super) columns: Vec<Column>,
    pub(super) curves: Vec<Curve>,
    pub(super) points: Vec<Point>,
    pub(super) targets: Vec<Target>,
    pub(super) hits: Vec<Hit>,
    pub(super) rows: Vec<TableRow>,
}

/// A label at a place.
#[derive(Debug)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) text: String,
    pub(super) anchor: &'static str,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) colour: usize,
}

#[derive(Debug)]
pub(super) struct Curve {
    pub(super) path: String,
    pub(super) colour: usize,
}

/// A value without neighbours, which a line cannot show.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) colour: usize,
}

#[derive(Debug)]
pub(super) struct Target {
    pub(super) at: f64,
    pub(super) text: String,
    pub(super) colour: usize,
}

/// A stripe that tells its values to whoever points at it.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) x: f64,
    pub(super) width: f64,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct TableRow {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// What is drawn: a value for each place, from left to right.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) values: Vec<Option<f64>>,
    /// A line that the values should stay below.
    pub(super) target: Option<f64>,
}

/// The names of the places, and where labels stand: the number of a place, or the one after the last.
pub(super) struct Across {
    pub(super) name: &'static str,
    pub(super) names: Vec<String>,
    pub(super) labels: Vec<(usize, String)>,
}

impl Chart {
    /// Counts, standing on each other.
    pub(super) fn columns(title: &str, scale: Scale, series: &[Series], across: &Across) -> Self {
        let count = across.names.len();
        let sums: Vec<f64> = (0..count).map(|at| series.iter().filter_map(|one| one.values[at]).sum()).collect();
        let highest = sums.iter().copied().fold(0.0, f64::max);
        let mut chart = Self::empty(title, series.iter().map(|one| one.name.clone()).collect());
        if highest <= 0.0 {
            return chart;
        }
        let scale = scale.up_to(highest);
        for at in 0..count {
            let (mut below, (x, width)) = (0.0, place(at, count));
            for (colour, value) in series.iter().enumerate().filter_map(|(n, one)| Some((n, one.values[at]?))) {
                if value > 0.0 {
                    let (low, high) = (y(scale.part(below)), y(scale.part(below + value)));
                    let height = rounded((low - high).max(0.6));
                    let (x, width) = (rounded(x + width * 0.12), rounded(width * 0.76));
                    chart.columns.push(Column { x, y: rounded(low - height), width, height, colour: colour % COLOURS });
                    below += value;
                }
            }
        }
        chart.finish(&scale, series, across);
        chart
    }

    /// Values over places, a line each.
    pub(super) fn lines(title: &str, scale: Scale, series: &[Series], across: &Across) -> Self {
        let values = series.iter().flat_map(|one| one.values.iter().flatten()).copied();
        let highest = values.fold(0.0, f64::max);
        let mut chart = Self::empty(title, series.iter().map(|one| one.name.clone()).collect());
        if highest <= 0.0 {
            return chart;
        }
        let scale = scale.up_to(series.iter().filter_map(|one| one.target).fold(highest, f64::max));
        for (colour, one) in series.iter().enumerate() {
            chart.line(&scale, colour % COLOURS, one, across.names.len());
        }
        chart.finish(&scale, series, across);
        chart
    }

    fn line(&mut self, scale: &Scale, colour: usize, series: &Series, count: usize) {
        let mut path = String::new();
        for (at, value) in series.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let (left, width) = place(at, count);
            let (x, y) = (rounded(left + width / 2.0), rounded(y(scale.part(*value))));
            let alone = |at: Option<usize>| at.and_then(|at| series.values.get(at)).is_none_or(Option::is_none);
            let begins = alone(at.checked_sub(1));
            if begins && alone(Some(at + 1)) {
                self.points.push(Point { x, y, colour });
            }
            let _ = write!(path, "{}{x} {y}", if begins { 'M' } else { 'L' });
        }
        self.curves.push(Curve { path, colour });
        if let Some(target) = series.target {
            let text = format!("target of {}: {}", series.name, scale.text(target));
            self.targets.push(Target { at: rounded(y(scale.part(target))), text, colour });
        }
    }

    fn empty(title: &str, names: Vec<String>) -> Self {
        Chart {
            title: title.into(),
            names,
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            right: RIGHT,
            top: TOP,
            bottom: BOTTOM,
            ..Chart::default()
        }
    }

    /// Axes, labels, and the same in words.
    fn finish(&mut self, scale: &Scale, series: &[Series], across: &Across) {
        let count = across.names.len();
        let tick = |value: f64| Tick { at: rounded(y(scale.part(value))), text: scale.text(value), anchor: "end" };
        self.levels = scale.ticks().into_iter().map(tick).collect();
        for (at, text) in &across.labels {
            let anchor = if *at == 0 {
                "start"
            } else if *at >= count {
                "end"
            } else {
                "middle"
            };
            self.times.push(Tick { at: rounded(place(*at, count).0), text: text.clone(), anchor });
        }
        self.across = across.name;
        for (at, name) in across.names.iter().enumerate() {
            let value = |one: &Series| one.values[at].map_or_else(|| NONE.to_owned(), |value| scale.text(value));
            let values: Vec<_> = series.iter().map(value).collect();
            let told: Vec<_> =
                series.iter().zip(&values).map(|(one, value)| format!("{}: {value}", one.name)).collect();
            let (x, width) = place(at, count);
            self.hits.push(Hit { x: rounded(x), width: rounded(width), text: format!("{name}\n{}", told.join("\n")) });
            self.rows.push(TableRow { name: name.clone(), values });
        }
        self.rows.reverse();
        let last = |one: &Series| {
            let last = one.values.iter().rev().flatten().next();
            last.map(|last| format!("{} last {}", one.name, scale.text(*last)))
        };
        let told: Vec<_> = series.iter().filter_map(last).collect();
        self.told = format!("{}: {}", self.title, told.join(", "));
    }

    /// Is there nothing to draw?
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.curves.is_empty()
    }

    /// With a note beside the title.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// With what is said where there is nothing to draw.
    pub(super) fn or_else(mut self, nothing: impl Into<String>) -> Self {
        self.nothing = nothing.into();
        self
    }
}

/// A small line without axes, as high as its highest value; none without any value.
pub(super) fn spark(values: &[f64]) -> Option<String> {
    let highest = values.iter().copied().fold(0.0, f64::max);
    if highest <= 0.0 || values.len() < 2 {
        return None;
    }
    let step = 88.0 / decimal(values.len() - 1);
    let mut path = String::new();
    for (at, value) in values.iter().enumerate() {
        let (x, y) = (rounded(1.0 + step * decimal(at)), rounded(20.0 - 18.0 * value / highest));
        let _ = write!(path, "{}{x} {y}", if at == 0 { 'M' } else { 'L' });
    }
    Some(path)
}

/// Where a place begins, and how wide it is.
fn place(at: usize, count: usize) -> (f64, f64) {
    let width = (RIGHT - LEFT) / decimal(count.max(1));
    (LEFT + width * decimal(at), width)
}

fn y(part: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * part.clamp(0.0, 1.0)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn across(count: usize) -> Across {
        Across {
            name: "Minute",
            names: (0..count).map(|at| format!("{at}")).collect(),
            labels: vec![(0, "then".into())],
        }
    }

    fn series(name: &str, values: &[Option<f64>]) -> Series {
        Series { name: name.into(), values: values.to_vec(), target: None }
    }

    #[test]
    fn columns_stand_on_each_other_and_reach_the_sum() {
        let both = vec![series("a", &[Some(10.0), None]), series("b", &[Some(30.0), Some(0.0)])];
        let chart = Chart::columns("Out", Scale::counts(), &both, &across(2));
        assert_eq!(chart.columns.len(), 2);
        let (low, high) = (&chart.columns[0], &chart.columns[1]);
        assert!((low.y + low.height - BOTTOM).abs() < 0.2, "{low:?}");
        assert!((high.y + high.height - low.y).abs() < 0.2, "{high:?} stands on {low:?}");
        assert!((high.y - TOP).abs() < 0.2, "40 is the highest tick");
        assert_eq!(chart.rows[0].values, [NONE, "0"], "the newest first");
    }

    #[test]
    fn a_line_breaks_where_nothing_is_known() {
        let gap = vec![series("a", &[Some(1.0), Some(2.0), None, Some(3.0)])];
        let chart = Chart::lines("Wait", Scale::times(), &gap, &across(4));
        assert_eq!(chart.curves[0].path.matches('M').count(), 2);
        assert_eq!(chart.points.len(), 1, "the last value has no neighbour");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(Chart::columns("Out", Scale::counts(), &[series("a", &[None, Some(0.0)])], &across(2)).is_empty());
        assert!(Chart::lines("Wait", Scale::times(), &[], &across(2)).is_empty());
        assert_eq!(spark(&[0.0, 0.0]), None);
        assert_eq!(spark(&[0.0, 2.0]).as_deref(), Some("M1 20L89 2"));
    }
}
