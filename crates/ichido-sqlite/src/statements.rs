//! Every statement about a queue's rows, built once per queue from its mapping. A managed queue is a table queue over
//! ichido's own message table: its rows have no status, and are deleted when done. `ichido check --sql` prints them.
//!
//! In all of them `?1` is the owner, where there is one, and the key columns come last, as text: one text per column, or one
//! JSON array of keys where many rows are meant. Each carries `(key, owner, still unprocessed)`.

use std::sync::Arc;

use ichido::{OnDone, ProcessId, Queue, Result, Status};

use crate::quote;

/// A column of a queue's table.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) quoted: String,
    /// Its type as it was declared, in capitals.
    kind: String,
    pub(crate) not_null: bool,
}

impl Column {
    pub(crate) fn new(name: String, kind: String, not_null: bool) -> Result<Self> {
        Ok(Column { quoted: quote::name(&name)?, name, kind: kind.to_uppercase(), not_null })
    }

    /// Does the column turn text that looks like a number into one?
    pub(crate) fn is_numeric(&self) -> bool {
        let text = ["CHAR", "CLOB", "TEXT"].iter().any(|part| self.kind.contains(part));
        (self.kind.contains("INT") || !text) && !self.is_blob()
    }

    /// Bytes, whose text form is hexadecimal.
    fn is_blob(&self) -> bool {
        self.kind.is_empty() || (self.kind.contains("BLOB") && !self.kind.contains("INT"))
    }

    /// The column as text.
    fn out(&self) -> String {
        if self.is_blob() { format!("hex(t.{})", self.quoted) } else { format!("cast(t.{} as text)", self.quoted) }
    }

    /// The column has the value whose text this expression is.
    fn is(&self, text: &str) -> String {
        if self.is_blob() { format!("t.{} = unhex({text})", self.quoted) } else { format!("t.{} = {text}", self.quoted) }
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
    pub(crate) fn managed(queue: &str) -> Result<Self> {
        let column = |name: &str, kind: &str| Column::new(name.into(), kind.into(), true);
        Ok(Rows {
            table: "ichido_message".into(),
            columns: vec![column("payload", "TEXT")?, column("headers", "TEXT")?],
            key: vec![column("id", "INTEGER")?],
            owner: column("owner", "TEXT")?,
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

    fn nobody(&self) -> String {
        format!("'{}'", ProcessId::NOBODY)
    }

    /// The row with the key in the parameters from `?first` on.
    fn key_is(&self, first: usize) -> String {
        let one = |(at, column): (usize, &Column)| column.is(&format!("?{}", first + at));
        self.key.iter().enumerate().map(one).collect::<Vec<_>>().join(" and ")
    }

    /// The keys in the JSON array `?number`, as `k`.
    fn keys(number: usize) -> String {
        format!("json_each(?{number}) k")
    }

    fn key_in_keys(&self) -> String {
        let one = |(at, column): (usize, &Column)| column.is(&format!("json_extract(k.value, '$[{at}]')"));
        self.key.iter().enumerate().map(one).collect::<Vec<_>>().join(" and ")
    }

    fn key_out(&self) -> String {
        self.key.iter().map(Column::out).collect::<Vec<_>>().join(", ")
    }

    /// What is read of a message: the key as text, then every column.
    fn message(&self) -> String {
        let columns: Vec<_> = self.columns.iter().map(|column| format!("t.{}", column.quoted)).collect();
        format!("{}, {}", self.key_out(), columns.join(", "))
    }

    fn order(&self) -> String {
        let by_key = || self.key.iter().map(|column| (column.quoted.clone(), false)).collect();
        let order: Vec<_> = if self.order_by.is_empty() { by_key() } else { self.order_by.clone() };
        let one = |(column, down): &(String, bool)| format!("t.{column}{}", if *down { " desc" } else { "" });
        order.iter().map(one).collect::<Vec<_>>().join(", ")
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
    pub(crate) pick: Arc<str>,
    pub(crate) claim: Arc<str>,
    pub(crate) claimed: Arc<str>,
    pub(crate) complete: Arc<str>,
    pub(crate) is_claimed: Arc<str>,
    pub(crate) release: Arc<str>,
    pub(crate) park_waiting: Arc<str>,
    pub(crate) park_dead: Arc<str>,
    pub(crate) owned: Arc<str>,
    pub(crate) return_due: Arc<str>,
    pub(crate) revive: Arc<str>,
    pub(crate) discard: Arc<str>,
    pub(crate) dead_or_new: Arc<str>,
    pub(crate) payload: Arc<str>,
    pub(crate) drained: Arc<str>,
    pub(crate) counts: Arc<str>,
}

impl Statements {
    pub(crate) fn new(queue: &Queue, rows: Rows) -> Result<Self> {
        let Rows { table, owner, .. } = &rows;
        let (owner, new, nobody) = (&owner.quoted, rows.new()?, rows.nobody());
        let mine = format!("t.{owner} = ?1 and {new}");
        let update = |set: &str| format!("update {table} as t set {set} where {} and {mine}", rows.key_is(2));
        let many = |set: &str, number, guard: &str| {
            format!("update {table} as t set {set} from {} where {} and {guard}", Rows::keys(number), rows.key_in_keys())
        };
        let claimable = format!("t.{owner} is null and {new}");
        let not_null: String = rows.key.iter().map(|column| format!(" and t.{} is not null", column.quoted)).collect();
        Ok(Statements {
            pick: format!("select {} from {table} t where {claimable}{not_null} order by {} limit ?1", rows.message(), rows.order()).into(),
            claim: many(&format!("{owner} = ?1"), 2, &claimable).into(),
            claimed: format!("select {} from {table} t where {mine}", rows.message()).into(),
            complete: complete(&rows, &mine)?.into(),
            is_claimed: format!("select 1 from {table} t where {} and {mine}", rows.key_is(2)).into(),
            release: many(&format!("{owner} = null"), 2, &mine).into(),
            park_waiting: update(&format!("{owner} = {nobody}")).into(),
            park_dead: update(&rows.dead()?).into(),
            owned: format!("select {} from {table} t where {mine} limit 500", rows.key_out()).into(),
            return_due: format!(
                "{} returning {}",
                many(&format!("{owner} = null"), 1, &format!("t.{owner} = {nobody} and {new}")),
                rows.key_out().replace("t.\"", "\"")
            )
            .into(),
            revive: revive(&rows)?.into(),
            discard: discard(&rows)?.into(),
            dead_or_new: format!(
                "select {}, coalesce({}, 0), coalesce({new}, 0) from {}, {table} t where {}",
                rows.key_out(), rows.is_dead()?, Rows::keys(1), rows.key_in_keys()
            )
            .into(),
            payload: format!("select {} from {table} t where {}", rows.message(), rows.key_is(1)).into(),
            drained: format!(
                "select not exists (select 1 from {table} t where {new} and (t.{owner} is null or t.{owner} <> {nobody})) \
                 and not exists (select 1 from ichido_parked where queue = ?1 and state = 'waiting' and attempts > 0)"
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
    pub(crate) fn all(&self) -> [(&'static str, &Arc<str>); 9] {
        [
            ("claim, look", &self.pick),
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

/// The one-way door. That this is the transaction that was begun is the guard's to prove.
fn complete(rows: &Rows, mine: &str) -> Result<String> {
    let Rows { table, owner, .. } = rows;
    let guard = format!("{} and {mine}", rows.key_is(2));
    Ok(match (rows.on_done, &rows.status) {
        (OnDone::Status, Some((column, Status { done: Some(done), .. }))) => {
            let (owner, done) = (&owner.quoted, quote::literal(done)?);
            format!("update {table} as t set {column} = {done}, {owner} = null where {guard}")
        }
        _ => format!("delete from {table} as t where {guard}"),
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
    Ok(format!("update {table} as t set {status}{} = null where {key} and {dead}", owner.quoted))
}

/// Out of sight by an operator's hand: a managed message is deleted, a row of the user's own stays as it is.
fn discard(rows: &Rows) -> Result<String> {
    let (table, key, dead) = (&rows.table, rows.key_is(1), rows.is_dead()?);
    Ok(if rows.managed {
        format!("delete from {table} as t where {key} and {dead}")
    } else {
        let owner = &rows.owner.quoted;
        format!("update {table} as t set {owner} = {owner} where {key} and {dead}")
    })
}
