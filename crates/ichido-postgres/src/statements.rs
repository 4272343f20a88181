//! Every statement about a queue's rows, built once per queue from its mapping. A managed queue is a table queue over
//! ichido's own message table: its rows have no status, and are deleted when done. `ichido check --sql` prints them.
//!
//! In all of them `$1` is the owner as text and the key columns come last, as text, cast to the column's type: one text per
//! column, or one array per column where many rows are meant. Each carries `(key, owner, still unprocessed)`.

use std::sync::Arc;

use ichido::{Queue, error::Result, message::Place, stat::WINDOW};
use ichido_sql::{Conditions, Kind, Mapping, Spelling, SqlQueue, Tables};

use crate::{groups::Groups, mutex::Mutex, quote, sql::PostgresDialect, walk::Walk};

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
    pub(crate) mapping: Mapping,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<Column>,
    pub(crate) owner: Column,
}

impl Rows {
    /// The rows of a queue in ichido's own tables.
    pub(crate) fn own(tables: &Tables, queue: &Queue) -> Result<Self> {
        let mapping = Mapping::own(tables, queue);
        let id = if mapping.kind == Kind::Mutex { "varchar" } else { "bigint" };
        let (id, owner) = (Column::new("id".into(), id.into())?, Column::new("owner".into(), "uuid".into())?);
        Ok(Rows { mapping, columns: Vec::new(), key: vec![id], owner })
    }

    /// The row is held under this claim. A lock leaves no owner in it.
    fn held(&self, new: &str) -> String {
        let is = if self.mapping.kind == Kind::Mutex { "is not distinct from" } else { "=" };
        format!("t.{} {is} {} and {new}", self.owner.quoted, self.me())
    }

    /// The message may still be ours, or else it is done. A mutex row that is there at all says that it is not done.
    fn undecided(&self, new: &str) -> String {
        match self.mapping.kind {
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
        if let Some(payload) = &self.mapping.payload {
            return payload.clone();
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
        let headers = if self.mapping.kind == Kind::Managed { "t.headers" } else { "'{}'" };
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

    pub(crate) fn kind(&self, quoted: &str) -> &str {
        let mut known = self.columns.iter().chain(&self.key).chain([&self.owner]);
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
    /// Completion of one row and of many, which also forgets what is known about messages: their keys are the last parameter.
    pub(crate) complete_parked: [Arc<str>; 2],
    /// How many values of the claim order a bound has.
    pub(crate) bound_columns: usize,
    pub(crate) groups: Option<Groups>,
    /// What only a broker's queue has.
    pub(crate) mutex: Option<Mutex>,
    pub(crate) look: Arc<str>,
}

ichido_sql::is_sql_queue!(Statements);

impl Statements {
    pub(crate) fn new(tables: &Tables, queue: &Queue, rows: Rows) -> Result<Self> {
        let conditions = rows.mapping.conditions(quote::literal)?;
        let shared = shared(tables, queue, &rows, &conditions)?;
        let last = 3 + rows.key.len();
        let forget = format!(
            "delete from {} where queue = {} and key = any(${last})",
            tables.parked,
            quote::literal(&queue.name)?
        );
        let forgetting = |complete: &Arc<str>| format!("with known as ({forget}) {complete}").into();
        Ok(Statements {
            complete_parked: [&shared.complete, &shared.complete_many].map(forgetting),
            shared,
            claim: claim(tables, &queue.name, &rows, &conditions, false)?.into(),
            claim_from: claim(tables, &queue.name, &rows, &conditions, true)?.into(),
            bound_columns: conditions.bound().len(),
            groups: Groups::new(tables, &queue.name, &rows, &conditions)?,
            mutex: match queue.place {
                Place::Broker(_) => Some(Mutex::new(tables, &queue.name, &rows)?),
                _ => None,
            },
            look: look(&queue.name, &rows, &conditions)?.into(),
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
        ];
        let own = guard.chain(all.into_iter().skip(if self.mutex.is_some() { 2 } else { 0 }));
        let write = |(verb, sql): (&'static str, &Arc<str>)| (verb, sql.to_string());
        own.map(write).chain(self.named(ToString::to_string)).chain(groups.map(write)).collect()
    }
}

/// The statements of the verbs that all stores share.
fn shared(tables: &Tables, queue: &Queue, rows: &Rows, conditions: &Conditions) -> Result<SqlQueue> {
    let Conditions { new, failed, fail, retry, nobody, .. } = conditions;
    let (table, owner) = (&rows.mapping.table, &rows.owner.quoted);
    let (mine, waits) = (format!("t.{owner} = {} and {new}", rows.me()), format!("t.{owner} = {nobody} and {new}"));
    let free = format!("t.{owner} is null and {new}");
    let (key, many, out, keys) = (rows.key_is(1), rows.key_in_keys(), rows.key_out(), rows.keys(1));
    let update = |set: &str| format!("update {table} t set {set} where {} and {}", rows.key_is(2), rows.held(new));
    let alike = SqlQueue::new(queue, &rows.mapping, conditions, rows.columns.iter().map(|column| &column.name));
    let alike = alike.spelled::<PostgresDialect>(
        tables,
        conditions,
        &Spelling {
            name: &quote::literal(&queue.name)?,
            key: &out,
            owner: &format!("t.{owner}::text"),
            group: &rows.group_out(),
            waited: &rows.waited(),
            is: |condition| format!("coalesce({condition}, false)"),
            one: (&format!("{table} t"), &key),
            many: &format!("{table} t, {keys} where {many}"),
            ages: &ages(&rows.mapping),
        },
    );
    Ok(SqlQueue {
        claimed: format!("select {} from {table} t where {mine}", rows.message()).into(),
        complete: complete(rows, conditions, &rows.held(new)).into(),
        complete_many: complete_many(rows, conditions, &rows.held(new)).into(),
        park_waiting: update(&format!("{owner} = {nobody}")).into(),
        park_dead: update(fail).into(),
        owned: format!(
            "select {out}, {} from {table} t where {mine} order by {} limit 500 for update skip locked",
            rows.group_out(),
            conditions.owned_order
        )
        .into(),
        owns_any: format!("select 1 from {table} t where {mine} limit 1").into(),
        release: format!("update {table} t set {owner} = null from {} where {many} and {mine}", rows.keys(2)).into(),
        waiting: format!("select {out} from {table} t, {keys} where {many} and {waits}").into(),
        return_due: format!("update {table} t set {owner} = null from {keys} where {many} and {waits}").into(),
        retry: format!("update {table} t set {retry} where {key} and {failed}").into(),
        // A row of the user's own stays as it is, a message of ichido's own goes.
        discard: if rows.mapping.kind == Kind::Table {
            format!("select 1 from {table} t where {key} and {failed} for update").into()
        } else {
            format!("delete from {table} t where {key} and {failed}").into()
        },
        ready: format!("select {out} from {table} t, {keys} where {many} and {free}").into(),
        postpone: format!("update {table} t set {owner} = {nobody} from {keys} where {many} and {free}").into(),
        payload: format!("select {} from {table} t where {key}", rows.payload()).into(),
        cancel: if rows.mapping.kind == Kind::Table {
            format!("update {table} t set {fail} where {key} and {new}").into()
        } else {
            format!("delete from {table} t where {key} and {new}").into()
        },
        is_claimed: format!("select 1 from {table} t where {} and {} for update", rows.key_is(2), rows.undecided(new))
            .into(),
        ..alike
    })
}

/// Claims `$2` rows in order. Locks the own process row, so that a rescuer leaves us alone meanwhile and a process that
/// counts as dead gets nothing; skips rows that others are claiming. Served by the index on claimable rows in claim order.
/// Where there is nothing to claim, nothing is locked and so nothing is written. Whether anything is parked is read along the index: an EXISTS
/// would read the table from its beginning, past all that has been returned.
fn claim(tables: &Tables, queue: &str, rows: &Rows, conditions: &Conditions, bounded: bool) -> Result<String> {
    let Conditions { new, ungrouped, .. } = conditions;
    let (table, owner) = (&rows.mapping.table, &rows.owner.quoted);
    let Walk { within, order: inside, from } = Walk::new(queue, rows, conditions)?;
    let from = if bounded { &*from } else { "" };
    Ok(format!(
        "with picked as materialized (select {key} from {table} t where {within} and t.{owner} is null{ungrouped}{from} \
         order by {inside} limit $2 for update of t skip locked), {me}, \
         claimed as (update {table} t set {owner} = {owned} from picked where {same} and exists (select 1 from me) returning {kept}, {message}) \
         select {alive}, (select 1 from {parked} p where p.queue = {queue} order by p.key limit 1) is not null, {grouped}, c.* \
         from (values (1)) as one(n) left join claimed c on true order by {outside}",
        me = me_if_picked(tables),
        alive = ALIVE,
        parked = tables.parked,
        queue = quote::literal(queue)?,
        grouped = grouped(rows, new),
        key = rows.each_key(", ", |at, column| format!("t.{} as k{at}", column.quoted)),
        owned = rows.me(),
        same = rows.each_key(" and ", |at, column| format!("t.{} = picked.k{at}", column.quoted)),
        kept = each_order(conditions, |at, column, _| format!("t.{column} as o{at}, t.{column}::text as b{at}")),
        message = rows.message(),
        outside = each_order(conditions, |at, _, down| format!("c.o{at}{down}")),
    ))
}

/// When rows were sent, how old the oldest is, and how many are recent, for [`Spelling::ages`].
fn ages(mapping: &Mapping) -> [String; 3] {
    let Some(sent_at) = &mapping.sent_at else { return ["null", "null::bigint", "null::bigint"].map(Into::into) };
    [
        format!("t.{sent_at}"),
        "extract(epoch from clock_timestamp() - min(s) filter (where isfinite(s)))::bigint".into(),
        format!("count(*) filter (where s >= clock_timestamp() - interval '{} seconds')", WINDOW.as_secs()),
    ]
}

/// The own process row, locked, if the process counts as alive.
pub(crate) fn me(tables: &Tables) -> String {
    me_if(tables, "1", "")
}

/// The same if rows were picked. Locking is writing: a claim that finds nothing must not. Until it is locked, picked rows are only locked:
/// whoever rescues this process skips them, and what is then found here is a dead one.
///
/// The COMMIT of a claim does not wait for the disk: should the server crash before it is there, the rows are free again, and whoever had claimed
/// them cannot complete them. A completion that is on disk has its claim before it in the same log.
pub(crate) fn me_if_picked(tables: &Tables) -> String {
    me_if(tables, "set_config('synchronous_commit', 'off', true)", " and exists (select 1 from picked)")
}

fn me_if(tables: &Tables, told: &str, condition: &str) -> String {
    format!(
        "me as materialized (select {told} from {} where id = $1::text::uuid and heartbeat_at > clock_timestamp() - lease{condition} for key share)",
        tables.process
    )
}

/// Does the process count as alive, as far as a claim knows? One that picks nothing does not ask.
pub(crate) const ALIVE: &str = "exists (select 1 from me) or not exists (select 1 from picked)";

/// Is there a message in a group?
fn grouped(rows: &Rows, new: &str) -> String {
    match &rows.mapping.group {
        Some(group) => format!("exists (select 1 from {} t where {new} and t.{group} is not null)", rows.mapping.table),
        None => "false".into(),
    }
}

/// Something about each column of the claim order.
fn each_order(conditions: &Conditions, write: impl Fn(usize, &str, &str) -> String) -> String {
    let order = conditions.order.iter().enumerate();
    let each = order.map(|(at, (column, down))| write(at, column, if *down { " desc" } else { "" }));
    each.collect::<Vec<_>>().join(", ")
}

/// The part of a claim that finds rows, for the planner to explain.
fn look(queue: &str, rows: &Rows, conditions: &Conditions) -> Result<String> {
    let Walk { within, order, .. } = Walk::new(queue, rows, conditions)?;
    let (table, owner, ungrouped) = (&rows.mapping.table, &rows.owner.quoted, &conditions.ungrouped);
    Ok(format!("select 1 from {table} t where {within} and t.{owner} is null{ungrouped} order by {order} limit 64"))
}

/// The one-way door. `$2` is the token that this transaction was begun with: it is gone if the transaction is.
fn complete(rows: &Rows, conditions: &Conditions, mine: &str) -> String {
    let table = &rows.mapping.table;
    let guard = format!("{} and {mine} and current_setting('ichido.tx', true) = $2", rows.key_is(3));
    match &conditions.complete {
        Some(set) => format!("update {table} t set {set} where {guard}"),
        None => format!("delete from {table} t where {guard}"),
    }
}

/// The same for many rows; each of them must pass.
fn complete_many(rows: &Rows, conditions: &Conditions, mine: &str) -> String {
    let (table, keys) = (&rows.mapping.table, rows.keys(3));
    let guard = format!("{} and {mine} and current_setting('ichido.tx', true) = $2", rows.key_in_keys());
    match &conditions.complete {
        Some(set) => format!("update {table} t set {set} from {keys} where {guard}"),
        None => format!("delete from {table} t using {keys} where {guard}"),
    }
}
