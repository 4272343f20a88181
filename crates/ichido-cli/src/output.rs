//! What goes to standard output: tables for people, JSON for programs; and talk, which goes to standard error.

use std::{
    io::{self, Write, stdout},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;

use crate::failure::Failure;

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing is said to people but what went wrong.
pub(crate) fn be_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Tells people, on standard error, what was done; a quiet command does not.
pub(crate) fn talk(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        eprintln!("{text}");
    }
}

/// Prints rows under headings, each column as wide as it must be.
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
    print(&lines(headings, rows).join("\n"))
}

/// The lines of such a table.
pub(crate) fn lines<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([headings[at].chars().count()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| row.each_ref().map(String::as_str));
    std::iter::once(headings).chain(rows).map(line).collect()
}

/// Prints a value as JSON, on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    print(&as_json(value)?)
}

/// A value as JSON, on one line.
pub(crate) fn as_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::found(error.to_string()))
}

/// Prints a line. A reader that has gone away (`| head`) is no failure.
pub(crate) fn print(line: &str) -> Result<(), Failure> {
    show(line).map(|_| ())
}

/// The same; false if nobody reads any more.
pub(crate) fn show(text: &str) -> Result<bool, Failure> {
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}

/// Text from outside, without what would change the terminal.
pub(crate) fn readable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// One line of what may be many, for tables.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= most { line } else { line.chars().take(most.saturating_sub(1)).chain(['…']).collect() }
}
