//! The built-in action `sql`. Every field is bound as text and cast to the type that the server infers for its place, so that
//! decimals keep their digits and every type of column works.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ichido::{
    Error, Result,
    sql::{Fields, Part, RunSql, Template},
};
use sqlx::{AssertSqlSafe, Either, Executor, PgConnection, Row, SqlSafeStr, Statement, TypeInfo};

use crate::{Postgres, connect::setup_error};

/// Statements with their casts, by the text they were written as.
#[derive(Default)]
pub(crate) struct Rendered(Mutex<HashMap<Arc<str>, Arc<Typed>>>);

struct Typed {
    sql: Arc<str>,
    /// What is bound, in order: a field, and whether as JSON text.
    bound: Vec<(String, bool)>,
}

/// How the fields in a statement are numbered.
#[derive(Clone, Copy)]
enum Numbers {
    /// A field has one number and one type, wherever it stands.
    Names,
    /// Each place has its own, where the server finds several types for a field.
    Places,
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
        let typed = self.typed(statement).await?;
        let mut query = sqlx::query(AssertSqlSafe(typed.sql.clone()));
        for (name, json) in &typed.bound {
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
        self.typed(statement).await.map(|_| ())
    }
}

impl Postgres {
    /// Asks the server outside of the business transaction, which an error would break.
    async fn typed(&self, statement: &Template) -> Result<Arc<Typed>> {
        let known = || self.shared.rendered.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(typed) = known().get(statement.text()) {
            return Ok(typed.clone());
        }
        let typed = match self.look_at_types(Numbers::Names, statement).await? {
            Err(error) if is_ambiguous(&error) => self.look_at_types(Numbers::Places, statement).await?,
            typed => typed,
        };
        let typed = Arc::new(typed.map_err(|error| match setup_error(error) {
            Error::Setup(text) => Error::Setup(format!("the statement `{}`: {text}", statement.text())),
            fault => fault,
        })?);
        known().insert(statement.text().clone(), typed.clone());
        Ok(typed)
    }

    async fn look_at_types(&self, numbers: Numbers, statement: &Template) -> Result<sqlx::Result<Typed>> {
        let mut look = self.begin_look().await?;
        let typed = self.shared.deadline.within(numbers.typed(&mut look, statement)).await;
        look.rollback().await?;
        Ok(typed)
    }
}

/// Several types were found for one parameter.
fn is_ambiguous(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "42P08")
}

impl Numbers {
    async fn typed(self, connection: &mut PgConnection, statement: &Template) -> Result<Typed, sqlx::Error> {
        let plain = self.render(statement, |at| format!("${at}"));
        let prepared = connection.prepare(AssertSqlSafe(plain).into_sql_str()).await?;
        let mut places = Vec::new();
        if let Some(Either::Left(types)) = prepared.parameters() {
            for info in types {
                places.push(match info.oid() {
                    Some(oid) => place(connection, oid.0).await?,
                    None => Place::plain(info.name()),
                });
            }
        }
        places.resize_with(self.names(statement).len(), || Place::plain("text"));
        let sql = self.render(statement, |at| places[at - 1].cast(at)).into();
        let bound = self.names(statement).into_iter().zip(&places).map(|(name, place)| (name, place.is_json()));
        Ok(Typed { sql, bound: bound.collect() })
    }

    fn names(self, statement: &Template) -> Vec<String> {
        let place = |part: &Part| match part {
            Part::Name(name) => Some(name.clone()),
            Part::Text(_) => None,
        };
        match self {
            Numbers::Names => statement.names().into_iter().map(str::to_owned).collect(),
            Numbers::Places => statement.parts().iter().filter_map(place).collect(),
        }
    }

    fn render(self, statement: &Template, write: impl Fn(usize) -> String) -> String {
        let mut places = 0;
        statement.render(|_, name| {
            places += 1;
            write(match self {
                Numbers::Names => name,
                Numbers::Places => places,
            })
        })
    }
}

async fn place(connection: &mut PgConnection, oid: u32) -> Result<Place, sqlx::Error> {
    let look = "with recursive up as (select t.oid, t.typbasetype, t.typcategory from pg_type t where t.oid = $1 \
                union all select t.oid, t.typbasetype, t.typcategory from up d join pg_type t on t.oid = d.typbasetype) \
                select format_type($1, -1), format_type(oid, -1), typcategory in ('A', 'C') from up where typbasetype = 0";
    let row = sqlx::query(look).bind(i64::from(oid)).fetch_one(connection).await?;
    Ok(Place { name: row.try_get(0)?, base: row.try_get(1)?, structured: row.try_get(2)? })
}

impl Place {
    fn plain(name: &str) -> Self {
        Place { name: name.into(), base: name.into(), structured: false }
    }

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
