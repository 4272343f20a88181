//! Every statement about a queue's rows, built once per queue from its mapping. A managed queue is a table queue over
//! ichido's own message table: its rows have no status, and are deleted when done. `ichido check --sql` prints them.
//!
//! Parameters are bound as text, in the order in which they stand: the owner first, where there is one, the key columns
//! last. Each statement carries `(key, owner, still unprocessed)`. Where many rows are meant, [`Statements::of_many`] writes
//! their keys one by one, so that rows are locked by primary key.

mod column;

use std::{ops::Deref, sync::Arc};

use ichido::{
    Queue,
    error::Result,
    inspect::MOST_COUNTED,
    message::{FieldKind, FieldKinds, Place},
    stat::WINDOW,
};
use ichido_sql::{Conditions, Kind, MOST_OWNERS, Mapping, SqlQueue, Tables, padded_len};
use sqlx::{Row, mysql::MySqlRow};

pub(crate) use self::column::{Column, is_generated};
use crate::{groups::Groups, mutex::Mutex, quote};

/// A queue's rows: the mapping, and what only this dialect needs to know.
pub(crate) struct Rows {
    pub(crate) table: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<Column>,
    pub(crate) owner: Column,
    pub(crate) mapping: Mapping,
    /// What these rows are, for the comparison with what other processes mean.
    pub(crate) place: String,
    /// Which rows of which table they are, for the comparison with other queues.
    pub(crate) identity: String,
    /// Where the payloads of mutex rows are.
    pub(crate) outbox: String,
    pub(crate) kind: Kind,
}

impl Rows {
    /// The rows of a managed queue.
    pub(crate) fn managed(tables: &Tables, queue: &str) -> Result<Self> {
        Ok(Rows {
            table: tables.message.clone(),
            columns: Vec::new(),
            mapping: Mapping::managed(queue),
            key: vec![Column::plain("id", "bigint")?],
            owner: Column::plain("owner", "char")?,
            place: format!("managed:{queue}"),
            identity: format!("managed:{queue}"),
            outbox: tables.outbox.clone(),
            kind: Kind::Managed,
        })
    }

    /// The mutex rows of a broker's queue.
    pub(crate) fn mutex(tables: &Tables, queue: &str) -> Result<Self> {
        Ok(Rows {
            table: tables.mutex.clone(),
            mapping: Mapping::mutex(queue),
            key: vec![Column::plain("id", "varchar")?],
            place: format!("mutex:{queue}"),
            identity: format!("mutex:{queue}"),
            kind: Kind::Mutex,
            ..Rows::managed(tables, queue)?
        })
    }

    /// The table where rows are reached by their key. Of mutex rows none but these may be locked, even for a moment.
    pub(crate) fn by_key(&self) -> String {
        let hint = if self.kind == Kind::Mutex { " force index (primary)" } else { "" };
        format!("{} t{hint}", self.table)
    }

    /// The same where they are reached by their owner.
    fn by_owner(&self) -> String {
        let hint = if self.kind == Kind::Mutex { " force index (ichido_mutex_queue)" } else { "" };
        format!("{} t{hint}", self.table)
    }

    /// The row is held under this claim. A lock leaves no owner in it.
    fn held(&self, new: &str) -> String {
        let is = if self.kind == Kind::Mutex { "<=>" } else { "=" };
        format!("t.{} {is} ? and {new}", self.owner.quoted)
    }

    /// The message may still be ours, or else it is done. A mutex row that is there at all says that it is not done.
    fn undecided(&self, new: &str) -> String {
        match self.kind {
            Kind::Mutex => format!("(? is null or 1 = 1) and {new}"),
            Kind::Table | Kind::Managed => self.held(new),
        }
    }

    pub(crate) fn each_key(&self, separator: &str, write: impl Fn(&Column) -> String) -> String {
        self.key.iter().map(write).collect::<Vec<_>>().join(separator)
    }

    /// The row with the key in the next parameters.
    fn key_is(&self) -> String {
        self.each_key(" and ", |column| format!("t.{} = {}", column.quoted, column.value_of("?")))
    }

    pub(crate) fn key_out(&self) -> String {
        self.each_key(", ", Column::out)
    }

    /// The message in JSON; `owner` stands for the owner column.
    fn payload(&self, owner: &str) -> Result<String> {
        match self.kind {
            Kind::Managed => return Ok("t.payload".into()),
            Kind::Mutex => return Ok(format!("(select o.payload from {} o where o.mutex = t.id)", self.outbox)),
            Kind::Table => {}
        }
        let value = |column: &Column| if column.name == self.owner.name { owner.to_owned() } else { column.in_json() };
        let pairs =
            self.columns.iter().map(|column| Ok(format!("{}, {}", quote::literal(&column.name)?, value(column))));
        Ok(format!("cast(json_object({}) as char)", pairs.collect::<Result<Vec<_>>>()?.join(", ")))
    }

    /// What is read of a message: the key as text, the payload, the headers, the group and the time it has waited.
    pub(crate) fn message(&self, owner: &str) -> Result<String> {
        let headers = if self.kind == Kind::Managed { "coalesce(t.headers, '{}')" } else { "'{}'" };
        Ok(format!(
            "{}, {}, {headers}, {} as ichido_group_key, {} as ichido_waited",
            self.key_out(),
            self.payload(owner)?,
            self.group_out()?,
            self.waited()
        ))
    }

    /// For how many milliseconds the message has waited; a DATETIME is taken for UTC.
    fn waited(&self) -> String {
        let Some(sent_at) = &self.mapping.sent_at else { return "cast(null as signed)".into() };
        format!("cast(timestampdiff(microsecond, t.{sent_at}, utc_timestamp(6)) div 1000 as signed)")
    }

    /// A group as `ichido_group` has it: the same text for values that are equal. What no index can hold is known by its hash.
    pub(crate) fn group_out(&self) -> Result<String> {
        let Some(group) = &self.mapping.group else { return Ok("null".into()) };
        let text = self.column(group)?.out_as_compared();
        Ok(format!("case when length({text}) > 500 then md5({text}) else {text} end"))
    }

    /// What the columns are, where their JSON does not say it.
    fn kinds(&self) -> FieldKinds {
        let kinds = self.columns.iter().filter_map(|column| Some((column.name.clone(), column.field_kind()?)));
        FieldKinds::new(kinds.collect())
    }

    /// The column that the mapping calls so.
    pub(crate) fn column(&self, quoted: &str) -> Result<Column> {
        let known = self.columns.iter().chain(&self.key).find(|column| column.quoted == quoted);
        known.cloned().map_or_else(|| Column::plain(quoted, if quoted == "id" { "bigint" } else { "varchar" }), Ok)
    }
}

/// The statements of one queue: those of all stores, and those that only this one has. Those about many rows end in `where `, and
/// [`Statements::of_many`] completes them.
pub struct Statements {
    pub(crate) shared: SqlQueue,
    pub(crate) kinds: FieldKinds,
    pub(crate) rows: Rows,
    pub(crate) pick: Arc<str>,
    /// The same from a row on, whose first value of the claim order is the parameter before the last.
    pub(crate) pick_from: Arc<str>,
    pub(crate) claim: Arc<str>,
    pub(crate) groups: Option<Groups>,
    /// What only a broker's queue has.
    pub(crate) mutex: Option<Mutex>,
    pub(crate) claimed: Arc<str>,
    pub(crate) complete: Arc<str>,
    pub(crate) complete_many: Arc<str>,
}

impl Deref for Statements {
    type Target = SqlQueue;

    fn deref(&self) -> &SqlQueue {
        &self.shared
    }
}

impl Statements {
    pub(crate) fn new(tables: &Tables, queue: &Queue, rows: Rows) -> Result<Self> {
        let conditions = rows.mapping.conditions(quote::literal)?;
        let Conditions { new, complete, .. } = &conditions;
        let (table, owner, key) = (&rows.table, &rows.owner.quoted, rows.key_is());
        let (by_key, held) = (rows.by_key(), rows.held(new));
        let claimable = format!("t.{owner} is null and {new}");
        // The one-way door. That this is the transaction that was begun, the savepoint has proved just before.
        let door = match complete {
            Some(set) => format!("update {by_key} set {set} where {held} and "),
            None => format!("delete t from {by_key} where {held} and "),
        };
        let message = rows.message(&format!("t.{owner}"))?;
        Ok(Statements {
            shared: shared(tables, queue, &rows, &conditions)?,
            pick: pick(&rows, &conditions, &claimable, false)?.into(),
            pick_from: pick(&rows, &conditions, &claimable, true)?.into(),
            groups: Groups::new(tables, &rows, &conditions)?,
            mutex: match queue.place {
                Place::Broker(_) => Some(Mutex::new(tables, queue, &rows)?),
                _ => None,
            },
            claim: format!("update {table} t set {owner} = ? where {claimable} and ").into(),
            claimed: format!("select {message} from {table} t where t.{owner} = ? and {new}").into(),
            complete: format!("{door}{key}").into(),
            complete_many: door.into(),
            kinds: rows.kinds(),
            rows,
        })
    }

    /// A statement about so many rows; the keys are bound column by column, row by row, [`padded`](ichido_sql::padded).
    pub(crate) fn of_many(&self, statement: &str, rows: usize, end: &str) -> String {
        let keys = vec![format!("({})", self.rows.key_is()); padded_len(rows)];
        format!("{statement}({}){end}", keys.join(" or "))
    }

    /// The statements with what they do.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        let groups = self.groups.iter().map(|groups| ("claim, look at groups", groups.look.to_string()));
        let all = [
            ("claim, look", self.pick.to_string()),
            ("claim, look from a row on", self.pick_from.to_string()),
            ("claim", self.of_many(&self.claim, 1, "")),
            ("complete", self.complete.to_string()),
            ("complete many", self.of_many(&self.complete_many, 2, "")),
            ("release", self.of_many(&self.release, 1, "")),
            ("park", self.park_waiting.to_string()),
            ("park for good", self.park_dead.to_string()),
            ("return", self.of_many(&self.return_due, 1, "")),
            ("rescue", self.owned.to_string()),
            ("retry", self.retry.to_string()),
        ];
        let guard = self.mutex.iter().flat_map(|mutex| {
            let claim = self.of_many(&mutex.free, 1, " for update skip locked");
            [
                ("lock", mutex.lock.to_string()),
                ("claim by id, look", claim),
                ("claim by id", self.of_many(&mutex.claim, 1, "")),
            ]
        });
        guard.chain(all.into_iter().skip(if self.mutex.is_some() { 3 } else { 0 })).chain(groups).collect()
    }
}

/// The statements of the verbs that all stores share.
fn shared(tables: &Tables, queue: &Queue, rows: &Rows, conditions: &Conditions) -> Result<SqlQueue> {
    let Conditions { new, failed, done, fail, retry, nobody, .. } = conditions;
    let (table, owner, by_key) = (&rows.table, &rows.owner.quoted, rows.by_key());
    let (mine, waits) = (format!("t.{owner} = ? and {new}"), format!("t.{owner} = {nobody} and {new}"));
    let (key, out, held) = (rows.key_is(), rows.key_out(), rows.held(new));
    let update = |set: &str| format!("update {by_key} set {set} where {held} and {key}");
    let owners = |is: &str| {
        format!(
            "select {out}, cast(t.{owner} as char) from {table} t where {new} and t.{owner} {is} {nobody} limit {MOST_OWNERS}"
        )
    };
    let columns = rows.columns.iter().map(|column| column.name.clone()).collect();
    Ok(SqlQueue {
        park_waiting: update(&format!("{owner} = {nobody}")).into(),
        park_dead: update(fail).into(),
        owned: format!(
            "select {out}, {} from {} where {mine} order by {} limit 500 for update skip locked",
            rows.group_out()?,
            rows.by_owner(),
            conditions.owned_order(rows.kind, owner)
        )
        .into(),
        owns_any: format!("select 1 from {table} t where {mine} limit 1").into(),
        release: format!("update {by_key} set {owner} = null where {mine} and ").into(),
        waiting: format!("select {out} from {by_key} where {waits} and ").into(),
        return_due: format!("update {by_key} set {owner} = null where {waits} and ").into(),
        retry: format!("update {by_key} set {retry} where {failed} and {key}").into(),
        // A row of the user's own stays as it is, a message of ichido's own goes.
        discard: if rows.kind == Kind::Table {
            format!("update {table} t set {owner} = {owner} where {failed} and {key}").into()
        } else {
            format!("delete t from {by_key} where {failed} and {key}").into()
        },
        dead_or_new: format!(
            "select {out}, cast(coalesce({failed}, 0) as signed), cast(coalesce({new}, 0) as signed) from {table} t where "
        )
        .into(),
        payload: format!("select {} from {table} t where {key}", rows.payload(&format!("t.{owner}"))?).into(),
        headers: ichido_sql::headers_of(rows.kind, tables, table, &key).into(),
        state: format!(
            "select cast(t.{owner} as char), {}, cast(coalesce({new}, 0) as signed), cast(coalesce({failed}, 0) as signed), cast(coalesce({done}, 0) as signed) from {by_key} where {key}",
            rows.group_out()?
        )
        .into(),
        cancel: if rows.kind == Kind::Table {
            format!("update {by_key} set {fail} where {new} and {key}").into()
        } else {
            format!("delete t from {by_key} where {new} and {key}").into()
        },
        ready: format!(
            "select {out} from {table} t where {new} and t.{owner} is null order by {}",
            order(conditions)
        )
        .into(),
        held: format!("select {out} from {table} t where {new} and t.{owner} <> {nobody}").into(),
        is_claimed: format!("select 1 from {by_key} where {} and {key} for update", rows.undecided(new)).into(),
        drained: ichido_sql::drained::<crate::sql::MySqlDialect>(
            tables,
            &quote::literal(&queue.name)?,
            rows.kind,
            table,
            owner,
            conditions,
        )
        .into(),
        backlog: ichido_sql::backlog(table, owner, conditions).into(),
        counts: counts(rows, conditions).into(),
        owners: [owners("<>").into(), owners("=").into()],
        ..SqlQueue::new(queue, rows.kind, &rows.mapping, &rows.place, &rows.identity, columns)
    })
}

/// The first claimable rows in claim order, locked; rows that others are claiming are skipped. Served by an index on
/// (status, owner, claim order).
fn pick(rows: &Rows, conditions: &Conditions, claimable: &str, bounded: bool) -> Result<String> {
    let (order, ungrouped, owner) =
        (order(conditions), &conditions.ungrouped, if rows.kind == Kind::Table { "?" } else { "" });
    let (column, down) = &conditions.order[0];
    let first = rows.column(column)?;
    let from = format!(" and t.{column} {} {}", if *down { "<=" } else { ">=" }, first.value_of("?"));
    let from = if bounded { &from } else { "" };
    Ok(format!(
        "select {}, {} as ichido_bound from {} t where {claimable}{ungrouped}{from} order by {order} limit ? for update skip locked",
        rows.message(owner)?,
        first.out(),
        rows.table
    ))
}

/// How many rows are claimable and claimed, for how many seconds the oldest of the claimable has waited, and how many of them are
/// recent; a DATETIME is taken for UTC. Bounded: who looks at a long backlog must not read all of it.
fn counts(rows: &Rows, conditions: &Conditions) -> String {
    let Conditions { new, nobody, .. } = conditions;
    let (table, owner) = (&rows.table, &rows.owner.quoted);
    let null = || "cast(null as signed)".to_owned();
    let (sent_at, oldest, recent) = match &rows.mapping.sent_at {
        None => ("1".into(), null(), null()),
        Some(sent_at) => (
            format!("t.{sent_at}"),
            "timestampdiff(second, min(s), utc_timestamp())".to_owned(),
            format!("cast(coalesce(sum(s >= utc_timestamp(6) - interval {} second), 0) as signed)", WINDOW.as_secs()),
        ),
    };
    format!(
        "select count(*), (select count(*) from (select 1 from {table} t where {new} and t.{owner} <> {nobody} limit {MOST_COUNTED}) claimed), \
         {oldest}, {recent} from (select {sent_at} as s from {table} t where {new} and t.{owner} is null limit {MOST_COUNTED}) ready"
    )
}

/// The claim order.
pub(crate) fn order(conditions: &Conditions) -> String {
    let order = conditions.order.iter().map(|(column, down)| format!("t.{column}{}", if *down { " desc" } else { "" }));
    order.collect::<Vec<_>>().join(", ")
}
