//! Values between SQLite and JSON, by their storage classes: numbers stay numbers, bytes are base64, infinite numbers are `"Infinity"`
//! and `"-Infinity"`. What is bound to a statement keeps its digits, and what came from a row its storage class.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use ichido::{
    error::Result,
    message::{FieldKind, Kinds},
    sql::Value,
};
use serde_json::{Map, Value as Json};
use sqlx::{
    Row, Sqlite, TypeInfo, ValueRef,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use crate::statements::Column;

/// The columns of a row from `first` on, as a JSON object.
pub(crate) fn object(row: &SqliteRow, first: usize, columns: &[Column]) -> Result<Map<String, Json>> {
    let pairs = columns.iter().enumerate().map(|(at, column)| Ok((column.name.clone(), json(row, first + at)?)));
    pairs.collect()
}

/// What the columns are, where their JSON does not say it.
pub(crate) fn kinds(row: &SqliteRow, first: usize, columns: &[Column]) -> Result<Kinds> {
    let mut kinds = BTreeMap::new();
    for (at, column) in columns.iter().enumerate() {
        let raw = row.try_get_raw(first + at)?;
        let kind = match raw.type_info().name() {
            _ if raw.is_null() => continue,
            "BLOB" => FieldKind::Bytes,
            "REAL" => FieldKind::Real,
            _ => continue,
        };
        kinds.insert(column.name.clone(), kind);
    }
    Ok(kinds.into())
}

fn json(row: &SqliteRow, at: usize) -> Result<Json> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok(Json::Null);
    }
    let kind = raw.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "INTEGER" => row.try_get_unchecked::<i64, _>(at)?.into(),
        "REAL" => match row.try_get_unchecked::<f64, _>(at)? {
            number if number.is_finite() => number.into(),
            number => if number > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        },
        "BLOB" => BASE64_STANDARD.encode(row.try_get_unchecked::<&[u8], _>(at)?).into(),
        _ => String::from_utf8_lossy(row.try_get_unchecked::<&[u8], _>(at)?).into(),
    })
}

/// A statement with one more value. What is no 64-bit integer is bound as text, which the column's affinity turns into a
/// number only where nothing is lost.
pub(crate) fn bind<'q>(
    query: Query<'q, Sqlite, SqliteArguments>,
    value: Value<'_>,
) -> Query<'q, Sqlite, SqliteArguments> {
    match value {
        Value::Bool(value) => query.bind(value),
        Value::Number(digits) => match digits.parse::<i64>() {
            Ok(number) => query.bind(number),
            Err(_) => query.bind(digits.to_owned()),
        },
        Value::Real(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
        other => query.bind(other.text()),
    }
}
