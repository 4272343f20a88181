//! Every statement about a queue's rows, built once per queue from its mapping. A managed queue is a table queue over
//! ichido's own message table: its rows have no status, and are deleted when done. `ichido check --sql` prints them.
//!
//! In all of them `$1` is the owner as text and the key columns come last, as text, cast to the column's type: one text per
//! column, or one array per column where many rows are meant. Each carries `(key, owner, still unprocessed)`.

use std::{ops::Deref, sync::Arc};

use ichido::{Queue, error::Result, inspect::MOST_COUNTED, message::Place, stat::WINDOW};
use ichido_sql::{Conditions, Kind, MOST_OWNERS, Mapping, SqlQueue, Tables};

use crate::{groups::Groups, mutex::Mutex, quote};

/// A column of a queue's table.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) quoted: String,
    /// Its type as the server writes it, without a length.
    pub(crate) kind: String,
}

impl Column {
    pub(crate) fn new(name: String, kind: String) -> Result<Self> {
        Ok(Column { quoted: quote::name(&name)?, name, kind })
    }
}

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
        let column = |name: &str, kind: &str| Column::new(name.into(), kind.into());
        let (key, owner) = (column("id", "bigint")?, column("owner", "uuid")?);
        Ok(Rows {
            table: tables.message.clone(),
            columns: Vec::new(),
            mapping: Mapping::managed(queue),
            key: vec![key],
            owner,
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
            key: vec![Column::new("id".into(), "varchar".into())?],
            place: format!("mutex:{queue}"),
            identity: format!("mutex:{queue}"),
            kind: Kind::Mutex,
            ..Rows::managed(tables, queue)?
        })
    }

    /// The row is held under this claim. A lock leaves no owner in it.
    fn held(&self, new: &str) -> String {
        let is = if self.kind == Kind::Mutex { "is not distinct from" } else { "=" };
        format!("t.{} {is} {} and {new}", self.owner.quoted, self.me())
    }

    /// The message may still be ours, or else it is done. A mutex row that is there at all says that it is not done.
    fn undecided(&self, new: &str) -> String {
        match self.kind {
            Kind::Mutex => format!("{new} and ($1::text is null or $1::text is not null)"),
            Kind::Table | Kind::Managed => self.held(new),
        }
    }

    /// `$1` as a value of the owner column.
    pub(crate) fn me(&self) -> String {
        format!("cast($1::text as {})", self.owner.kind)
    }

    pub(crate) fn each_key(&self, separator: &str, write: impl Fn(usize, &Column) -> String) -> String {
        self.key.iter().enumerate().map(|(at, column)| write(at, column)).collect::<Vec<_>>().join(separator)
    }

    /// The row with the key in the parameters from `$first` on.
    fn key_is(&self, first: usize) -> String {
        self.each_key(" and ", |at, column| {
            format!("t.{} = cast(${}::text as {})", column.quoted, first + at, column.kind)
        })
    }

    /// The keys in the array parameters from `$first` on, as `k`.
    fn keys(&self, first: usize) -> String {
        let arrays = self.each_key(", ", |at, _| format!("${}::text[]", first + at));
        format!("unnest({arrays}) as k({})", self.each_key(", ", |at, _| format!("k{at}")))
    }

    fn key_in_keys(&self) -> String {
        self.each_key(" and ", |at, column| format!("t.{} = cast(k.k{at} as {})", column.quoted, column.kind))
    }

    pub(crate) fn key_out(&self) -> String {
        self.each_key(", ", |at, column| format!("t.{}::text as k{at}", column.quoted))
    }

    /// The message in JSON; bytes are base64, and the server's line breaks in it are taken out.
    fn payload(&self) -> String {
        match self.kind {
            Kind::Managed => return "t.payload".into(),
            Kind::Mutex => return format!("(select o.payload from {} o where o.mutex = t.id)", self.outbox),
            Kind::Table => {}
        }
        let value = |Column { quoted, kind, .. }: &Column| match kind.as_str() {
            "bytea" => format!("replace(encode(t.{quoted}, 'base64'), E'\\n', '') as {quoted}"),
            _ => format!("t.{quoted}"),
        };
        let values: Vec<_> = self.columns.iter().map(value).collect();
        format!("(select row_to_json(r)::text from (select {}) r)", values.join(", "))
    }

    /// What is read of a message.
    pub(crate) fn message(&self) -> String {
        let headers = if self.kind == Kind::Managed { "t.headers" } else { "'{}'" };
        let group = self.group_out();
        let (key, payload, waited) = (self.key_out(), self.payload(), self.waited());
        format!("{key}, {payload} as payload, {headers} as headers, {group} as group_key, {waited} as waited")
    }

    /// For how many milliseconds the message has waited; none if it was sent at the end of all days.
    fn waited(&self) -> String {
        let Some(sent_at) = &self.mapping.sent_at else { return "null::bigint".into() };
        let since = format!("greatest(extract(epoch from clock_timestamp() - t.{sent_at}), 0) * 1000");
        format!("case when isfinite(t.{sent_at}) then ({since})::bigint end")
    }

    /// A group as `ichido_group` has it: the same text for values that are equal. What no index can hold is known by its hash.
    pub(crate) fn group_text(&self) -> Option<String> {
        let group = self.mapping.group.as_ref()?;
        let text = match self.kind(group) {
            "citext" => format!("lower(t.{group}::text)"),
            "numeric" => format!("trim_scale(t.{group})::text"),
            "interval" => format!("justify_interval(t.{group})::text"),
            _ => format!("t.{group}::text"),
        };
        Some(format!("case when octet_length({text}) > 500 then md5({text}) else {text} end"))
    }

    /// The same where a row is read.
    fn group_out(&self) -> String {
        self.group_text().unwrap_or_else(|| "null::text".into())
    }

    /// A text as a value of a column.
    pub(crate) fn cast(&self, quoted: &str, parameter: usize) -> String {
        format!("cast(${parameter}::text as {})", self.kind(quoted))
    }

    fn kind(&self, quoted: &str) -> &str {
        let mut known = self.columns.iter().chain(&self.key);
        let found = known.find(|column| column.quoted == quoted || column.name == quoted);
        found.map_or("text", |column| &*column.kind)
    }
}

/// The statements of one queue: those of all stores, and those that only this one has.
pub struct Statements {
    pub(crate) shared: SqlQueue,
    pub(crate) rows: Rows,
    pub(crate) claim: Arc<str>,
    /// The same from a row on: its values of the claim order are the parameters from `$3` on.
    pub(crate) claim_from: Arc<str>,
    /// How many values of the claim order a bound has.
    pub(crate) bound_columns: usize,
    pub(crate) groups: Option<Groups>,
    /// What only a broker's queue has.
    pub(crate) mutex: Option<Mutex>,
    pub(crate) look: Arc<str>,
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
        let (table, owner, new) = (&rows.table, &rows.owner.quoted, &conditions.new);
        let held = rows.held(new);
        Ok(Statements {
            shared: shared(tables, queue, &rows, &conditions)?,
            claim: claim(tables, &queue.name, &rows, &conditions, "")?.into(),
            claim_from: claim(tables, &queue.name, &rows, &conditions, &from(&rows, &conditions))?.into(),
            bound_columns: conditions.bound().len(),
            groups: Groups::new(tables, &queue.name, &rows, &conditions)?,
            mutex: match queue.place {
                Place::Broker(_) => Some(Mutex::new(tables, &queue.name, &rows)?),
                _ => None,
            },
            look: look(&rows, &conditions).into(),
            claimed: format!("select {} from {table} t where t.{owner} = {} and {new}", rows.message(), rows.me())
                .into(),
            complete: complete(&rows, &conditions, &held).into(),
            complete_many: complete_many(&rows, &conditions, &held).into(),
            rows,
        })
    }

    /// The statements with what they do.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        let groups = self.groups.iter().map(|groups| ("claim of a group's first", &groups.claim));
        let guard = self.mutex.iter().flat_map(|mutex| [("lock", &mutex.lock), ("claim by id", &mutex.claim)]);
        let all = [
            ("claim", &self.claim),
            ("claim from a row on", &self.claim_from),
            ("complete", &self.complete),
            ("complete many", &self.complete_many),
            ("release", &self.release),
            ("park", &self.park_waiting),
            ("park for good", &self.park_dead),
            ("return", &self.return_due),
            ("rescue", &self.owned),
            ("retry", &self.retry),
        ];
        guard
            .chain(all.into_iter().skip(if self.mutex.is_some() { 2 } else { 0 }))
            .chain(groups)
            .map(|(verb, sql)| (verb, sql.to_string()))
            .collect()
    }
}

/// The statements of the verbs that all stores share.
fn shared(tables: &Tables, queue: &Queue, rows: &Rows, conditions: &Conditions) -> Result<SqlQueue> {
    let Conditions { new, failed, done, fail, retry, nobody, .. } = conditions;
    let (table, owner) = (&rows.table, &rows.owner.quoted);
    let (mine, waits) = (format!("t.{owner} = {} and {new}", rows.me()), format!("t.{owner} = {nobody} and {new}"));
    let (key, many, out, keys) = (rows.key_is(1), rows.key_in_keys(), rows.key_out(), rows.keys(1));
    let update = |set: &str| format!("update {table} t set {set} where {} and {}", rows.key_is(2), rows.held(new));
    let owners = |is: &str| {
        format!(
            "select {out}, t.{owner}::text from {table} t where {new} and t.{owner} {is} {nobody} limit {MOST_OWNERS}"
        )
    };
    let columns = rows.columns.iter().map(|column| column.name.clone()).collect();
    Ok(SqlQueue {
        park_waiting: update(&format!("{owner} = {nobody}")).into(),
        park_dead: update(fail).into(),
        owned: format!(
            "select {out}, {} from {table} t where {mine} order by {} limit 500 for update skip locked",
            rows.group_out(),
            conditions.owned_order(rows.kind, owner)
        )
        .into(),
        owns_any: format!("select 1 from {table} t where {mine} limit 1").into(),
        release: format!("update {table} t set {owner} = null from {} where {many} and {mine}", rows.keys(2)).into(),
        waiting: format!("select {out} from {table} t, {keys} where {many} and {waits}").into(),
        return_due: format!("update {table} t set {owner} = null from {keys} where {many} and {waits}").into(),
        retry: format!("update {table} t set {retry} where {key} and {failed}").into(),
        // A row of the user's own stays as it is, a message of ichido's own goes.
        discard: if rows.kind == Kind::Table {
            format!("select 1 from {table} t where {key} and {failed} for update").into()
        } else {
            format!("delete from {table} t where {key} and {failed}").into()
        },
        dead_or_new: format!(
            "select {out}, coalesce({failed}, false), coalesce({new}, false) from {table} t, {keys} where {many}"
        )
        .into(),
        payload: format!("select {} from {table} t where {key}", rows.payload()).into(),
        headers: ichido_sql::headers_of(rows.kind, tables, table, &key).into(),
        state: format!(
            "select t.{owner}::text, {}, coalesce({new}, false), coalesce({failed}, false), coalesce({done}, false) from {table} t where {key}",
            rows.group_out()
        )
        .into(),
        cancel: if rows.kind == Kind::Table {
            format!("update {table} t set {fail} where {key} and {new}").into()
        } else {
            format!("delete from {table} t where {key} and {new}").into()
        },
        ready: format!(
            "select {out} from {table} t where {new} and t.{owner} is null order by {}",
            each_order(conditions, |_, column, down| format!("t.{column}{down}"))
        )
        .into(),
        held: format!("select {out} from {table} t where {new} and t.{owner} <> {nobody}").into(),
        is_claimed: format!("select 1 from {table} t where {} and {} for update", rows.key_is(2), rows.undecided(new))
            .into(),
        drained: ichido_sql::drained::<crate::sql::PostgresDialect>(
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

/// Claims `$2` rows in order. Locks the own process row, so that a rescuer leaves us alone meanwhile and a process that
/// counts as dead gets nothing; skips rows that others are claiming. Served by the index on claimable rows in claim order.
fn claim(tables: &Tables, queue: &str, rows: &Rows, conditions: &Conditions, from: &str) -> Result<String> {
    let Conditions { new, ungrouped, .. } = conditions;
    let (table, owner) = (&rows.table, &rows.owner.quoted);
    Ok(format!(
        "with {me}, \
         picked as materialized (select {key} from {table} t where {new} and t.{owner} is null{ungrouped}{from} and exists (select 1 from me) \
         order by {inside} limit $2 for update of t skip locked), \
         claimed as (update {table} t set {owner} = {owned} from picked where {same} returning {kept}, {message}) \
         select exists (select 1 from me), exists (select 1 from {parked} where queue = {queue}), {grouped}, c.* \
         from (values (1)) as one(n) left join claimed c on true order by {outside}",
        me = me(tables),
        parked = tables.parked,
        queue = quote::literal(queue)?,
        grouped = grouped(rows, new),
        key = rows.each_key(", ", |at, column| format!("t.{} as k{at}", column.quoted)),
        inside = each_order(conditions, |_, column, down| format!("t.{column}{down}")),
        owned = rows.me(),
        same = rows.each_key(" and ", |at, column| format!("t.{} = picked.k{at}", column.quoted)),
        kept = each_order(conditions, |at, column, _| format!("t.{column} as o{at}, t.{column}::text as b{at}")),
        message = rows.message(),
        outside = each_order(conditions, |at, _, down| format!("c.o{at}{down}")),
    ))
}

/// How many rows are claimable and claimed, for how many seconds the oldest of the claimable has waited, and how many of them are
/// recent. Bounded: who looks at a long backlog must not read all of it.
fn counts(rows: &Rows, conditions: &Conditions) -> String {
    let Conditions { new, nobody, .. } = conditions;
    let (table, owner) = (&rows.table, &rows.owner.quoted);
    let (sent_at, oldest, recent) = match &rows.mapping.sent_at {
        None => ("null".into(), "null::bigint".into(), "null::bigint".into()),
        Some(sent_at) => (
            format!("t.{sent_at}"),
            "extract(epoch from clock_timestamp() - min(s) filter (where isfinite(s)))::bigint".to_owned(),
            format!("count(*) filter (where s >= clock_timestamp() - interval '{} seconds')", WINDOW.as_secs()),
        ),
    };
    format!(
        "select count(*), (select count(*) from (select 1 from {table} t where {new} and t.{owner} <> {nobody} limit {MOST_COUNTED}) claimed), \
         {oldest}, {recent} from (select {sent_at} as s from {table} t where {new} and t.{owner} is null limit {MOST_COUNTED}) ready"
    )
}

/// The own process row, locked, if the process counts as alive.
pub(crate) fn me(tables: &Tables) -> String {
    format!(
        "me as materialized (select 1 from {} where id = $1::text::uuid and heartbeat_at > clock_timestamp() - lease for key share)",
        tables.process
    )
}

/// Is there a message in a group?
fn grouped(rows: &Rows, new: &str) -> String {
    match &rows.mapping.group {
        Some(group) => format!("exists (select 1 from {} t where {new} and t.{group} is not null)", rows.table),
        None => "false".into(),
    }
}

/// Something about each column of the claim order.
pub(crate) fn each_order(conditions: &Conditions, write: impl Fn(usize, &str, &str) -> String) -> String {
    let order = conditions.order.iter().enumerate();
    let each = order.map(|(at, (column, down))| write(at, column, if *down { " desc" } else { "" }));
    each.collect::<Vec<_>>().join(", ")
}

/// The rows from a row of the claim order on.
fn from(rows: &Rows, conditions: &Conditions) -> String {
    let bound = conditions.bound();
    let columns: Vec<_> = bound.iter().map(|(column, _)| format!("t.{column}")).collect();
    let values: Vec<_> = bound.iter().enumerate().map(|(at, (column, _))| rows.cast(column, 3 + at)).collect();
    let descending = bound.first().is_some_and(|(_, down)| *down);
    format!(" and ({}) {} ({})", columns.join(", "), if descending { "<=" } else { ">=" }, values.join(", "))
}

/// The part of a claim that finds rows, for the planner to explain.
fn look(rows: &Rows, conditions: &Conditions) -> String {
    let Conditions { new, ungrouped, .. } = conditions;
    let order = each_order(conditions, |_, column, down| format!("t.{column}{down}"));
    let (table, owner) = (&rows.table, &rows.owner.quoted);
    format!("select 1 from {table} t where {new} and t.{owner} is null{ungrouped} order by {order} limit 64")
}

/// The one-way door. `$2` is the token that this transaction was begun with: it is gone if the transaction is.
fn complete(rows: &Rows, conditions: &Conditions, mine: &str) -> String {
    let table = &rows.table;
    let guard = format!("{} and {mine} and current_setting('ichido.tx', true) = $2", rows.key_is(3));
    match &conditions.complete {
        Some(set) => format!("update {table} t set {set} where {guard}"),
        None => format!("delete from {table} t where {guard}"),
    }
}

/// The same for many rows; each of them must pass.
fn complete_many(rows: &Rows, conditions: &Conditions, mine: &str) -> String {
    let (table, keys) = (&rows.table, rows.keys(3));
    let guard = format!("{} and {mine} and current_setting('ichido.tx', true) = $2", rows.key_in_keys());
    match &conditions.complete {
        Some(set) => format!("update {table} t set {set} from {keys} where {guard}"),
        None => format!("delete from {table} t using {keys} where {guard}"),
    }
}
