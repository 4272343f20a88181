//! The built-in action `sql`. Every field is bound as text, and the server reads it as a value of the type it meets; `:name`
//! becomes `?`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ichido::{
    Error, Result,
    sql::{Fields, Part, RunSql, Template},
};
use sqlx::{AssertSqlSafe, Executor, MySqlConnection, SqlSafeStr};

use crate::{MySql, connect::setup_error, sending};

/// Statements with their parameters, by the text they were written as.
#[derive(Default)]
pub(crate) struct Rendered(Mutex<HashMap<Arc<str>, Arc<str>>>);

impl Rendered {
    fn get(&self, statement: &Template) -> Arc<str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let render = || statement.render(|_, _| "?".into()).into();
        known.entry(statement.text().clone()).or_insert_with(render).clone()
    }
}

impl RunSql for MySql {
    async fn run_sql(&self, connection: &mut MySqlConnection, statement: &Template, fields: &Fields) -> Result<()> {
        let mut query = sqlx::query(AssertSqlSafe(self.shared.rendered.get(statement)));
        for part in statement.parts() {
            if let Part::Name(name) = part {
                query = query.bind(sending::text(&fields.value(name)?));
            }
        }
        query.execute(connection).await?;
        Ok(())
    }

    async fn check_sql(&self, statement: &Template) -> Result<()> {
        let sql = self.shared.rendered.get(statement);
        let mut connection = self.own.acquire().await.map_err(|error| self.unreachable(error))?;
        let prepared = connection.prepare(AssertSqlSafe(sql).into_sql_str()).await;
        prepared.map(|_| ()).map_err(|error| match setup_error(error) {
            Error::Setup(text) => Error::Setup(format!("the statement `{}`: {text}", statement.text())),
            fault => fault,
        })
    }
}
