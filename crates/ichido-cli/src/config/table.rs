//! The keys of a table queue: a business table of the user's own, and which of its columns say
//! what. The stores build their statements from it.

use ichido::{
    Status, Table,
    message::{OnDone, Order},
};

use super::error::ConfigError;
use super::field::Field;
use super::names::{self, TableName};
use super::section::Section;
use super::spelling::quoted;

pub(super) const KEYS: [&str; 9] =
    ["table", "key", "status", "owner", "order_by", "sent_at", "group_by", "on_done", "only"];
const STATUS_KEYS: [&str; 4] = ["column", "new", "done", "failed"];
const ON_DONE: [(&str, OnDone); 2] = [("status", OnDone::Status), ("delete", OnDone::Delete)];

pub(super) fn read(section: &Section) -> Result<Table, ConfigError> {
    let on_done = section.or("on_done", OnDone::Status, |f| f.one_of(&ON_DONE))?;
    let TableName { schema, name } = section.required("table", |f| f.parsed(TableName::parse))?;
    let key = section.or("key", vec![], columns)?;
    let status = section.required("status", |f| status(f, on_done))?;
    let mut table = Table::new(name, section.required("owner", names::column)?, status);
    table.schema = schema;
    table.key = key;
    table.order_by = section.or("order_by", vec![], order)?;
    table.sent_at = section.optional("sent_at", names::column)?;
    table.group_by = section.optional("group_by", names::column)?;
    table.on_done = on_done;
    table.only = section.or("only", vec![], only)?;
    check_roles(&table, section)?;
    Ok(table)
}

/// ichido writes the status and the owner, so neither can be anything else at the same time.
fn check_roles(table: &Table, section: &Section) -> Result<(), ConfigError> {
    let status = &table.status.column;
    let twice = |column: &str, role| format!("{} is already {role}", quoted(column));
    if table.owner == *status {
        return Err(section.invalid("owner", twice(status, "the status column")));
    }
    for column in [status, &table.owner] {
        let role = if column == status { "the status column" } else { "the owner column" };
        if table.key.contains(column) {
            return Err(section.invalid("key", twice(column, role)));
        }
        if table.only.iter().any(|(only, _)| only == column) {
            return Err(section.invalid("only", twice(column, role)));
        }
    }
    Ok(())
}

fn status(field: &Field, on_done: OnDone) -> Result<Status, ConfigError> {
    let section = field.section()?.allow(&STATUS_KEYS)?;
    let column = section.required("column", names::column)?;
    // `new` wants a value for done rows; what the file says, which may be none, takes its place.
    let mut status = Status::new(column, section.required("new", Field::scalar)?, "");
    status.done = section.optional("done", Field::scalar)?;
    status.failed = section.optional("failed", Field::scalar)?;
    if status.done.is_none() && on_done == OnDone::Status {
        let text = "missing; it is optional only with `on_done = \"delete\"`";
        return Err(section.invalid("done", text));
    }
    let values = [Some(&status.new), status.done.as_ref(), status.failed.as_ref()];
    names::check_distinct(field, values.into_iter().flatten().map(String::as_str))?;
    Ok(status)
}

fn columns(field: &Field) -> Result<Vec<String>, ConfigError> {
    let columns = field.filled_list(names::column)?;
    names::check_distinct(field, columns.iter().map(String::as_str))?;
    Ok(columns)
}

fn order(field: &Field) -> Result<Vec<Order>, ConfigError> {
    let orders = field.filled_list(|f| f.parsed(ordered))?;
    names::check_distinct(field, orders.iter().map(|order| order.column.as_str()))?;
    Ok(orders)
}

fn only(field: &Field) -> Result<Vec<(String, String)>, ConfigError> {
    let one = |(column, field): (&str, Field)| {
        names::check_identifier(column).map_err(|text| field.invalid(text))?;
        Ok((column.to_owned(), field.scalar()?))
    };
    field.entries()?.into_iter().map(one).collect()
}

fn ordered(text: &str) -> Result<Order, String> {
    let order = Order::parse(text);
    names::check_identifier(&order.column).map(|()| order)
}
