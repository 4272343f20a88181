//! What goes to standard output: tables for people, JSON for programs; and talk, which goes to standard error. Everything passes
//! `terminal`, so that no command need know what came from outside.

#![allow(clippy::print_stderr, reason = "the one place that prints")]

use std::{
    io::{self, IsTerminal, Write, stdout},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;

use crate::{
    failure::Failure,
    terminal::{escaped, in_json, on_one_line},
};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Moves to the upper left corner and wipes the screen.
const WIPE: &str = "\x1b[H\x1b[2J";

/// From now on nothing is said to people but what went wrong.
pub(crate) fn be_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Tells people, on standard error, what was done; a quiet command does not.
pub(crate) fn talk(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        complain(text);
    }
}

/// Tells people, on standard error, what went wrong.
pub(crate) fn complain(text: &str) {
    eprintln!("{}", escaped(text));
}

/// Prints rows under headings, each column as wide as it must be.
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
    print(&lines(headings, rows).join("\n"))
}

/// The lines of such a table. What is in a cell stays on its line.
pub(crate) fn lines<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| on_one_line(cell))).collect();
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
    write(&as_json(value)?).map(|_| ())
}

fn as_json(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(value).map_err(|error| Failure::found(error.to_string()))?;
    Ok(in_json(&json))
}

/// Prints a line. A reader that has gone away (`| head`) is no failure.
pub(crate) fn print(line: &str) -> Result<(), Failure> {
    write(&escaped(line)).map(|_| ())
}

/// Shows a text, or a value as JSON, instead of what was shown before; false if nobody reads any more.
pub(crate) fn refresh(text: Option<&str>, value: &impl Serialize, wipe: bool) -> Result<bool, Failure> {
    match text {
        Some(text) if wipe && stdout().is_terminal() => write(&format!("{WIPE}{}", escaped(text))),
        Some(text) => write(&escaped(text)),
        None => write(&as_json(value)?),
    }
}

fn write(text: &str) -> Result<bool, Failure> {
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}

/// A text of several lines from outside: the further ones are indented, so that none passes for a line of ours.
pub(crate) fn indented(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("\n    ")
}

/// One line of what may be many, for tables.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= most { line } else { line.chars().take(most.saturating_sub(1)).chain(['…']).collect() }
}
