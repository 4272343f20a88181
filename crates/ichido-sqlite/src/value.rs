//! Values between SQLite and JSON: numbers stay numbers, bytes are base64, and what is bound to a statement keeps its digits.

use base64::{Engine, prelude::BASE64_STANDARD};
use ichido::{Result, sql::Value};
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

fn json(row: &SqliteRow, at: usize) -> Result<Json> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok(Json::Null);
    }
    let kind = raw.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "INTEGER" => row.try_get_unchecked::<i64, _>(at)?.into(),
        "REAL" => row.try_get_unchecked::<f64, _>(at)?.into(),
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
        Value::Null => query.bind(None::<String>),
        Value::Bool(value) => query.bind(value),
        Value::Number(digits) => match digits.parse::<i64>() {
            Ok(number) => query.bind(number),
            Err(_) => query.bind(digits.to_owned()),
        },
        Value::Text(text) => query.bind(text),
        Value::Json(text) => query.bind(text.to_owned()),
    }
}
