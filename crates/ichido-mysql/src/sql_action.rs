//! The built-in action `sql`. Numbers are bound as numbers, bytes as bytes, and everything else as text, which the server reads as a
//! value of the type it meets; `:name` becomes `?`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ichido::{
    Error,
    error::Result,
    sql::{Fields, Part, RunSql, Syntax, Template, Value},
};
use sqlx::{
    AssertSqlSafe, Column, Encode, Executor, MySqlConnection, SqlSafeStr, Statement, Type,
    encode::IsNull,
    error::BoxDynError,
    mysql::{MySqlArguments, MySqlTypeInfo},
    query::Query,
};
use tokio::sync::OnceCell;

use crate::{MySql, connect::setup_error, fault, session::give_back};

/// Digits of a decimal that every server takes: so many in all, so many after the point.
const DECIMAL: (usize, usize) = (65, 30);

/// Statements with their parameters, by the text they were written as; and what the server calls a decimal.
#[derive(Default)]
pub(crate) struct Rendered(Mutex<HashMap<Arc<str>, Arc<str>>>, OnceCell<MySqlTypeInfo>);

impl Rendered {
    fn get(&self, statement: &Template) -> Arc<str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let render = || statement.render(|_, _| "?".into()).into();
        known.entry(statement.text().clone()).or_insert_with(render).clone()
    }

    async fn decimal(&self, connection: &mut MySqlConnection) -> Result<&MySqlTypeInfo> {
        let look = async {
            let one = connection.prepare("select 1.5".into_sql_str()).await?;
            let column = one.columns().first().ok_or("the server has no decimals")?;
            Ok::<_, Error>(column.type_info().clone())
        };
        self.1.get_or_try_init(|| look).await
    }
}

impl RunSql for MySql {
    const SYNTAX: Syntax = Syntax::MYSQL;

    async fn run_sql(&self, connection: &mut MySqlConnection, statement: &Template, fields: &Fields) -> Result<()> {
        let decimal = self.shared.rendered.decimal(&mut *connection).await?;
        let mut query = sqlx::query(AssertSqlSafe(self.shared.rendered.get(statement)));
        for part in statement.parts() {
            if let Part::Name(name) = part {
                query = bind(query, fields.value(name)?, decimal);
            }
        }
        match query.execute(connection).await {
            Ok(_) => Ok(()),
            Err(error) => Err(fault::unfit(&error).map_or_else(|| error.into(), Error::Refused)),
        }
    }

    async fn check_sql(&self, statement: &Template, _queue: &str) -> Result<()> {
        let sql = self.shared.rendered.get(statement);
        let mut lent = self.take(&self.own).await.map_err(|error| self.unreachable(error))?;
        let prepared = self.within(lent.prepare(AssertSqlSafe(sql).into_sql_str())).await;
        if prepared.is_ok() {
            give_back(lent);
        }
        prepared.map(|_| ()).map_err(|error| match setup_error(error) {
            Error::Setup(text) => Error::Setup(format!("the statement `{}`: {text}", statement.text())),
            fault => fault,
        })
    }
}

fn bind<'q>(
    query: Query<'q, sqlx::MySql, MySqlArguments>,
    value: Value<'_>,
    decimal: &MySqlTypeInfo,
) -> Query<'q, sqlx::MySql, MySqlArguments> {
    match value {
        Value::Bool(value) => query.bind(i64::from(value)),
        Value::Real(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Number(digits) => match (digits.parse::<i64>(), digits.parse::<u64>()) {
            (Ok(number), _) => query.bind(number),
            (_, Ok(number)) => query.bind(number),
            _ if is_decimal(digits) => query.bind(Decimal(digits.to_owned(), decimal.clone())),
            _ => query.bind(digits.to_owned()),
        },
        other => query.bind(other.text()),
    }
}

/// Not so a number with an exponent, and one that has too many digits: those are left to the server as text.
fn is_decimal(number: &str) -> bool {
    let digits = number.trim_start_matches('-');
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain && whole.len() + part.len() <= DECIMAL.0 && part.len() <= DECIMAL.1
}

/// The digits of a decimal, which is what the server reads them as: text would become a binary fraction in a calculation.
struct Decimal(String, MySqlTypeInfo);

impl Type<sqlx::MySql> for Decimal {
    fn type_info() -> MySqlTypeInfo {
        <str as Type<sqlx::MySql>>::type_info()
    }
}

impl Encode<'_, sqlx::MySql> for Decimal {
    fn encode_by_ref(&self, buffer: &mut Vec<u8>) -> Result<IsNull, BoxDynError> {
        <&str as Encode<sqlx::MySql>>::encode_by_ref(&&*self.0, buffer)
    }

    fn produces(&self) -> Option<MySqlTypeInfo> {
        Some(self.1.clone())
    }
}
