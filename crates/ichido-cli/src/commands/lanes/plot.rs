//! The plot of a forecast, as SVG text: for each level, how many of its messages have started after which wait. Time is on a
//! logarithmic scale, from a millisecond on; the colours follow the viewer's light or dark mode.

use std::{fmt::Write, time::Duration};

use ichido::lanes::{Forecast, LevelForecast};

use super::spelled;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 570.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 350.0;
const HEIGHT: f64 = 410.0;

/// What is shorter is at the left edge.
const SHORTEST: f64 = 0.001;

/// Told apart in both modes, and also by people who do not see all of them as different; levels beyond are dashed.
const COLOURS: [(&str, &str); 6] = [
    ("#0057b8", "#6cb2ff"),
    ("#c2410c", "#ff9e64"),
    ("#15803d", "#67d391"),
    ("#7e22ce", "#d3a4ff"),
    ("#a16207", "#f5d042"),
    ("#0e7490", "#5fd7e8"),
];

const DASHES: [&str; 3] = ["none", "8 4", "2 4"];

/// The whole file.
pub(super) fn svg(title: &str, forecast: &Forecast) -> String {
    let decades = decades(forecast);
    let mut text = String::new();
    let _ = write!(
        text,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui, sans-serif" font-size="12">
<title>{title}</title>
<style>
{style}</style>
<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>
<text x="{LEFT}" y="24" font-size="14">{title}</text>
"#,
        title = escaped(title),
        style = style(forecast.levels.len()),
    );
    grid(&mut text, decades);
    for (at, level) in forecast.levels.iter().enumerate() {
        curve(&mut text, at, level, decades);
    }
    text.push_str("</svg>\n");
    text
}

fn style(levels: usize) -> String {
    let mut light = String::from(".paper { fill: #ffffff } text { fill: #1f2328 } .grid { stroke: #d0d7de }\n");
    let mut dark = String::from(".paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }\n");
    for at in 0..levels {
        let (in_light, in_dark) = COLOURS[at % COLOURS.len()];
        let dash = DASHES[at / COLOURS.len() % DASHES.len()];
        let _ = writeln!(light, ".l{at} {{ stroke: {in_light}; stroke-dasharray: {dash} }}");
        let _ = writeln!(dark, ".l{at} {{ stroke: {in_dark} }}");
    }
    format!("{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

/// How many powers of ten the time axis has.
fn decades(forecast: &Forecast) -> u32 {
    let longest = forecast.levels.iter().map(|level| level.max.as_secs_f64()).fold(0.0, f64::max);
    (1..9).find(|decades| longest <= SHORTEST * 10_f64.powi(*decades)).unwrap_or(9).unsigned_abs().max(2)
}

fn x(wait: Duration, decades: u32) -> f64 {
    let part = (wait.as_secs_f64().max(SHORTEST) / SHORTEST).log10() / f64::from(decades);
    LEFT + (RIGHT - LEFT) * part.min(1.0)
}

fn y(per_mille: usize) -> f64 {
    BOTTOM - (BOTTOM - TOP) * f64::from(u32::try_from(per_mille).unwrap_or(1000)) / 1000.0
}

fn grid(text: &mut String, decades: u32) {
    for decade in 0..=decades {
        let wait = Duration::from_millis(10_u64.pow(decade));
        let (at, label, below) = (x(wait, decades), spelled(wait), BOTTOM + 18.0);
        let _ = writeln!(text, r#"<line class="grid" x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{BOTTOM}"/>"#);
        let _ = writeln!(text, r#"<text x="{at:.1}" y="{below}" text-anchor="middle">{label}</text>"#);
    }
    for percent in [0, 25, 50, 75, 95, 100] {
        let (at, beside) = (y(percent * 10), LEFT - 8.0);
        let _ = writeln!(text, r#"<line class="grid" x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}"/>"#);
        let shift = at + 4.0;
        let _ = writeln!(text, r#"<text x="{beside}" y="{shift:.1}" text-anchor="end">{percent} %</text>"#);
    }
    let (middle, below) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0);
    let _ = writeln!(
        text,
        r#"<text x="{middle}" y="{below}" text-anchor="middle">share of messages started, by waiting time</text>"#
    );
}

/// The curve of a level, and its line in the legend.
fn curve(text: &mut String, at: usize, level: &LevelForecast, decades: u32) {
    let point = |per_mille: usize| format!("{:.1},{:.1}", x(level.wait_of(per_mille), decades), y(per_mille));
    let points: Vec<_> = (0..=200).map(|step| point(step * 5)).collect();
    let _ = writeln!(
        text,
        r#"<polyline class="l{at}" fill="none" stroke-width="2" points="{:.1},{BOTTOM} {}"/>"#,
        x(level.wait_of(0), decades),
        points.join(" ")
    );
    let row = TOP + 8.0 + 34.0 * f64::from(u32::try_from(at).unwrap_or_default()).min(15.0) * 0.6;
    let (from, to, beside, name) = (RIGHT + 14.0, RIGHT + 38.0, RIGHT + 44.0, escaped(&level.level));
    let line = row - 4.0;
    let _ = writeln!(text, r#"<line class="l{at}" stroke-width="2" x1="{from}" y1="{line}" x2="{to}" y2="{line}"/>"#);
    let _ = writeln!(text, r#"<text x="{beside}" y="{row}">{name}, p95 {}</text>"#, spelled(level.p95));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
