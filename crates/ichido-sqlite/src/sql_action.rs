//! The built-in action `sql`. SQLite gives values the type of the column they meet; `:name` becomes `?n`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ichido::{
    Error,
    error::Result,
    sql::{Fields, RunSql, Syntax, Template},
};
use sqlx::{AssertSqlSafe, Executor, SqlSafeStr, SqliteConnection};

use crate::{Sqlite, connect::setup_error, fault, value};

/// Statements with their parameters, by the text they were written as.
#[derive(Default)]
pub(crate) struct Rendered(Mutex<HashMap<Arc<str>, Arc<str>>>);

impl Rendered {
    fn get(&self, statement: &Template) -> Arc<str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let render = || statement.render(|_, place| format!("?{place}")).into();
        known.entry(statement.text().clone()).or_insert_with(render).clone()
    }
}

impl RunSql for Sqlite {
    const SYNTAX: Syntax = Syntax::SQLITE;

    async fn run_sql(&self, connection: &mut SqliteConnection, statement: &Template, fields: &Fields) -> Result<()> {
        let mut query = sqlx::query(AssertSqlSafe(self.shared.rendered.get(statement)));
        for name in statement.names() {
            query = value::bind(query, fields.value(name)?);
        }
        match query.execute(connection).await {
            Ok(_) => Ok(()),
            Err(error) => Err(fault::unfit(&error).map_or_else(|| error.into(), Error::Refused)),
        }
    }

    async fn check_sql(&self, statement: &Template, _queue: &str) -> Result<()> {
        let sql = self.shared.rendered.get(statement);
        let mut connection = self.readers.acquire().await.map_err(|error| self.not_opened(error))?;
        let prepared = connection.prepare(AssertSqlSafe(sql).into_sql_str()).await;
        prepared.map(|_| ()).map_err(|error| match setup_error(error) {
            Error::Setup(text) => Error::Setup(format!("the statement `{}`: {text}", statement.text())),
            fault => fault,
        })
    }
}
