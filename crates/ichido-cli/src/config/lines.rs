//! Spells what `ichido adopt` adds to a file: the lines of a queue, and an example of an action. What is spelled here is read
//! back as it was meant, whatever is in it.

use std::fmt::Write;

use ichido::{
    adopt::{Column, Holds, Proposal},
    sql::placeholder,
};

use super::spelling;

/// The lines that say where the database is; the address is spelled already.
#[must_use]
pub fn database_lines(url: &str) -> String {
    format!("[database]\nurl = {url}\n")
}

/// The lines of a queue, with a remark behind what should be looked at.
#[must_use]
pub fn queue_lines(proposal: &Proposal) -> String {
    let mapping = &proposal.mapping;
    let column = proposal.columns.iter().find(|column| column.name == mapping.status.column);
    let value = |value: &str| scalar(column, value);
    let part = |name: &str| {
        if name.contains(['.', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
    };
    let table = mapping.schema.iter().chain([&mapping.name]).map(|name| part(name)).collect::<Vec<_>>().join(".");
    let mut status = format!("column = {}, new = {}", text(&mapping.status.column), value(&mapping.status.new));
    for (key, given) in [("done", &mapping.status.done), ("failed", &mapping.status.failed)] {
        if let Some(given) = given {
            let _ = write!(status, ", {key} = {}", value(given));
        }
    }
    let list = proposal.key.iter().map(|name| text(name)).collect::<Vec<_>>().join(", ");
    let (queue, owner) = (key(&proposal.queue), text(&mapping.owner));
    format!(
        "[queues.{queue}]\ntable  = {}\nkey    = [{list}]\nstatus = {{ {status} }}{}\nowner  = {owner}\n",
        text(&table),
        remark(proposal)
    )
}

/// What to look at, behind the line of the status.
fn remark(proposal: &Proposal) -> String {
    let Some(values) = &proposal.status.values else { return String::new() };
    let all: Vec<_> = values.unsure().map(|(name, _)| format!("{name} is a guess")).collect();
    if all.is_empty() { String::new() } else { format!("  # check this: {}", all.join("; ")) }
}

/// An action to begin with, as a remark: what is to be done with a row, nobody can guess.
#[must_use]
pub fn action_lines(proposal: &Proposal) -> String {
    let names = proposal.columns.iter().map(|column| column.name.as_str());
    let names =
        names.filter(|name| ![&proposal.mapping.owner, &proposal.mapping.status.column].iter().any(|own| own == name));
    let names: Vec<_> = names.map(placeholder).collect();
    format!(
        "# What to do with a row. Write your own statement and remove the leading # of each line.\n# [actions.{}]\n# from = {}\n# sql  = [{}]\n",
        action_name(&proposal.queue),
        text(&proposal.queue),
        text(&format!("insert into … values ({})", names.join(", ")))
    )
}

/// `received_order` becomes `ReceivedOrder`.
fn action_name(queue: &str) -> String {
    let parts = queue.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let name: String = parts.map(|part| part[..1].to_ascii_uppercase() + &part[1..]).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("Action{name}") }
}

/// A value as its column's type would be written.
fn scalar(column: Option<&Column>, value: &str) -> String {
    let plain = match column.map(|column| column.holds) {
        Some(Holds::Number) => value.parse::<i64>().is_ok_and(|number| number.to_string() == value),
        Some(Holds::Flag) => value == "true" || value == "false",
        _ => false,
    };
    if plain { value.to_owned() } else { text(value) }
}

/// A key of a table.
pub(super) fn key(name: &str) -> String {
    let spelled = spelling::key("", name);
    if spelled == name { spelled } else { text(name) }
}

/// A text in quotes; what looks like a variable is none.
pub(super) fn text(text: &str) -> String {
    let mut spelled = String::from("\"");
    for c in text.replace("${", "$${").chars() {
        match c {
            '"' | '\\' => spelled.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(spelled, "\\u{:04X}", u32::from(c));
            }
            c => spelled.push(c),
        }
    }
    spelled + "\""
}
