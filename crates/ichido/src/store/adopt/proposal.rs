//! Puts together what a table lacks to be a queue: asks the store, lets `guess` decide, and refuses with the reason and a way
//! out. Nothing is changed here.

use serde::Serialize;

use super::{
    Adopt, ClaimPlan, Column, Counts, FoundTable, TableLook,
    guess::{self, Values},
    named_table, nearest_table,
    status::{known_status, shown, status},
};
use crate::{Error, Status, Table, error::Result, handlers::suggestion};

/// What the user asks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The queue's name.
    pub queue: String,
    /// The table, as [`find`] found it.
    pub table: FoundTable,
    /// The status column, if it is named.
    pub status: Option<String>,
    /// The owner column, if it is named.
    pub owner: Option<String>,
    /// The value of unprocessed rows, if it is given.
    pub new: Option<String>,
    /// The value of done rows, if it is given.
    pub done: Option<String>,
    /// The value of rows that have failed, if it is given.
    pub failed: Option<String>,
    /// How the table is a queue already, if it is: only what the table lacks is looked for.
    pub known: Option<Table>,
}

/// How a table can be a queue, and what it lacks.
#[derive(Debug, Clone, Serialize)]
pub struct Proposal {
    /// The queue's name.
    pub queue: String,
    /// The table.
    pub table: FoundTable,
    /// All its columns.
    pub columns: Vec<Column>,
    /// The key columns.
    pub key: Vec<String>,
    /// Its status column.
    pub status: StatusChoice,
    /// Its owner column.
    pub owner: OwnerChoice,
    /// How rows are claimed, and the statements that the table lacks.
    pub claim: ClaimPlan,
    /// What is worth a look.
    pub notes: Vec<String>,
    /// The whole mapping.
    #[serde(skip)]
    pub mapping: Table,
}

/// The status column.
#[derive(Debug, Clone, Serialize)]
pub struct StatusChoice {
    /// The column.
    pub column: String,
    /// What its values mean; none if the configuration says so already.
    #[serde(flatten)]
    pub values: Option<Values>,
    /// Which values there are.
    pub counts: Counts,
}

/// The owner column.
#[derive(Debug, Clone, Serialize)]
pub struct OwnerChoice {
    /// The column.
    pub column: String,
    /// Is it there already?
    pub there: bool,
    /// Why another column may be meant: unprocessed rows have something in it, and another program may be at work on them.
    pub doubt: Option<String>,
}

/// How a new owner column is called: the first of these that is free.
const OWNER_NAMES: [&str; 3] = ["process_id", "ichido_owner", "ichido_process_id"];

/// Looks at a table and says how it can be a queue.
///
/// # Errors
/// [`Error::Setup`] with the reason and a way out if it cannot, or if it cannot be told how.
pub async fn propose<S: Adopt>(store: &S, wanted: &Wanted) -> Result<Proposal> {
    let found = wanted.table.clone();
    let look = store.look(&found).await?;
    let key = key(&look)?;
    let status = match &wanted.known {
        Some(known) => known_status(store, &look, known).await?,
        None => status(store, &look, &key, wanted).await?,
    };
    let mut notes = Vec::new();
    let mut mapping = mapping(&look, &key, &status, wanted);
    let owner = owner(store, &look, &key, &status, wanted, &mut mapping, &mut notes).await?;
    mapping.owner.clone_from(&owner.column);
    let claim = store.claim_plan(&wanted.queue, &mapping, owner.there).await.map_err(with_way_out)?;
    notes.extend(left_alone(&status, &mapping));
    if !owner.there {
        notes.push(format!("programs that insert into `{}` without column names must name the columns", found.name));
    }
    Ok(Proposal {
        queue: wanted.queue.clone(),
        table: found,
        columns: look.columns,
        key,
        status,
        owner,
        claim,
        notes,
        mapping,
    })
}

/// The table that is meant by a name.
///
/// # Errors
/// [`Error::Setup`] if there is none, with the nearest one, or if it can never be a queue.
pub async fn find<S: Adopt>(store: &S, schema: Option<&str>, name: &str) -> Result<FoundTable> {
    let tables = store.tables(schema).await?;
    let Some(found) = named_table(name, &tables) else {
        let hint = nearest_table(schema, name, &store.names().await?);
        let place = schema.map(|schema| format!(" in `{schema}`")).unwrap_or_default();
        return Err(Error::Setup(format!("--table: there is no table `{name}`{place}{hint}")));
    };
    match &found.unfit {
        Some(why) => Err(Error::Setup(format!("--table: `{}` {why}", found.name))),
        None if found.name.to_lowercase().starts_with("ichido_") => {
            Err(Error::Setup(format!("--table: `{}` is one of ichido's own tables", found.name)))
        }
        None => Ok(found.clone()),
    }
}

fn key(look: &TableLook) -> Result<Vec<String>> {
    let Some(key) = guess::key(look) else {
        let name = &look.table.name;
        let text = format!(
            "--table: `{name}` has neither a primary key nor a unique index on NOT NULL columns, so its rows cannot be told apart; add one first"
        );
        return Err(Error::Setup(text));
    };
    Ok(key.columns.clone())
}

/// The mapping so far; its owner is still to be found.
fn mapping(look: &TableLook, key: &[String], status: &StatusChoice, wanted: &Wanted) -> Table {
    if let Some(known) = &wanted.known {
        return known.clone();
    }
    let (new, done, failed) = match &status.values {
        Some(values) => (&*values.new.value, &*values.done.value, values.failed.as_ref()),
        None => ("", "", None),
    };
    let mut values = Status::new(&status.column, new, done);
    values.failed = failed.map(|guess| guess.value.clone());
    let mut table = Table::new(&look.table.name, "", values).key(key);
    table.schema.clone_from(&look.table.schema);
    table
}

/// The owner column: the one that was named, one that sounds like it and is free, or a new one.
async fn owner<S: Adopt>(
    store: &S,
    look: &TableLook,
    key: &[String],
    status: &StatusChoice,
    wanted: &Wanted,
    mapping: &mut Table,
    notes: &mut Vec<String>,
) -> Result<OwnerChoice> {
    let known = wanted.known.as_ref().map(|known| &known.owner);
    let named = wanted.owner.as_ref().or(known);
    let candidates = match named {
        Some(name) => look.column(name).into_iter().collect(),
        None => guess::owners(look, key, &status.column),
    };
    let mut doubt = None;
    for column in candidates {
        if column.name == status.column || key.contains(&column.name) {
            return Err(Error::Setup(format!("--owner: `{}` is already the status or part of the key", column.name)));
        }
        mapping.owner.clone_from(&column.name);
        let owned = if column.fits_owner && known.is_none() { store.owned(look, mapping).await? } else { 0 };
        let (name, rows) = (&column.name, if owned == 1 { "row has" } else { "rows have" });
        if owned == 0 && guess::is_owner(column) || named.is_some() {
            let text = || {
                format!("{owned} unprocessed {rows} an owner in `{name}`: no process will claim them until it is null")
            };
            notes.extend((owned > 0).then(text));
            return Ok(OwnerChoice { column: name.clone(), there: true, doubt });
        }
        doubt = doubt.or_else(|| match owned {
            0 => Some(format!("`{name}` may be the owner column, but it can mean something else")),
            _ => Some(format!("`{name}` looks like the owner, but {owned} unprocessed {rows} a value in it")),
        });
    }
    new_owner(look, named).map(|column| OwnerChoice { column, there: false, doubt })
}

/// The name of an owner column to be added. A name that is near to one that is there is a slip.
fn new_owner(look: &TableLook, named: Option<&String>) -> Result<String> {
    let Some(name) = named else {
        let free = OWNER_NAMES.into_iter().find(|name| look.column(name).is_none());
        return free.map(str::to_owned).ok_or_else(|| {
            Error::Setup(format!(
                "--table: `{}` already has the columns {}; name the owner with --owner",
                look.table.name,
                OWNER_NAMES.join(", ")
            ))
        });
    };
    let near = crate::handlers::nearest(name, look.columns.iter().map(|column| column.name.as_str()));
    if near.is_some() { Err(no_column("--owner", look, name)) } else { Ok(name.clone()) }
}

pub(super) fn no_column(flag: &str, look: &TableLook, name: &str) -> Error {
    let hint = suggestion(name, look.columns.iter().map(|column| column.name.as_str()));
    Error::Setup(format!("{flag}: `{}` has no column `{name}`{hint}", look.table.name))
}

/// Adds to what a store refuses how the user gets out of it.
fn with_way_out(error: Error) -> Error {
    let Error::Setup(text) = error else { return error };
    let path = text.split(':').next().unwrap_or_default();
    let way_out = match path.rsplit('.').next() {
        Some("owner") => "; name another column with --owner, or a new one, which will be added",
        Some("status") => "; give other values with --new, --done and --failed, or another column with --status",
        _ => "",
    };
    Error::Setup(format!("{text}{way_out}"))
}

/// Values that mean nothing to the queue.
fn left_alone(status: &StatusChoice, mapping: &Table) -> Option<String> {
    let Status { new, done, failed, .. } = &mapping.status;
    let used: Vec<&String> = [Some(new), done.as_ref(), failed.as_ref()].into_iter().flatten().collect();
    let others =
        status.counts.values.iter().filter(|(value, _)| value.as_ref().is_none_or(|value| !used.contains(&value)));
    let others = Counts { values: others.cloned().collect(), ..Counts::default() };
    let text = || format!("rows with another status are left alone: {}", shown(&others));
    (!others.values.is_empty()).then(text)
}
