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
    /// Is this field bound as JSON text?
    json: Vec<bool>,
}

/// The type that the server infers for a place.
struct Place {
    /// As the server writes it, without a length.
    name: String,
    /// What it is a domain over; itself if it is none.
    base: String,
    /// An array or a row, which has values of other types inside.
    structured: bool,
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
        let places = places(connection, statement).await?;
        let text = || Place { name: "text".into(), base: "text".into(), structured: false };
        let typed = Arc::new(Typed {
            sql: statement
                .render(|_, at| places.get(at - 1).map_or_else(|| text().cast(at), |place| place.cast(at)))
                .into(),
            json: places.iter().map(Place::is_json).collect(),
        });
        known().insert(statement.text().clone(), typed.clone());
        Ok(typed)
    }
}

/// The types that the server infers for the fields.
async fn places(connection: &mut PgConnection, statement: &Template) -> Result<Vec<Place>> {
    let plain = statement.render(|_, place| format!("${place}"));
    let about = |error: sqlx::Error| match setup_error(error) {
        Error::Setup(text) => Error::Setup(format!("the statement `{}`: {text}", statement.text())),
        fault => fault,
    };
    let prepared = connection.prepare(AssertSqlSafe(plain).into_sql_str()).await.map_err(about)?;
    let Some(Either::Left(types)) = prepared.parameters() else { return Ok(Vec::new()) };
    let mut places = Vec::new();
    for info in types {
        places.push(match info.oid() {
            Some(oid) => place(connection, oid.0).await.map_err(about)?,
            None => Place { name: info.name().to_owned(), base: info.name().to_owned(), structured: false },
        });
    }
    Ok(places)
}

async fn place(connection: &mut PgConnection, oid: u32) -> Result<Place, sqlx::Error> {
    let look = "with recursive up as (select t.oid, t.typbasetype, t.typcategory from pg_type t where t.oid = $1 \
                union all select t.oid, t.typbasetype, t.typcategory from up d join pg_type t on t.oid = d.typbasetype) \
                select format_type($1, -1), format_type(oid, -1), typcategory in ('A', 'C') from up where typbasetype = 0";
    let row = sqlx::query(look).bind(i64::from(oid)).fetch_one(connection).await?;
    Ok(Place { name: row.try_get(0)?, base: row.try_get(1)?, structured: row.try_get(2)? })
}

impl Place {
    fn is_json(&self) -> bool {
        self.structured || self.base == "json" || self.base == "jsonb"
    }

    /// The parameter as a value of the type. Bytes are base64, or hexadecimal as the server writes them inside of arrays and rows.
    fn cast(&self, at: usize) -> String {
        let name = &self.name;
        match &*self.base {
            "bytea" => format!(
                "cast(case when left(${at}::text, 2) = E'\\\\x' then ${at}::text::bytea else decode(${at}::text, 'base64') end as {name})"
            ),
            _ if self.structured => {
                format!("(select v from json_to_record(json_build_object('v', ${at}::text::json)) as r(v {name}))")
            }
            _ => format!("cast(${at}::text as {name})"),
        }
    }
}
