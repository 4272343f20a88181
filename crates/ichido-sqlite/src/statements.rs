//! Every statement about a queue's rows, built once per queue from its mapping. A managed queue is a table queue over
//! ichido's own message table: its rows have no status, and are deleted when done. `ichido check --sql` prints them.
//!
//! In all of them `?1` is the owner, where there is one, and the key columns come last, as text: one text per column, or one
//! JSON array of keys where many rows are meant. Each carries `(key, owner, still unprocessed)`.

use std::sync::Arc;

use ichido::{Queue, error::Result, message::Place, stat::WINDOW};
use ichido_sql::{Conditions, Kind, Mapping, Spelling, SqlQueue, Tables};

use crate::{groups::Groups, mutex::Mutex, quote, sql::SqliteDialect};

/// A column of a queue's table.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) quoted: String,
    /// Its type as it was declared, in capitals.
    kind: String,
    pub(crate) not_null: bool,
    /// SQLite computes it.
    pub(crate) is_generated: bool,
}

impl Column {
    pub(crate) fn new(name: String, kind: &str, not_null: bool) -> Result<Self> {
        Ok(Column { quoted: quote::name(&name)?, name, kind: kind.to_uppercase(), not_null, is_generated: false })
    }

    /// Does the column turn text that looks like a number into one?
    pub(crate) fn is_numeric(&self) -> bool {
        let text = ["CHAR", "CLOB", "TEXT"].iter().any(|part| self.kind.contains(part));
        (self.kind.contains("INT") || !text) && !self.is_blob()
    }

    /// Is a text at home in the column? Types that SQLite does not know, such as UUID, hold whatever they are given.
    pub(crate) fn can_hold_text(&self) -> bool {
        let other = ["INT", "REAL", "FLOA", "DOUB", "NUM", "DEC", "BOOL", "BLOB", "DATE", "TIME"];
        !other.iter().any(|part| self.kind.contains(part))
    }

    /// Does the column turn what it is given into one kind of value?
    pub(crate) fn has_type(&self) -> bool {
        !self.kind.is_empty() && self.kind != "ANY"
    }

    /// Bytes, whose text form is hexadecimal.
    pub(crate) fn is_blob(&self) -> bool {
        self.kind.contains("BLOB") && !self.kind.contains("INT")
    }

    /// A binary fraction, whose shortest text is not exact.
    fn is_real(&self) -> bool {
        ["REAL", "FLOA", "DOUB"].iter().any(|part| self.kind.contains(part)) && !self.kind.contains("INT")
    }

    /// A number that may be kept as a binary fraction.
    fn is_decimal(&self) -> bool {
        ["DEC", "NUM"].iter().any(|part| self.kind.contains(part)) && self.is_numeric()
    }

    /// The column as text.
    pub(crate) fn out(&self, table: &str) -> String {
        let name = format!("{table}{}", self.quoted);
        match () {
            () if self.is_blob() => format!("hex({name})"),
            () if self.is_real() => format!("printf('%!.17g', {name})"),
            () if self.is_decimal() => {
                format!("case typeof({name}) when 'real' then printf('%!.17g', {name}) else cast({name} as text) end")
            }
            () => format!("cast({name} as text)"),
        }
    }

    /// The column has the value whose text this expression is.
    fn is(&self, text: &str) -> String {
        format!("t.{} = {}", self.quoted, self.value_of(text))
    }

    /// The value whose text this expression is.
    pub(crate) fn value_of(&self, text: &str) -> String {
        match () {
            () if self.is_blob() => format!("unhex({text})"),
            () if self.is_real() => format!("cast({text} as real)"),
            () => text.to_owned(),
        }
    }
}

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
        let column = |name: &str, kind: &str| Column::new(name.into(), kind, true);
        let mapping = Mapping::own(tables, queue);
        let (id, columns) = match mapping.kind {
            Kind::Mutex => ("TEXT", Vec::new()),
            _ => ("INTEGER", vec![column("payload", "TEXT")?, column("headers", "TEXT")?]),
        };
        Ok(Rows { mapping, columns, key: vec![column("id", id)?], owner: column("owner", "TEXT")? })
    }

    /// The message may still be ours, or else it is done. A mutex row that is there at all says that it is not done.
    fn undecided(&self, mine: &str, new: &str) -> String {
        match self.mapping.kind {
            Kind::Mutex => format!("{new} and (?1 is null or ?1 is not null)"),
            Kind::Table | Kind::Managed => mine.to_owned(),
        }
    }

    pub(crate) fn each_key(&self, separator: &str, write: impl Fn(usize, &Column) -> String) -> String {
        self.key.iter().enumerate().map(|(at, column)| write(at, column)).collect::<Vec<_>>().join(separator)
    }

    /// The column that the mapping calls so.
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().chain(&self.key).find(|column| column.quoted == name || column.name == name)
    }

    /// The row with the key in the parameters from `?first` on.
    fn key_is(&self, first: usize) -> String {
        self.each_key(" and ", |at, column| column.is(&format!("?{}", first + at)))
    }

    /// The row with one of the keys in the JSON array that is called `k`.
    pub(crate) fn key_in_keys(&self) -> String {
        self.each_key(" and ", |at, column| column.is(&format!("json_extract(k.value, '$[{at}]')")))
    }

    pub(crate) fn key_out(&self) -> String {
        self.each_key(", ", |_, column| column.out("t."))
    }

    /// What is read of a message: the key as text, then every column, then the group and the time it has waited.
    pub(crate) fn message(&self) -> String {
        let columns: Vec<_> = self.columns.iter().map(|column| format!("t.{}", column.quoted)).collect();
        let columns = match (self.mapping.kind, &self.mapping.payload) {
            (Kind::Mutex, Some(payload)) => format!("{payload}, '{{}}'"),
            _ => columns.join(", "),
        };
        let (key, group, waited) = (self.key_out(), self.group_out(), self.waited());
        format!("{key}, {columns}, {group} as ichido_group_key, {waited} as ichido_waited")
    }

    /// For how many milliseconds the message has waited; times are text as SQLite writes it, or seconds since 1970.
    fn waited(&self) -> String {
        let Some(sent_at) = &self.mapping.sent_at else { return "null".into() };
        format!("cast(round((julianday('now') - julianday(t.{sent_at}, 'auto')) * 86400000) as integer)")
    }

    /// A group as `ichido_group` has it.
    pub(crate) fn group_out(&self) -> String {
        self.mapping.group.as_ref().map_or("null".into(), |group| format!("cast(t.{group} as text)"))
    }
}

/// The statements of one queue: those of all stores, and those that only this one has.
pub struct Statements {
    pub(crate) shared: SqlQueue,
    pub(crate) rows: Rows,
    pub(crate) pick: Arc<str>,
    pub(crate) claim: Arc<str>,
    pub(crate) groups: Option<Groups>,
    /// What only a broker's queue has.
    pub(crate) mutex: Option<Mutex>,
}

ichido_sql::is_sql_queue!(Statements);

impl Statements {
    pub(crate) fn new(tables: &Tables, queue: &Queue, rows: Rows) -> Result<Self> {
        let conditions = rows.mapping.conditions(quote::literal)?;
        let (owner, new) = (&rows.owner.quoted, &conditions.new);
        let claimable = format!("t.{owner} is null and {new}");
        Ok(Statements {
            shared: shared(tables, queue, &rows, &conditions)?,
            pick: pick(&rows, &conditions, &claimable).into(),
            groups: Groups::new(&rows, &conditions),
            mutex: match &queue.place {
                Place::Broker(rules) => Some(Mutex::new(queue, rules)?),
                _ => None,
            },
            claim: many(&rows, &format!("{owner} = ?1"), "?2", &claimable).into(),
            rows,
        })
    }

    /// The statements with what they do.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        let groups = self.groups.iter().map(|groups| ("claim, look at groups", &groups.look));
        let all = [
            ("claim, look", &self.pick),
            ("claim", &self.claim),
            ("complete", &self.complete),
            ("complete many", &self.complete_many),
        ];
        let guard = self.mutex.iter().map(|mutex| ("claim by id", &mutex.claim));
        let own = guard.chain(all.into_iter().skip(if self.mutex.is_some() { 2 } else { 0 }));
        let write = |(verb, sql): (&'static str, &Arc<str>)| (verb, sql.to_string());
        own.map(write).chain(self.named(ToString::to_string)).chain(groups.map(write)).collect()
    }
}

/// The statements of the verbs that all stores share.
fn shared(tables: &Tables, queue: &Queue, rows: &Rows, conditions: &Conditions) -> Result<SqlQueue> {
    let Conditions { new, failed, fail, retry, nobody, .. } = conditions;
    let (table, owner) = (&rows.mapping.table, &rows.owner.quoted);
    let (mine, waits) = (format!("t.{owner} = ?1 and {new}"), format!("t.{owner} = {nobody} and {new}"));
    let (key, out, keys) = (rows.key_is(1), rows.key_out(), rows.key_in_keys());
    let update = |set: &str| format!("update {table} as t set {set} where {} and {mine}", rows.key_is(2));
    let (free, claimable) = (format!("{owner} = null"), format!("t.{owner} is null and {new}"));
    let alike = SqlQueue::new(queue, &rows.mapping, conditions, rows.columns.iter().map(|column| &column.name));
    let alike = alike.spelled::<SqliteDialect>(
        tables,
        conditions,
        &Spelling {
            name: &quote::literal(&queue.name)?,
            key: &out,
            owner: &format!("cast(t.{owner} as text)"),
            group: &rows.group_out(),
            waited: &rows.waited(),
            is: |condition| format!("coalesce({condition}, 0)"),
            one: (&format!("{table} t"), &key),
            many: &format!("json_each(?1) k, {table} t where {keys}"),
            ages: &ages(&rows.mapping),
        },
    );
    Ok(SqlQueue {
        claimed: format!("select {} from {table} t where {mine}", rows.message()).into(),
        complete: complete(rows, conditions, &mine).into(),
        complete_many: complete_many(rows, conditions, &mine).into(),
        park_waiting: update(&format!("{owner} = {nobody}")).into(),
        park_dead: update(fail).into(),
        owned: format!(
            "select {out}, {} from {table} t where {mine} order by {} limit 500",
            rows.group_out(),
            conditions.owned_order
        )
        .into(),
        owns_any: format!("select 1 from {table} t where {mine} limit 1").into(),
        release: many(rows, &free, "?2", &mine).into(),
        waiting: format!("select {out} from json_each(?1) k, {table} t where {keys} and {waits}").into(),
        return_due: many(rows, &free, "?1", &waits).into(),
        retry: format!("update {table} as t set {retry} where {key} and {failed}").into(),
        // A row of the user's own stays as it is, a message of ichido's own goes.
        discard: if rows.mapping.kind == Kind::Table {
            format!("update {table} as t set {owner} = {owner} where {key} and {failed}").into()
        } else {
            format!("delete from {table} as t where {key} and {failed}").into()
        },
        ready: format!("select {out} from json_each(?1) k, {table} t where {keys} and {claimable}").into(),
        postpone: many(rows, &format!("{owner} = {nobody}"), "?1", &claimable).into(),
        payload: format!("select {} from {table} t where {key}", rows.message()).into(),
        cancel: if rows.mapping.kind == Kind::Table {
            format!("update {table} as t set {fail} where {key} and {new}").into()
        } else {
            format!("delete from {table} as t where {key} and {new}").into()
        },
        is_claimed: format!("select 1 from {table} t where {} and {}", rows.key_is(2), rows.undecided(&mine, new))
            .into(),
        ..alike
    })
}

/// Changes the rows with the keys in this JSON array, under a condition.
fn many(rows: &Rows, set: &str, keys: &str, guard: &str) -> String {
    let (table, is) = (&rows.mapping.table, rows.key_in_keys());
    format!("update {table} as t set {set} from json_each({keys}) k where {is} and {guard}")
}

/// The first `?1` claimable rows in claim order. A primary key of SQLite's can be null; such a row cannot be a message.
fn pick(rows: &Rows, conditions: &Conditions, claimable: &str) -> String {
    let (order, ungrouped) = (conditions.order_by(), &conditions.ungrouped);
    let named = rows.each_key(" and ", |_, column| format!("t.{} is not null", column.quoted));
    let (message, table) = (rows.message(), &rows.mapping.table);
    format!("select {message} from {table} t where {claimable}{ungrouped} and {named} order by {order} limit ?1")
}

/// When rows were sent, how old the oldest is, and how many are recent, for [`Spelling::ages`]; times are text as SQLite writes it,
/// or seconds since 1970.
fn ages(mapping: &Mapping) -> [String; 3] {
    let Some(sent_at) = &mapping.sent_at else { return ["null"; 3].map(Into::into) };
    [
        format!("julianday(t.{sent_at}, 'auto')"),
        "cast(round((julianday('now') - min(s)) * 86400) as integer)".into(),
        format!("count(*) filter (where s >= julianday('now', '-{} seconds'))", WINDOW.as_secs()),
    ]
}

/// The one-way door. That this is the transaction that was begun is the guard's to prove.
fn complete(rows: &Rows, conditions: &Conditions, mine: &str) -> String {
    let (table, guard) = (&rows.mapping.table, format!("{} and {mine}", rows.key_is(2)));
    match &conditions.complete {
        Some(set) => format!("update {table} as t set {set} where {guard}"),
        None => format!("delete from {table} as t where {guard}"),
    }
}

/// The same for the rows with the keys in the JSON array `?2`; each of them must pass.
fn complete_many(rows: &Rows, conditions: &Conditions, mine: &str) -> String {
    let columns = rows.each_key(", ", |_, column| format!("t.{}", column.quoted));
    let values = rows.each_key(", ", |at, column| column.value_of(&format!("json_extract(k.value, '$[{at}]')")));
    let (table, guard) =
        (&rows.mapping.table, format!("({columns}) in (select {values} from json_each(?2) k) and {mine}"));
    match &conditions.complete {
        Some(set) => format!("update {table} as t set {set} where {guard}"),
        None => format!("delete from {table} as t where {guard}"),
    }
}
