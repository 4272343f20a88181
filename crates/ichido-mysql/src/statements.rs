//! Every statement about a queue's rows, built once per queue from its mapping. A managed queue is a table queue over
//! ichido's own message table: its rows have no status, and are deleted when done. `ichido check --sql` prints them.
//!
//! Parameters are bound as text, in the order in which they stand: the owner first, where there is one, the key columns
//! last. Each statement carries `(key, owner, still unprocessed)`. Where many rows are meant, [`Statements::of_many`] writes
//! their keys one by one, so that rows are locked by primary key.

mod column;

use std::sync::Arc;

use ichido::{
    Queue,
    error::Result,
    message::{FieldKind, FieldKinds, Place},
    stat::WINDOW,
};
use ichido_sql::{Conditions, Kind, Mapping, Spelling, SqlQueue, Tables, padded_len};
use sqlx::{Row, mysql::MySqlRow};

pub(crate) use self::column::{Column, is_generated};
use crate::{groups::Groups, mutex::Mutex, quote, sql::MySqlDialect};

/// A queue's rows: the mapping, and what only this dialect needs to know.
pub(crate) struct Rows {
    pub(crate) mapping: Mapping,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<Column>,
    pub(crate) owner: Column,
}

impl Rows {
    /// The rows of a queue in ichido's own tables.
    pub(crate) fn own(tables: &Tables, queue: &Queue) -> Result<Self> {
        let mapping = Mapping::own(tables, queue);
        let key = vec![Column::plain("id", if mapping.kind == Kind::Mutex { "varchar" } else { "bigint" })?];
        Ok(Rows { mapping, columns: Vec::new(), key, owner: Column::plain("owner", "char")? })
    }

    /// The table where rows are reached by their key. Of mutex rows none but these may be locked, even for a moment.
    pub(crate) fn by_key(&self) -> String {
        let hint = if self.mapping.kind == Kind::Mutex { " force index (primary)" } else { "" };
        format!("{} t{hint}", self.mapping.table)
    }

    /// The same where they are reached by their owner.
    fn by_owner(&self) -> String {
        let hint = if self.mapping.kind == Kind::Mutex { " force index (ichido_mutex_queue)" } else { "" };
        format!("{} t{hint}", self.mapping.table)
    }

    /// The row is held under this claim. A lock leaves no owner in it.
    fn held(&self, new: &str) -> String {
        let is = if self.mapping.kind == Kind::Mutex { "<=>" } else { "=" };
        format!("t.{} {is} ? and {new}", self.owner.quoted)
    }

    /// The message may still be ours, or else it is done. A mutex row that is there at all says that it is not done.
    fn undecided(&self, new: &str) -> String {
        match self.mapping.kind {
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
        if let Some(payload) = &self.mapping.payload {
            return Ok(payload.clone());
        }
        let value = |column: &Column| if column.name == self.owner.name { owner.to_owned() } else { column.in_json() };
        let pairs =
            self.columns.iter().map(|column| Ok(format!("{}, {}", quote::literal(&column.name)?, value(column))));
        Ok(format!("cast(json_object({}) as char)", pairs.collect::<Result<Vec<_>>>()?.join(", ")))
    }

    /// What is read of a message: the key as text, the payload, the headers, the group and the time it has waited.
    pub(crate) fn message(&self, owner: &str) -> Result<String> {
        let headers = if self.mapping.kind == Kind::Managed { "coalesce(t.headers, '{}')" } else { "'{}'" };
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

    /// The column of this name, be it quoted or not.
    pub(crate) fn named(&self, name: &str) -> Result<Column> {
        let mut known = self.key.iter().chain(&self.columns).chain([&self.owner]);
        known.find(|column| column.quoted == name || column.name == name).cloned().map_or_else(|| self.column(name), Ok)
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
}

ichido_sql::is_sql_queue!(Statements);

impl Statements {
    pub(crate) fn new(tables: &Tables, queue: &Queue, rows: Rows) -> Result<Self> {
        let conditions = rows.mapping.conditions(quote::literal)?;
        let (table, owner) = (&rows.mapping.table, &rows.owner.quoted);
        let claimable = format!("t.{owner} is null and {}", conditions.new);
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
        ];
        let guard = self.mutex.iter().flat_map(|mutex| {
            let claim = self.of_many(&mutex.free, 1, " for update skip locked");
            [
                ("lock", mutex.lock.to_string()),
                ("claim by id, look", claim),
                ("claim by id", self.of_many(&mutex.claim, 1, "")),
            ]
        });
        let own = guard.chain(all.into_iter().skip(if self.mutex.is_some() { 3 } else { 0 }));
        own.chain(self.named(|sql| self.of_many(sql, 1, ""))).chain(groups).collect()
    }
}

/// The statements of the verbs that all stores share.
fn shared(tables: &Tables, queue: &Queue, rows: &Rows, conditions: &Conditions) -> Result<SqlQueue> {
    let Conditions { new, failed, fail, retry, nobody, .. } = conditions;
    let (table, owner, by_key) = (&rows.mapping.table, &rows.owner.quoted, rows.by_key());
    let (mine, waits) = (format!("t.{owner} = ? and {new}"), format!("t.{owner} = {nobody} and {new}"));
    let free = format!("t.{owner} is null and {new}");
    let (key, out, held) = (rows.key_is(), rows.key_out(), rows.held(new));
    let update = |set: &str| format!("update {by_key} set {set} where {held} and {key}");
    // The one-way door. That this is the transaction that was begun, the savepoint has proved just before.
    let door = match &conditions.complete {
        Some(set) => format!("update {by_key} set {set} where {held} and "),
        None => format!("delete t from {by_key} where {held} and "),
    };
    let alike = SqlQueue::new(queue, &rows.mapping, conditions, rows.columns.iter().map(|column| &column.name));
    let alike = alike.spelled::<MySqlDialect>(
        tables,
        conditions,
        &Spelling {
            name: &quote::literal(&queue.name)?,
            key: &out,
            owner: &format!("cast(t.{owner} as char)"),
            group: &rows.group_out()?,
            waited: &rows.waited(),
            is: |condition| format!("cast(coalesce({condition}, 0) as signed)"),
            one: (&by_key, &key),
            many: &format!("{table} t where "),
            ages: &ages(&rows.mapping),
        },
    );
    Ok(SqlQueue {
        claimed: format!("select {} from {table} t where {mine}", rows.message(&format!("t.{owner}"))?).into(),
        complete: format!("{door}{key}").into(),
        complete_many: door.into(),
        park_waiting: update(&format!("{owner} = {nobody}")).into(),
        park_dead: update(fail).into(),
        owned: format!(
            "select {out}, {} from {} where {mine} order by {} limit 500 for update skip locked",
            rows.group_out()?,
            rows.by_owner(),
            conditions.owned_order
        )
        .into(),
        owns_any: format!("select 1 from {table} t where {mine} limit 1").into(),
        release: format!("update {by_key} set {owner} = null where {mine} and ").into(),
        waiting: format!("select {out} from {by_key} where {waits} and ").into(),
        return_due: format!("update {by_key} set {owner} = null where {waits} and ").into(),
        retry: format!("update {by_key} set {retry} where {failed} and {key}").into(),
        // A row of the user's own stays as it is, a message of ichido's own goes.
        discard: if rows.mapping.kind == Kind::Table {
            format!("update {table} t set {owner} = {owner} where {failed} and {key}").into()
        } else {
            format!("delete t from {by_key} where {failed} and {key}").into()
        },
        ready: format!("select {out} from {by_key} where {free} and ").into(),
        postpone: format!("update {by_key} set {owner} = {nobody} where {free} and ").into(),
        payload: format!("select {} from {table} t where {key}", rows.payload(&format!("t.{owner}"))?).into(),
        cancel: if rows.mapping.kind == Kind::Table {
            format!("update {by_key} set {fail} where {new} and {key}").into()
        } else {
            format!("delete t from {by_key} where {new} and {key}").into()
        },
        is_claimed: format!("select 1 from {by_key} where {} and {key} for update", rows.undecided(new)).into(),
        ..alike
    })
}

/// The first claimable rows in claim order, locked; rows that others are claiming are skipped. Served by an index on
/// (status, owner, claim order).
fn pick(rows: &Rows, conditions: &Conditions, claimable: &str, bounded: bool) -> Result<String> {
    let (order, ungrouped) = (conditions.order_by(), &conditions.ungrouped);
    let owner = if rows.mapping.kind == Kind::Table { "?" } else { "" };
    let (column, down) = &conditions.order[0];
    let first = rows.column(column)?;
    let from = format!(" and t.{column} {} {}", if *down { "<=" } else { ">=" }, first.value_of("?"));
    let from = if bounded { &from } else { "" };
    Ok(format!(
        "select {}, {} as ichido_bound from {} t where {claimable}{ungrouped}{from} order by {order} limit ? for update skip locked",
        rows.message(owner)?,
        first.out(),
        rows.mapping.table
    ))
}

/// When rows were sent, how old the oldest is, and how many are recent, for [`Spelling::ages`]; a DATETIME is taken for UTC.
fn ages(mapping: &Mapping) -> [String; 3] {
    let null = "cast(null as signed)";
    let Some(sent_at) = &mapping.sent_at else { return ["1", null, null].map(Into::into) };
    [
        format!("t.{sent_at}"),
        "timestampdiff(second, min(s), utc_timestamp())".into(),
        format!("cast(coalesce(sum(s >= utc_timestamp(6) - interval {} second), 0) as signed)", WINDOW.as_secs()),
    ]
}
