//! The built-in action `sql`. Every field is bound as text and cast to the type that the server infers for its place, so that
//! decimals keep their digits and every type of column works.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ichido::{
    Error, Result,
    sql::{Fields, RunSql, Template},
};
use sqlx::{AssertSqlSafe, Either, Executor, PgConnection, Row, SqlSafeStr, Statement, TypeInfo};

use crate::{Postgres, connect::setup_error};

/// Statements with their casts, by the text they were written as.
#[derive(Default)]
pub(crate) struct Rendered(Mutex<HashMap<Arc<str>, Arc<Typed>>>);

struct Typed {
    sql: Arc<str>,
    /// Whether the server reads this field as JSON.
    json: Vec<bool>,
}

impl RunSql for Postgres {
    async fn run_sql(&self, connection: &mut PgConnection, statement: &Template, fields: &Fields) -> Result<()> {
        let typed = self.typed(connection, statement).await?;
        let mut query = sqlx::query(AssertSqlSafe(typed.sql.clone()));
        for (name, json) in statement.names().into_iter().zip(&typed.json) {
            let value = fields.value(name)?.text();
            query = match (json, value) {
                (true, Some(_)) => query.bind(Some(fields.json(name)?.to_owned())),
                (_, value) => query.bind(value),
            };
        }
        query.execute(connection).await?;
        Ok(())
    }

    async fn check_sql(&self, statement: &Template) -> Result<()> {
        let mut look = self.begin_look().await?;
        self.typed(&mut look, statement).await.map(|_| ())
    }
}

impl Postgres {
    async fn typed(&self, connection: &mut PgConnection, statement: &Template) -> Result<Arc<Typed>> {
        let known = || self.shared.rendered.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(typed) = known().get(statement.text()) {
            return Ok(typed.clone());
        }
        let kinds = kinds(connection, statement).await?;
        let typed = Arc::new(Typed {
            sql: statement.render(|_, place| cast(place, kinds.get(place - 1).map_or("text", String::as_str))).into(),
            json: kinds.iter().map(|kind| kind == "json" || kind == "jsonb").collect(),
        });
        known().insert(statement.text().clone(), typed.clone());
        Ok(typed)
    }
}

/// The types that the server infers for the fields, by name, without lengths.
async fn kinds(connection: &mut PgConnection, statement: &Template) -> Result<Vec<String>> {
    let plain = statement.render(|_, place| format!("${place}"));
    let about = |error: sqlx::Error| match setup_error(error) {
        Error::Setup(text) => Error::Setup(format!("the statement `{}`: {text}", statement.text())),
        fault => fault,
    };
    let prepared = connection.prepare(AssertSqlSafe(plain).into_sql_str()).await.map_err(about)?;
    let Some(Either::Left(types)) = prepared.parameters() else { return Ok(Vec::new()) };
    let mut kinds = Vec::new();
    for info in types {
        let name = match info.oid() {
            Some(oid) => {
                let name =
                    sqlx::query("select format_type($1, -1)").bind(i64::from(oid.0)).fetch_one(&mut *connection).await;
                name.map_err(about)?.try_get(0)?
            }
            None => info.name().to_owned(),
        };
        kinds.push(name);
    }
    Ok(kinds)
}

fn cast(place: usize, kind: &str) -> String {
    match (kind, kind.strip_suffix("[]")) {
        ("bytea", _) => format!("decode(${place}::text, 'base64')"),
        (_, Some(_)) => format!(
            "case when ${place}::text is not null then array(select jsonb_array_elements_text(${place}::text::jsonb))::{kind} end"
        ),
        _ => format!("cast(${place}::text as {kind})"),
    }
}
