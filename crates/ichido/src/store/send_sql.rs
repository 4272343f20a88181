//! A send in plain SQL, for programs that do not use ichido: the statements that they run in their own transaction. A store writes
//! them, and `ichido send --sql` prints them.

use serde::Serialize;

/// How to send to a queue in plain SQL.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SendSql {
    /// The queue.
    pub queue: String,
    /// What it is: managed, table or broker.
    pub kind: &'static str,
    /// What the database is: sqlite, postgres or mysql.
    pub database: &'static str,
    /// The versions of ichido's tables for which this holds.
    pub schema: SchemaRange,
    /// What is bound, by name.
    pub parameters: Vec<SendParameter>,
    /// To be run in the sender's transaction, all of them, in this order.
    pub statements: Vec<SendStatement>,
    /// May be run after its COMMIT, so that idle workers look at once.
    pub after_commit: Vec<SendStatement>,
}

impl SendSql {
    /// How to send to this queue; tables of this version and the next have everything that it names.
    #[must_use]
    pub fn new(queue: &str, kind: &'static str, database: &'static str, version: u32) -> Self {
        SendSql {
            queue: queue.to_owned(),
            kind,
            database,
            schema: SchemaRange { from: version, to: version + 1 },
            parameters: Vec::new(),
            statements: Vec::new(),
            after_commit: Vec::new(),
        }
    }
}

/// Versions of ichido's tables, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SchemaRange {
    /// The first.
    pub from: u32,
    /// The last.
    pub to: u32,
}

/// What is bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SendParameter {
    /// Its name; for a table queue, the column.
    pub name: String,
    /// What it is: text, number, or column, which is whatever the column holds.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// It must not be null.
    pub required: bool,
    /// What it says.
    pub meaning: String,
}

/// A statement, and the names of its parameters in the order of their places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SendStatement {
    /// Its text.
    pub sql: String,
    /// What is bound to `$1`, `$2`, …, or to each `?`.
    pub parameters: Vec<String>,
}
