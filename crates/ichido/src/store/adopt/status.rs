//! Finds the status column of a table and what its values mean, or says what is to be asked: which column, which values, or,
//! where there is none, which rows are done. `guess` has the rules.

use super::{
    Adopt, Column, Counts, StatusChoice, TableLook, Wanted,
    guess::{self, Given},
    proposal::no_column,
    words,
};
use crate::{Error, Table, error::Result, handlers::suggestion};

/// The column that was named, or the one that sounds like a status and has values like one.
pub(super) async fn status<S: Adopt>(
    store: &S,
    look: &TableLook,
    key: &[String],
    wanted: &Wanted,
) -> Result<StatusChoice> {
    let groups = match &wanted.status {
        Some(name) => vec![(0, vec![status_named(look, key, name)?])],
        None => guess::statuses(look, key),
    };
    for (rank, group) in groups {
        let mut fitting = Vec::new();
        for column in group {
            let counts = store.counts(look, &column.name).await?;
            if wanted.status.is_some() || guess::few(&counts) {
                let values = guess::values(column, &counts, &given(column, wanted));
                fitting.push((column, StatusChoice { column: column.name.clone(), values, counts }));
            }
        }
        // Of `payment_status` and `delivery_status` each may be meant, whatever their values say; of `state` and `status` one may be a
        // place.
        let told_apart = |(_, choice): &&(&Column, StatusChoice)| choice.values.is_some();
        let best: Vec<_> = if rank == 0 && fitting.iter().filter(told_apart).count() == 1 {
            fitting.iter().filter(told_apart).cloned().collect()
        } else {
            fitting
        };
        match &best[..] {
            [] => {}
            [(column, choice)] => return told(column, choice.clone(), &given(column, wanted)),
            several => return Err(several_statuses(several)),
        }
    }
    no_status(store, look)
}

/// What to do where nothing is a status. Rows that are there already must be marked first: only the user knows which are done.
fn no_status<S: Adopt>(store: &S, look: &TableLook) -> Result<StatusChoice> {
    let name = if look.column("status").is_none() { "status" } else { "ichido_status" };
    let times = look.columns.iter().filter(|column| column.nullable && words::says_done(&column.name));
    let done = times.map(|column| column.name.as_str()).next();
    let statements = store.add_status(look, name, done)?.join("\n");
    let text = format!(
        "--table: no column of `{}` looks like a status; name one with --status, or add one. Only you know which rows are \
         done already: say so, or they are processed again\n{statements}\nThen run ichido adopt again; nothing was changed",
        look.table.name
    );
    Err(Error::Setup(text))
}

fn given(column: &Column, wanted: &Wanted) -> Given {
    let held = |value: &Option<String>| value.as_deref().map(|value| guess::as_held(column, value));
    Given { new: held(&wanted.new), done: held(&wanted.done), failed: held(&wanted.failed) }
}

fn status_named<'a>(look: &'a TableLook, key: &[String], name: &str) -> Result<&'a Column> {
    let Some(column) = look.column(name) else { return Err(no_column("--status", look, name)) };
    if key.contains(&column.name) {
        return Err(Error::Setup(format!("--status: `{}` is part of the key, which must not change", column.name)));
    }
    if column.generated {
        let text = "is generated, so that nobody can write it; name another column with --status";
        return Err(Error::Setup(format!("--status: `{}` {text}", column.name)));
    }
    if column.holds == super::Holds::Other {
        let text = "; a status must be CHAR, VARCHAR, an integer, a boolean or an enum";
        return Err(Error::Setup(format!("--status: `{}` has the type {}{text}", column.name, column.kind)));
    }
    Ok(column)
}

/// A choice whose values are known, or the refusal that says what was found.
fn told(column: &Column, choice: StatusChoice, given: &Given) -> Result<StatusChoice> {
    for (flag, value) in [("--new", &given.new), ("--done", &given.done), ("--failed", &given.failed)] {
        let unknown = |value: &&String| !column.admits.is_empty() && !column.admits.contains(value);
        let Some(value) = value.as_ref().filter(unknown) else { continue };
        let (admits, hint) = (column.admits.join(", "), suggestion(value, column.admits.iter().map(String::as_str)));
        let text = format!("{flag}: `{}` allows only {admits}, not `{value}`{hint}", column.name);
        return Err(Error::Setup(text));
    }
    if choice.values.is_some() {
        return Ok(choice);
    }
    let (name, counts) = (&column.name, shown(&choice.counts));
    let text = format!(
        "--status: cannot tell which values of `{name}` mean new and done ({counts}); give them with --new and --done"
    );
    Err(Error::Setup(text))
}

fn several_statuses(several: &[(&Column, StatusChoice)]) -> Error {
    let each = several.iter().map(|(column, choice)| format!("`{}` ({})", column.name, shown(&choice.counts)));
    let each = each.collect::<Vec<_>>().join(", ");
    Error::Setup(format!("--status: several columns could be the status: {each}; name one"))
}

/// The values and their numbers, on one line.
pub(super) fn shown(counts: &Counts) -> String {
    let one = |(value, count): &(Option<String>, u64)| match value {
        Some(value) => format!("`{value}` {count}"),
        None => format!("null {count}"),
    };
    match counts.values.len() {
        0 => "no rows".to_owned(),
        _ => counts.values.iter().take(8).map(one).collect::<Vec<_>>().join(", "),
    }
}

pub(super) async fn known_status<S: Adopt>(store: &S, look: &TableLook, known: &Table) -> Result<StatusChoice> {
    let Some(column) = look.column(&known.status.column) else {
        return Err(no_column("status", look, &known.status.column));
    };
    let counts = store.counts(look, &column.name).await?;
    Ok(StatusChoice { column: column.name.clone(), values: None, counts })
}
