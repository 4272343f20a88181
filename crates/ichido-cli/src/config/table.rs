//! The keys of a table queue: a business table of the user's own, and which of its columns say
//! what. The stores build their statements from it.

use std::collections::BTreeMap;

use super::error::ConfigError;
use super::field::Field;
use super::names::{self, TableName};
use super::section::Section;
use super::spelling::quoted;

pub(super) const KEYS: [&str; 9] =
    ["table", "key", "status", "owner", "order_by", "sent_at", "group_by", "on_done", "only"];
const STATUS_KEYS: [&str; 4] = ["column", "new", "done", "failed"];
const ON_DONE: [(&str, OnDone); 2] = [("status", OnDone::Status), ("delete", OnDone::Delete)];

/// A business table that is a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableQueue {
    /// The table.
    pub table: TableName,
    /// The key columns; none: the primary key.
    pub key: Option<Vec<String>>,
    /// The column that says what has become of a row, and its values.
    pub status: Status,
    /// The column that says which process has claimed a row.
    pub owner: String,
    /// The order of the rows; empty: that of the key.
    pub order_by: Vec<Order>,
    /// The column that says when a row was written.
    pub sent_at: Option<String>,
    /// The column whose equal values are worked on one after the other.
    pub group_by: Option<String>,
    /// What happens to a row that is done.
    pub on_done: OnDone,
    /// The rows that belong to this queue, by column; empty: all.
    pub only: BTreeMap<String, String>,
}

/// The status column and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The column.
    pub column: String,
    /// The value of a row that is not done.
    pub new: String,
    /// The value of a row that is done; none only where done rows are deleted.
    pub done: Option<String>,
    /// The value of a row that has failed.
    pub failed: Option<String>,
}

/// A column of the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The column.
    pub column: String,
    /// Whether the largest value comes first.
    pub descending: bool,
}

/// What happens to a row that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDone {
    /// Its status changes.
    Status,
    /// It is deleted.
    Delete,
}

impl TableQueue {
    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        let on_done = section.or("on_done", OnDone::Status, |f| f.one_of(&ON_DONE))?;
        let queue = Self {
            table: section.required("table", |f| f.parsed(TableName::parse))?,
            key: section.optional("key", columns)?,
            status: section.required("status", |f| Status::read(f, on_done))?,
            owner: section.required("owner", names::column)?,
            order_by: section.or("order_by", vec![], order)?,
            sent_at: section.optional("sent_at", names::column)?,
            group_by: section.optional("group_by", names::column)?,
            on_done,
            only: section.or("only", BTreeMap::new(), only)?,
        };
        queue.check_roles(section)?;
        Ok(queue)
    }

    /// ichido writes the status and the owner, so neither can be anything else at the same time.
    fn check_roles(&self, section: &Section) -> Result<(), ConfigError> {
        let status = &self.status.column;
        let twice = |column: &str, role| format!("{} is {role} already", quoted(column));
        if self.owner == *status {
            return Err(section.invalid("owner", twice(status, "the status column")));
        }
        for column in [status, &self.owner] {
            let role = if column == status { "the status column" } else { "the owner column" };
            if self.key.iter().flatten().any(|key| key == column) {
                return Err(section.invalid("key", twice(column, role)));
            }
            if self.only.contains_key(column) {
                return Err(section.invalid("only", twice(column, role)));
            }
        }
        Ok(())
    }
}

impl Status {
    fn read(field: &Field, on_done: OnDone) -> Result<Self, ConfigError> {
        let section = field.section()?.allow(&STATUS_KEYS)?;
        let status = Self {
            column: section.required("column", names::column)?,
            new: section.required("new", Field::scalar)?,
            done: section.optional("done", Field::scalar)?,
            failed: section.optional("failed", Field::scalar)?,
        };
        if status.done.is_none() && on_done == OnDone::Status {
            let text = "missing; only with `on_done = \"delete\"` it may be left out";
            return Err(section.invalid("done", text));
        }
        let values = [Some(&status.new), status.done.as_ref(), status.failed.as_ref()];
        names::check_distinct(field, values.into_iter().flatten().map(String::as_str))?;
        Ok(status)
    }
}

fn columns(field: &Field) -> Result<Vec<String>, ConfigError> {
    let columns = field.filled_list(names::column)?;
    names::check_distinct(field, columns.iter().map(String::as_str))?;
    Ok(columns)
}

fn order(field: &Field) -> Result<Vec<Order>, ConfigError> {
    let orders = field.filled_list(|f| f.parsed(Order::parse))?;
    names::check_distinct(field, orders.iter().map(|order| order.column.as_str()))?;
    Ok(orders)
}

fn only(field: &Field) -> Result<BTreeMap<String, String>, ConfigError> {
    let one = |(column, field): (&str, Field)| {
        names::check_identifier(column).map_err(|text| field.invalid(text))?;
        Ok((column.to_owned(), field.scalar()?))
    };
    field.entries()?.into_iter().map(one).collect()
}

impl Order {
    fn parse(text: &str) -> Result<Self, String> {
        let column = text.strip_prefix('-');
        let descending = column.is_some();
        let column = column.unwrap_or(text).to_owned();
        names::check_identifier(&column)?;
        Ok(Self { column, descending })
    }
}
