//! From a table that is there to a queue: what a table looks like, which of its columns probably say what, and what it lacks.
//! Stores look and explain ([`Adopt`]), [`propose`] decides; nothing here knows SQL, and nothing is changed before
//! [`Adopt::apply`].

mod catalog_text;
mod doubts;
mod guess;
mod names;
mod proposal;
mod status;
mod words;

use serde::Serialize;

pub use self::{
    catalog_text::{checks_in, listed, literals, plain_default, unquoted},
    guess::{Guess, Values},
    names::{TableName, nearest_table},
    proposal::{OwnerChoice, Proposal, StatusChoice, Wanted, find, propose},
};
use crate::{Operate, Table, error::Result};

/// A table is looked at in no more rows than this, so that a large one costs seconds at most.
pub const MOST_ROWS: u64 = 100_000;

/// Of the values of a column, this many are told.
pub const MOST_VALUES: usize = 20;

/// Inspects a table that may become a queue, and makes it one.
pub trait Adopt: Operate {
    /// The tables and views of a schema; without one, what a plain name can mean.
    fn tables(&self, schema: Option<&str>) -> impl Future<Output = Result<Vec<FoundTable>>> + Send;

    /// The tables of all schemas, to find what a name that nothing has may mean.
    fn names(&self) -> impl Future<Output = Result<Vec<TableName>>> + Send;

    /// What a table looks like.
    fn look(&self, table: &FoundTable) -> impl Future<Output = Result<TableLook>> + Send;

    /// The values of a column and how often they occur.
    fn counts(&self, look: &TableLook, column: &str) -> impl Future<Output = Result<Counts>> + Send;

    /// How many unprocessed rows have an owner already, among those that are looked at.
    fn owned(&self, look: &TableLook, table: &Table) -> impl Future<Output = Result<u64>> + Send;

    /// How rows of a table would be claimed, and what it lacks to be this queue. Refuses what cannot work.
    fn claim_plan(
        &self,
        queue: &str,
        table: &Table,
        owner_is_there: bool,
    ) -> impl Future<Output = Result<ClaimPlan>> + Send;

    /// The statements by which a user adds a status column, with a gap where only the user knows which rows are done; a value in
    /// the column `done` may say it.
    ///
    /// # Errors
    /// [`crate::Error::Setup`] if a name cannot be quoted.
    fn add_status(&self, look: &TableLook, status: &str, done: Option<&str>) -> Result<Vec<String>>;

    /// Runs the statements of a [`ClaimPlan`]. What was done before one of them failed is found the next time.
    fn apply(&self, statements: &[String]) -> impl Future<Output = Result<()>> + Send;
}

/// A table or view that the database has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundTable {
    /// Its schema, if it was asked for.
    pub schema: Option<String>,
    /// Its name, as the database writes it.
    pub name: String,
    /// What tells it from every other one, whatever schema was named.
    #[serde(skip)]
    pub id: String,
    /// Why it cannot be a queue and what can be done, if it cannot.
    pub unfit: Option<String>,
}

/// What a table looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLook {
    /// Which table.
    pub table: FoundTable,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// Its unique keys.
    pub keys: Vec<UniqueKey>,
}

/// A column of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name, as the database writes it.
    pub name: String,
    /// Its type, as people read it.
    pub kind: String,
    /// What its values are.
    pub holds: Holds,
    /// Can it be null?
    pub nullable: bool,
    /// Does the database compute its values?
    pub generated: bool,
    /// What it is unless something else is said, if that is a plain value.
    pub default: Option<String>,
    /// The values that its type or a constraint admits; empty: any.
    pub admits: Vec<String>,
    /// Can it say which process has a row, whatever is in it now?
    pub fits_owner: bool,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// Texts, also those of an enumeration.
    Text,
    /// Whole numbers.
    Number,
    /// `true` and `false`.
    Flag,
    /// Something that is no status.
    Other,
}

/// Columns that tell rows apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey {
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// Is it the primary key?
    pub primary: bool,
    /// Can none of them be null?
    pub not_null: bool,
}

/// How often values occur.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// In how many rows.
    pub rows: u64,
    /// Are these all rows of the table?
    pub all: bool,
    /// The values and their numbers, the most frequent first; none is null.
    pub values: Vec<(Option<String>, u64)>,
}

/// How rows are claimed.
#[derive(Debug, Clone, Serialize)]
pub struct ClaimPlan {
    /// What the database says it would do, step by step.
    pub steps: Vec<String>,
    /// Does an index know the claimable rows in claim order?
    pub by_index: bool,
    /// The statements that the table lacks: its owner column, its index on claimable rows, its index by owner.
    pub ddl: Vec<String>,
}

impl TableLook {
    /// The column of this name: exactly, or the only one that differs in its case alone.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        named(name, &self.columns, |column| &column.name)
    }
}

/// What a name means among these.
#[must_use]
pub fn named_table<'a>(name: &str, tables: &'a [FoundTable]) -> Option<&'a FoundTable> {
    named(name, tables, |table| &table.name)
}

/// What is called exactly so, or the only one whose name differs in its case alone.
fn named<'a, T>(name: &str, all: &'a [T], name_of: impl Fn(&T) -> &str) -> Option<&'a T> {
    let folded = name.to_lowercase();
    let mut alike = all.iter().filter(|one| name_of(one).to_lowercase() == folded);
    let exact = all.iter().find(|one| name_of(one) == name);
    exact.or_else(|| alike.next().filter(|_| alike.next().is_none()))
}

/// A name of at most so many bytes, which is not taken, for a table's index for this: `claim` or `owner`.
pub fn free_name(table: &str, purpose: &str, longest: usize, taken: impl Fn(&str) -> bool) -> String {
    let name = |end: &str| format!("{}{end}", &table[..table.floor_char_boundary(longest - end.len())]);
    let ends = std::iter::once(format!("_{purpose}")).chain((2..).map(|number| format!("_{purpose}_{number}")));
    ends.map(|end| name(&end)).find(|name| !taken(name)).unwrap_or_default()
}
