//! What the fields in a statement of the built-in action `sql` are. A field that goes into a column as it is becomes what that column
//! is, as the server infers it. In an expression a column of a row keeps its own type: the server could only guess at it.

use std::sync::Arc;

use ichido::{
    error::Result,
    sql::{Part, Template},
};
use sqlx::{
    AssertSqlSafe, Either, Executor, PgConnection, Row, SqlSafeStr, Statement, TypeInfo,
    postgres::{PgDatabaseError, PgErrorPosition},
};

use crate::{Postgres, connect::setup_error, statements::Column};

/// A statement in which every field has its type.
pub(crate) struct Typed {
    pub(crate) sql: Arc<str>,
    /// What is bound, in order: a field, and whether as JSON text.
    pub(crate) bound: Vec<(String, bool)>,
}

/// A type of a place in a statement.
#[derive(Clone)]
struct Place {
    /// As the server writes it, without a length.
    name: String,
    /// What it is a domain over; itself if it is none.
    base: String,
    /// An array or a row, which has values of other types inside.
    structured: bool,
}

/// How the fields in a statement are numbered where the server infers all types.
#[derive(Clone, Copy)]
enum Numbers {
    /// A field has one number and one type, wherever it stands.
    Names,
    /// Each place has its own, where the server finds several types for a field.
    Places,
}

/// What stands at a place while it is found out what belongs there.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The word that can stand where a field goes into a column as it is.
    Default,
    /// A value of the type of the field's own column.
    Own,
    /// A value of whatever type the server infers.
    Server,
}

/// The places of a statement about the rows of a table.
struct Places<'a> {
    statement: &'a Template,
    names: Vec<&'a str>,
    /// The type of the column at each of them.
    own: Vec<Place>,
}

/// What the server says about a statement: the types of its parameters, or its objection.
type Prepared = Result<Vec<Place>, sqlx::Error>;

impl Postgres {
    /// The types of the fields in a statement; `columns` are those of the rows that it is about, none if it is about JSON messages.
    pub(crate) async fn type_fields(&self, statement: &Template, columns: &[Column]) -> Result<Typed> {
        let Some(places) = self.places(statement, columns).await? else { return self.inferred(statement).await };
        let own = self.in_expressions(&places).await?;
        if let Some(typed) = self.typed(&places, &own).await? {
            return Ok(typed);
        }
        let inferred = self.inferred(statement).await;
        if inferred.is_ok() {
            return inferred;
        }
        // One of them is compared with something else than its column could be.
        for at in (0..own.len()).filter(|at| own[*at]) {
            let but_one: Vec<bool> = own.iter().enumerate().map(|(place, own)| *own && place != at).collect();
            if let Some(typed) = self.typed(&places, &but_one).await? {
                return Ok(typed);
            }
        }
        inferred
    }

    /// Asks the server outside of the business transaction, which an error would break.
    async fn prepared(&self, sql: String) -> Result<Prepared> {
        let mut look = self.begin_look().await?;
        let prepared = self.shared.deadline.within(parameters(&mut look, sql)).await;
        look.rollback().await?;
        Ok(prepared)
    }

    /// The statement with every type as the server infers it.
    async fn inferred(&self, statement: &Template) -> Result<Typed> {
        let mut numbers = Numbers::Names;
        let mut places = self.prepared(numbers.render(statement, |at| format!("${at}"))).await?;
        if matches!(&places, Err(error) if is(error, "42P08")) {
            numbers = Numbers::Places;
            places = self.prepared(numbers.render(statement, |at| format!("${at}"))).await?;
        }
        let mut places = places.map_err(setup_error)?;
        places.resize_with(numbers.names(statement).len(), || Place::plain("text"));
        let sql = numbers.render(statement, |at| places[at - 1].cast(at)).into();
        let bound = numbers.names(statement).into_iter().zip(&places);
        Ok(Typed { sql, bound: bound.map(|(name, place)| (name, place.is_json())).collect() })
    }

    /// The places of a statement that is about rows with these columns.
    async fn places<'a>(&self, statement: &'a Template, columns: &[Column]) -> Result<Option<Places<'a>>> {
        let names: Vec<&str> = statement.parts().iter().filter_map(named).collect();
        let kinds = names.iter().map(|name| columns.iter().find(|column| column.name == *name));
        let Some(kinds) = kinds.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut look = self.begin_look().await?;
        let mut own = Vec::new();
        for column in kinds {
            let kind = Place::look(&mut look, Either::Right(&column.kind));
            own.push(self.shared.deadline.within(kind).await.map_err(setup_error)?);
        }
        look.rollback().await?;
        Ok(Some(Places { statement, names, own }))
    }

    /// Which places are in expressions, and have their own type there? Where a field is all that goes into a column, `default` could stand
    /// too, and only there: the server points at the first that cannot.
    async fn in_expressions(&self, places: &Places<'_>) -> Result<Vec<bool>> {
        let mut by = vec![By::Default; places.own.len()];
        let mut last = None;
        loop {
            let (mut starts, mut number) = (vec![0; by.len()], 0);
            let sql = places.render(|at, before| {
                starts[at] = before.chars().count() + 1;
                // Without gaps: the server wants to know a type for every number up to the highest.
                number += usize::from(by[at] != By::Default);
                match by[at] {
                    By::Default => "default".to_owned(),
                    By::Own => places.own[at].cast(number),
                    By::Server => format!("${number}"),
                }
            });
            let Err(error) = self.prepared(sql).await? else { break };
            let at = position(&error).filter(|_| is(&error, "42601"));
            let found = at.and_then(|at| starts.iter().position(|start| *start == at));
            match (found.filter(|place| by[*place] == By::Default), last.take()) {
                (Some(place), _) => (by[place], last) = (By::Own, Some(place)),
                (None, Some(place)) => by[place] = By::Server,
                (None, None) => break,
            }
        }
        Ok(by.iter().map(|by| *by == By::Own).collect())
    }

    /// The statement with the types of the columns at these places, and inferred ones at the others; none if the server objects.
    async fn typed(&self, places: &Places<'_>, own: &[bool]) -> Result<Option<Typed>> {
        let plain = |at: usize| format!("${}", at + 1);
        let sql = places.render(|at, _| if own[at] { places.own[at].cast(at + 1) } else { plain(at) });
        let Ok(mut types) = self.prepared(sql).await? else { return Ok(None) };
        types.resize_with(own.len(), || Place::plain("text"));
        for (at, own) in own.iter().enumerate().filter(|(_, own)| **own).map(|(at, _)| (at, &places.own[at])) {
            types[at] = own.clone();
        }
        let sql = places.render(|at, _| types[at].cast(at + 1)).into();
        let bound = places.names.iter().zip(&types).map(|(name, place)| ((*name).to_owned(), place.is_json()));
        Ok(Some(Typed { sql, bound: bound.collect() }))
    }
}

async fn parameters(connection: &mut PgConnection, sql: String) -> Prepared {
    let prepared = connection.prepare(AssertSqlSafe(sql).into_sql_str()).await?;
    let mut places = Vec::new();
    if let Some(Either::Left(types)) = prepared.parameters() {
        for info in types {
            places.push(match info.oid() {
                Some(oid) => Place::look(connection, Either::Left(oid.0)).await?,
                None => Place::plain(info.name()),
            });
        }
    }
    Ok(places)
}

fn is(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|found| found == code)
}

/// Where in the statement the server found something, in characters from 1 on.
fn position(error: &sqlx::Error) -> Option<usize> {
    let error = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    match error.position()? {
        PgErrorPosition::Original(at) => Some(at),
        PgErrorPosition::Internal { .. } => None,
    }
}

fn named(part: &Part) -> Option<&str> {
    match part {
        Part::Name(name) => Some(name),
        Part::Text(_) => None,
    }
}

impl Places<'_> {
    /// The statement with each place as `write` says, which gets its number and what is before it.
    fn render(&self, mut write: impl FnMut(usize, &str) -> String) -> String {
        let (mut sql, mut at) = (String::new(), 0);
        for part in self.statement.parts() {
            match part {
                Part::Text(text) => sql.push_str(text),
                Part::Name(_) => {
                    sql = format!("{sql}{}", write(at, &sql));
                    at += 1;
                }
            }
        }
        sql
    }
}

impl Numbers {
    fn names(self, statement: &Template) -> Vec<String> {
        match self {
            Numbers::Names => statement.names().into_iter().map(str::to_owned).collect(),
            Numbers::Places => statement.parts().iter().filter_map(named).map(str::to_owned).collect(),
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

impl Place {
    fn plain(name: &str) -> Self {
        Place { name: name.into(), base: name.into(), structured: false }
    }

    /// A type by its number, or by its name.
    async fn look(connection: &mut PgConnection, of: Either<u32, &String>) -> Result<Self, sqlx::Error> {
        let look = "with recursive up as (select t.oid, t.typbasetype, t.typcategory from pg_type t where t.oid = coalesce($1, to_regtype($2)::oid::bigint) \
                    union all select t.oid, t.typbasetype, t.typcategory from up d join pg_type t on t.oid = d.typbasetype) \
                    select format_type(coalesce($1, to_regtype($2)::oid::bigint)::oid, -1), format_type(oid, -1), typcategory in ('A', 'C') from up where typbasetype = 0";
        let row = sqlx::query(look).bind(of.as_ref().left().map(|oid| i64::from(*oid))).bind(of.right());
        let row = row.fetch_one(connection).await?;
        Ok(Place { name: row.try_get(0)?, base: row.try_get(1)?, structured: row.try_get(2)? })
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
            // In a cast, so that `any(…)` takes it for a value and not for a query.
            _ if self.structured => format!(
                "cast((select v from json_to_record(json_build_object('v', ${at}::text::json)) as r(v {name})) as {name})"
            ),
            _ => format!("cast(${at}::text as {name})"),
        }
    }
}
