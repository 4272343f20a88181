//! The built-in action `sql`. Every field is bound as text and cast to the type that it has at its place, so that decimals keep
//! their digits and every type of column works. `sql_places` finds the types.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ichido::{
    Error,
    error::Result,
    sql::{Fields, RunSql, Syntax, Template},
};
use ichido_sql::SqlStore;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::{Postgres, fault, sql_places::Typed};

/// The queue whose messages a statement is about, and the text it was written as.
type Written = (Arc<str>, Arc<str>);

/// Statements with their casts.
#[derive(Default)]
pub(crate) struct Rendered(Mutex<HashMap<Written, Arc<Typed>>>);

impl RunSql for Postgres {
    const SYNTAX: Syntax = Syntax::POSTGRES;

    async fn run_sql(&self, connection: &mut PgConnection, statement: &Template, fields: &Fields) -> Result<()> {
        let typed = self.rendered(statement, fields.queue()).await?;
        let mut query = sqlx::query(AssertSqlSafe(typed.sql.clone()));
        for (name, json) in &typed.bound {
            let value = fields.value(name)?.text();
            query = match (json, value) {
                (true, Some(_)) => query.bind(Some(fields.json(name)?.to_owned())),
                (_, value) => query.bind(value),
            };
        }
        match query.execute(connection).await {
            Ok(_) => Ok(()),
            Err(error) => Err(fault::unfit(&error).map_or_else(|| error.into(), Error::Refused)),
        }
    }

    async fn check_sql(&self, statement: &Template, queue: &str) -> Result<()> {
        self.rendered(statement, &queue.into()).await.map(|_| ())
    }
}

impl Postgres {
    async fn rendered(&self, statement: &Template, queue: &Arc<str>) -> Result<Arc<Typed>> {
        let known = || self.shared.rendered.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (queue.clone(), statement.text().clone());
        if let Some(typed) = known().get(&place) {
            return Ok(typed.clone());
        }
        let columns = &self.queue(queue).await?.rows.columns;
        let typed = self.type_fields(statement, columns).await.map_err(|error| match error {
            Error::Setup(text) => Error::Setup(format!("the statement `{}`: {text}", statement.text())),
            fault => fault,
        });
        let typed = Arc::new(typed?);
        known().insert(place, typed.clone());
        Ok(typed)
    }
}
