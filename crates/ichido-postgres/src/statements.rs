//! Every statement about a queue's rows, built once per queue from its mapping. A managed queue is a table queue over
//! ichido's own message table: its rows have no status, and are deleted when done. `ichido check --sql` prints them.
//!
//! In all of them `$1` is the owner as text and the key columns come last, as text, cast to the column's type: one text per
//! column, or one array per column where many rows are meant. Each carries `(key, owner, still unprocessed)`.

use std::{fmt::Write, sync::Arc};

use ichido::{OnDone, ProcessId, Queue, Result, Status};

use crate::{quote, schema::Schema};

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

/// How rows of a table are messages.
pub(crate) struct Rows {
    pub(crate) table: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<Column>,
    pub(crate) owner: Column,
    pub(crate) status: Option<(String, Status)>,
    pub(crate) order_by: Vec<(String, bool)>,
    pub(crate) only: Vec<(String, String)>,
    pub(crate) on_done: OnDone,
    /// What these rows are, for the comparison with what other processes and queues mean.
    pub(crate) place: String,
    pub(crate) managed: bool,
}

impl Rows {
    /// The rows of a managed queue.
    pub(crate) fn managed(schema: &Schema, queue: &str) -> Result<Self> {
        let column = |name: &str, kind: &str| Column::new(name.into(), kind.into());
        Ok(Rows {
            table: schema.message.clone(),
            columns: Vec::new(),
            key: vec![column("id", "bigint")?],
            owner: column("owner", "uuid")?,
            status: None,
            order_by: Vec::new(),
            only: vec![("queue".into(), queue.into())],
            on_done: OnDone::Delete,
            place: format!("managed:{queue}"),
            managed: true,
        })
    }

    /// The row is unprocessed. Literals, not parameters: the planner must see that the claim index fits.
    fn new(&self) -> Result<String> {
        let mut conditions = Vec::new();
        if let Some((column, status)) = &self.status {
            conditions.push(format!("t.{column} = {}", quote::literal(&status.new)?));
        }
        for (column, value) in &self.only {
            conditions.push(format!("t.{column} = {}", quote::literal(value)?));
        }
        Ok(conditions.join(" and "))
    }

    /// `$1` as a value of the owner column.
    fn me(&self) -> String {
        format!("cast($1::text as {})", self.owner.kind)
    }

    fn nobody(&self) -> String {
        format!("'{}'", ProcessId::NOBODY)
    }

    /// The row with the key in the parameters from `$first` on.
    fn key_is(&self, first: usize) -> String {
        let one = |(at, column): (usize, &Column)| format!("t.{} = cast(${}::text as {})", column.quoted, first + at, column.kind);
        self.key.iter().enumerate().map(one).collect::<Vec<_>>().join(" and ")
    }

    /// The keys in the array parameters from `$first` on, as `k`.
    fn keys(&self, first: usize) -> String {
        let arrays = (0..self.key.len()).map(|at| format!("${}::text[]", first + at)).collect::<Vec<_>>().join(", ");
        let names = (0..self.key.len()).map(|at| format!("k{at}")).collect::<Vec<_>>().join(", ");
        format!("unnest({arrays}) as k({names})")
    }

    fn key_in_keys(&self) -> String {
        let one = |(at, column): (usize, &Column)| format!("t.{} = cast(k.k{at} as {})", column.quoted, column.kind);
        self.key.iter().enumerate().map(one).collect::<Vec<_>>().join(" and ")
    }

    fn key_out(&self) -> String {
        let one = |(at, column): (usize, &Column)| format!("t.{}::text as k{at}", column.quoted);
        self.key.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The message in JSON; bytes are base64, and the server's line breaks in it are taken out.
    fn payload(&self) -> String {
        if self.managed {
            return "t.payload".into();
        }
        let mut list = String::new();
        for Column { quoted, kind, .. } in &self.columns {
            let separator = if list.is_empty() { "" } else { ", " };
            let _ = match kind.as_str() {
                "bytea" => write!(list, "{separator}replace(encode(t.{quoted}, 'base64'), E'\\n', '') as {quoted}"),
                _ => write!(list, "{separator}t.{quoted}"),
            };
        }
        format!("(select row_to_json(r)::text from (select {list}) r)")
    }

    fn headers(&self) -> &'static str {
        if self.managed { "t.headers" } else { "'{}'" }
    }

    /// What is read of a message.
    fn message(&self) -> String {
        format!("{}, {} as payload, {} as headers", self.key_out(), self.payload(), self.headers())
    }

    fn order(&self) -> Vec<(String, bool)> {
        let by_key = || self.key.iter().map(|column| (column.quoted.clone(), false)).collect();
        if self.order_by.is_empty() { by_key() } else { self.order_by.clone() }
    }

    /// Where a row goes that has failed for good.
    fn dead(&self) -> Result<String> {
        let owner = &self.owner.quoted;
        Ok(match self.status.as_ref().and_then(|(column, status)| Some((column, status.failed.as_ref()?))) {
            Some((column, failed)) => format!("{column} = {}, {owner} = null", quote::literal(failed)?),
            None => format!("{owner} = {}", self.nobody()),
        })
    }

    /// The row has failed for good, as [`Rows::dead`] left it.
    fn is_dead(&self) -> Result<String> {
        let owner = &self.owner.quoted;
        let mut conditions = match self.status.as_ref().and_then(|(column, status)| Some((column, status.failed.as_ref()?))) {
            Some((column, failed)) => vec![format!("t.{column} = {}", quote::literal(failed)?), format!("t.{owner} is null")],
            None => vec![format!("t.{owner} = {}", self.nobody()), self.new()?],
        };
        for (column, value) in &self.only {
            conditions.push(format!("t.{column} = {}", quote::literal(value)?));
        }
        Ok(conditions.join(" and "))
    }
}

/// The statements of one queue.
pub(crate) struct Statements {
    pub(crate) queue: Arc<str>,
    pub(crate) payload_limit: usize,
    pub(crate) rows: Rows,
    pub(crate) claim: Arc<str>,
    pub(crate) claimed: Arc<str>,
    pub(crate) complete: Arc<str>,
    pub(crate) is_claimed: Arc<str>,
    pub(crate) release: Arc<str>,
    pub(crate) park_waiting: Arc<str>,
    pub(crate) park_dead: Arc<str>,
    pub(crate) owned: Arc<str>,
    pub(crate) owns_any: Arc<str>,
    pub(crate) return_due: Arc<str>,
    pub(crate) revive: Arc<str>,
    pub(crate) discard: Arc<str>,
    pub(crate) dead_or_new: Arc<str>,
    pub(crate) payload: Arc<str>,
    pub(crate) drained: Arc<str>,
    pub(crate) counts: Arc<str>,
}

impl Statements {
    pub(crate) fn new(schema: &Schema, queue: &Queue, rows: Rows) -> Result<Self> {
        let Rows { table, owner, .. } = &rows;
        let (owner, me, new, nobody) = (&owner.quoted, rows.me(), rows.new()?, rows.nobody());
        let mine = format!("t.{owner} = {me} and {new}");
        let update = |set: &str, from: usize| format!("update {table} t set {set} where {} and {mine}", rows.key_is(from));
        Ok(Statements {
            claim: claim(schema, &queue.name, &rows)?.into(),
            claimed: format!("select {} from {table} t where {mine}", rows.message()).into(),
            complete: complete(&rows, &mine)?.into(),
            is_claimed: format!("select 1 from {table} t where {} and {mine} for update", rows.key_is(2)).into(),
            release: format!("update {table} t set {owner} = null from {} where {} and {mine}", rows.keys(2), rows.key_in_keys()).into(),
            park_waiting: update(&format!("{owner} = {nobody}"), 2).into(),
            park_dead: update(&rows.dead()?, 2).into(),
            owned: format!("select {} from {table} t where {mine} limit 500 for update skip locked", rows.key_out()).into(),
            owns_any: format!("select exists (select 1 from {table} t where {mine})").into(),
            return_due: format!(
                "update {table} t set {owner} = null from {} where {} and t.{owner} = {nobody} and {new} returning {}",
                rows.keys(1), rows.key_in_keys(), rows.key_out()
            )
            .into(),
            revive: revive(&rows)?.into(),
            discard: discard(&rows)?.into(),
            dead_or_new: format!(
                "select {}, coalesce({}, false), coalesce({new}, false) from {table} t, {} where {}",
                rows.key_out(), rows.is_dead()?, rows.keys(1), rows.key_in_keys()
            )
            .into(),
            payload: format!("select {} from {table} t where {}", rows.payload(), rows.key_is(1)).into(),
            drained: format!(
                "select not exists (select 1 from {table} t where {new} and (t.{owner} is null or t.{owner} <> {nobody})) \
                 and not exists (select 1 from {} where queue = $1 and state = 'waiting' and attempts > 0)",
                schema.parked
            )
            .into(),
            counts: format!(
                "select count(*) filter (where t.{owner} is null), count(*) filter (where t.{owner} <> {nobody}) from {table} t where {new}"
            )
            .into(),
            queue: queue.name.clone(),
            payload_limit: queue.payload_limit,
            rows,
        })
    }

    /// The statements with what they do.
    pub(crate) fn all(&self) -> [(&'static str, &Arc<str>); 8] {
        [
            ("claim", &self.claim),
            ("complete", &self.complete),
            ("release", &self.release),
            ("park", &self.park_waiting),
            ("park for good", &self.park_dead),
            ("return", &self.return_due),
            ("rescue", &self.owned),
            ("retry", &self.revive),
        ]
    }
}

/// Claims `$2` rows in order. Locks the own process row, so that a rescuer leaves us alone meanwhile and a process that
/// counts as dead gets nothing; skips rows that others are claiming. Served by the index on claimable rows in claim order.
fn claim(schema: &Schema, queue: &str, rows: &Rows) -> Result<String> {
    let Rows { table, owner, .. } = rows;
    let (owner, me, new) = (&owner.quoted, rows.me(), rows.new()?);
    let order = rows.order();
    let direction = |descending: bool| if descending { " desc" } else { "" };
    let inside: Vec<_> = order.iter().map(|(column, down)| format!("t.{column}{}", direction(*down))).collect();
    let outside: Vec<_> = order.iter().enumerate().map(|(at, (_, down))| format!("c.o{at}{}", direction(*down))).collect();
    let kept: Vec<_> = order.iter().enumerate().map(|(at, (column, _))| format!("t.{column} as o{at}")).collect();
    let key: Vec<_> = rows.key.iter().enumerate().map(|(at, column)| format!("t.{} as k{at}", column.quoted)).collect();
    let same: Vec<_> = rows.key.iter().enumerate().map(|(at, column)| format!("t.{} = picked.k{at}", column.quoted)).collect();
    Ok(format!(
        "with me as materialized (select 1 from {process} where id = $1::text::uuid and heartbeat_at > clock_timestamp() - lease for key share), \
         picked as materialized (select {key} from {table} t where {new} and t.{owner} is null and exists (select 1 from me) \
         order by {inside} limit $2 for update of t skip locked), \
         claimed as (update {table} t set {owner} = {me} from picked where {same} returning {kept}, {message}) \
         select exists (select 1 from me), exists (select 1 from {parked} where queue = {queue}), c.* \
         from (values (1)) as one(n) left join claimed c on true order by {outside}",
        process = schema.process,
        parked = schema.parked,
        queue = quote::literal(queue)?,
        key = key.join(", "),
        inside = inside.join(", "),
        same = same.join(" and "),
        kept = kept.join(", "),
        message = rows.message(),
        outside = outside.join(", "),
    ))
}

/// The one-way door. `$2` is the token that this transaction was begun with: it is gone if the transaction is.
fn complete(rows: &Rows, mine: &str) -> Result<String> {
    let Rows { table, owner, .. } = rows;
    let guard = format!("{} and {mine} and current_setting('ichido.tx', true) = $2", rows.key_is(3));
    Ok(match (rows.on_done, &rows.status) {
        (OnDone::Status, Some((column, Status { done: Some(done), .. }))) => {
            let (owner, done) = (&owner.quoted, quote::literal(done)?);
            format!("update {table} t set {column} = {done}, {owner} = null where {guard}")
        }
        _ => format!("delete from {table} t where {guard}"),
    })
}

/// Back into circulation by an operator's hand.
fn revive(rows: &Rows) -> Result<String> {
    let Rows { table, owner, status, .. } = rows;
    let status = match status {
        Some((column, status)) => format!("{column} = {}, ", quote::literal(&status.new)?),
        None => String::new(),
    };
    let (key, dead) = (rows.key_is(1), rows.is_dead()?);
    Ok(format!("update {table} t set {status}{} = null where {key} and {dead}", owner.quoted))
}

/// Out of sight by an operator's hand: a managed message is deleted, a row of the user's own stays as it is.
fn discard(rows: &Rows) -> Result<String> {
    let (table, key, dead) = (&rows.table, rows.key_is(1), rows.is_dead()?);
    Ok(if rows.managed {
        format!("delete from {table} t where {key} and {dead}")
    } else {
        format!("select 1 from {table} t where {key} and {dead} for update")
    })
}
