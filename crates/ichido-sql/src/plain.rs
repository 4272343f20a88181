//! A send in plain SQL, as programs write it that use another driver or another language: the one place that makes these statements,
//! for every store. A promise: they stay valid for tables of this version and of the next, so they name columns, and no more than
//! a send needs.

use ichido::{
    error::Result,
    inspect::{SendParameter, SendSql, SendStatement},
    store::ProcessId,
};

use crate::{Dialect, Kind, Mapping, NewRow, SqlRows, Tables, unknown_field};

/// What databases write differently about a send in plain SQL.
pub trait PlainDialect: Dialect {
    /// What the database is called in the output.
    const NAME: &'static str;
    /// The version of ichido's tables.
    const VERSION: u32;
    /// After an INSERT of a message: one with the same unique key stays, and this one is not written.
    const UNLESS_THERE: &'static str = "on conflict do nothing";

    /// A place for a parameter.
    #[must_use]
    fn place(at: usize) -> String {
        let _ = at;
        "?".to_owned()
    }

    /// A text.
    #[must_use]
    fn text(place: String) -> String {
        place
    }

    /// A text that is compared byte by byte.
    #[must_use]
    fn exact(place: String) -> String {
        Self::text(place)
    }

    /// A whole number.
    #[must_use]
    fn number(place: String) -> String {
        place
    }

    /// A text as bytes, in UTF-8.
    fn bytes(place: String) -> String;

    /// The SHA-256 of a text in UTF-8, if the database can compute it.
    #[must_use]
    fn hash(place: impl FnOnce() -> String) -> Option<String> {
        drop(place);
        None
    }

    /// A process, as a literal.
    #[must_use]
    fn process(id: ProcessId) -> String {
        format!("'{id}'")
    }

    /// A number as text that is compared byte by byte.
    #[must_use]
    fn key(column: &str) -> String {
        format!("cast({column} as text)")
    }

    /// The id that the database has given to the message that this session has sent last.
    fn last_id(tables: &Tables) -> String;

    /// A string literal.
    ///
    /// # Errors
    /// The text cannot be one.
    fn literal(text: &str) -> Result<String>;

    /// A quoted name.
    ///
    /// # Errors
    /// The text cannot be one.
    fn name(text: &str) -> Result<String>;

    /// Wakes whoever waits for messages of this queue, if the database can; its name is a literal.
    #[must_use]
    fn wake(queue: &str) -> Option<String> {
        let _ = queue;
        None
    }
}

/// How to send to a queue in plain SQL; to a table queue with these columns, or with all of them if none is named.
///
/// # Errors
/// There is no such column, or the database failed.
pub async fn send_sql<S: SqlRows>(store: &S, queue: &str, columns: &[String]) -> Result<SendSql>
where
    S::Dialect: PlainDialect,
{
    let queue = store.queue(queue).await?;
    let kind = match queue.kind {
        Kind::Table => "table",
        Kind::Managed => "managed",
        Kind::Mutex => "broker",
    };
    let mut plain = SendSql::new(&queue.queue, kind, S::Dialect::NAME, S::Dialect::VERSION);
    let name = S::Dialect::literal(&queue.queue)?;
    (plain.parameters, plain.statements) = match queue.kind {
        Kind::Managed => (managed_parameters(), managed::<S::Dialect>(store.tables(), &name)),
        Kind::Mutex => {
            let rules = queue.rules()?;
            let to = [&rules.exchange, &rules.routing_key].map(|text| S::Dialect::literal(text));
            let [exchange, routing_key] = to;
            let to = format!("{}, {}", exchange?, routing_key?);
            (broker_parameters(), broker::<S::Dialect>(store.tables(), &name, &to))
        }
        Kind::Table => row::<S::Dialect>(&queue.queue, &queue.mapping, &queue.columns, columns)?,
    };
    let wake = S::Dialect::wake(&name).filter(|_| queue.kind != Kind::Mutex);
    plain.after_commit = wake.map(|sql| SendStatement { sql, parameters: Vec::new() }).into_iter().collect();
    Ok(plain)
}

fn parameter(name: &str, kind: &'static str, required: bool, meaning: &str) -> SendParameter {
    SendParameter { name: name.to_owned(), kind, required, meaning: meaning.to_owned() }
}

fn common_parameters() -> Vec<SendParameter> {
    vec![
        parameter("payload", "text", true, "the message, as JSON"),
        parameter(
            "headers",
            "text",
            false,
            "a JSON object of texts beside it; {\"x-ichido-attempts\":\"3\"} sets the number of attempts",
        ),
        parameter("delay_ms", "number", false, "the message runs only after so many milliseconds; null: at once"),
    ]
}

fn managed_parameters() -> Vec<SendParameter> {
    let mut all = common_parameters();
    all.push(parameter("group", "text", false, "messages of a group run one at a time and in order"));
    let unique = "while a message with this key is neither done nor failed, nothing is sent";
    all.push(parameter("unique", "text", false, unique));
    all
}

fn broker_parameters() -> Vec<SendParameter> {
    let id =
        "the message's id, which no other message has or had: a UUID, best of version 7; sending it twice is an error";
    let mut all = common_parameters();
    all.insert(0, parameter("id", "text", true, id));
    all
}

/// A statement that is being written.
struct Draft<D> {
    parameters: Vec<String>,
    dialect: std::marker::PhantomData<D>,
}

impl<D: PlainDialect> Draft<D> {
    fn new() -> Self {
        Draft { parameters: Vec::new(), dialect: std::marker::PhantomData }
    }

    /// The place of a parameter; the same one again where places have numbers.
    fn place(&mut self, name: &str) -> String {
        let numbered = D::place(1) != D::place(2);
        let known = self.parameters.iter().position(|known| known == name).filter(|_| numbered);
        let at = known.unwrap_or_else(|| {
            self.parameters.push(name.to_owned());
            self.parameters.len() - 1
        });
        D::place(at + 1)
    }

    fn text(&mut self, name: &str) -> String {
        D::text(self.place(name))
    }

    fn delay(&mut self) -> String {
        D::number(self.place("delay_ms"))
    }

    /// Nobody's until it is due, if it is delayed.
    fn owner(&mut self) -> String {
        format!("case when {} is not null then {} end", self.delay(), D::process(ProcessId::NOBODY))
    }

    fn headers(&mut self) -> String {
        format!("coalesce({}, '{{}}')", self.text("headers"))
    }

    fn done(self, sql: String) -> SendStatement {
        SendStatement { sql, parameters: self.parameters }
    }
}

/// A message; and, if it is delayed and was not there before, that it waits.
fn managed<D: PlainDialect>(tables: &Tables, queue: &str) -> Vec<SendStatement> {
    let mut send = Draft::<D>::new();
    let (owner, payload, headers) = (send.owner(), send.text("payload"), send.headers());
    let (group, unique) = (send.text("group"), send.place("unique"));
    let sql = format!(
        "insert into {} (queue, owner, payload, headers, group_key, unique_key) \
         values ({queue}, {owner}, {payload}, {headers}, {group}, {}) {}",
        tables.message,
        D::exact(unique),
        D::UNLESS_THERE
    );
    let wait = wait::<D>(tables, &tables.message, &D::key("m.id"), |_| D::last_id(tables));
    vec![send.done(sql), wait]
}

/// The mutex, and what is to be published; and, if it is delayed, that it waits.
fn broker<D: PlainDialect>(tables: &Tables, queue: &str, to: &str) -> Vec<SendStatement> {
    let mut guard = Draft::<D>::new();
    let (id, owner) = (guard.text("id"), guard.owner());
    let hash = D::hash(|| guard.place("payload"));
    let (column, hash) = hash.map_or_else(Default::default, |hash| (", hash", format!(", {hash}")));
    let guard_sql =
        format!("insert into {} (id, queue, owner{column}) values ({id}, {queue}, {owner}{hash})", tables.mutex);
    let mut publish = Draft::<D>::new();
    let (id, mutex) = (publish.text("id"), publish.text("id"));
    let (headers, payload) = (publish.headers(), publish.place("payload"));
    let (due, published) = (publish.delay(), publish.delay());
    let publish_sql = format!(
        "insert into {} (id, mutex, queue, exchange, routing_key, headers, payload, created_at, due_at, published_at) \
         values ({id}, {mutex}, {queue}, {to}, {headers}, {}, {now}, case when {due} is null then {now} end, \
         case when {published} is not null then {now} end)",
        tables.outbox,
        D::bytes(payload),
        now = D::CLOCK
    );
    let wait = wait::<D>(tables, &tables.mutex, &D::exact("m.id".into()), |draft| draft.text("id"));
    vec![guard.done(guard_sql), publish.done(publish_sql), wait]
}

/// What is nobody's and has no parked row was sent just now, with a delay.
fn wait<D: PlainDialect>(
    tables: &Tables,
    of: &str,
    key: &str,
    id: impl FnOnce(&mut Draft<D>) -> String,
) -> SendStatement {
    let mut wait = Draft::<D>::new();
    let due = D::after('+', &wait.delay());
    let (id, delay) = (id(&mut wait), wait.delay());
    let sql = format!(
        "insert into {parked} (queue, {column}, state, attempts, due_at, parked_at, history) \
         select m.queue, {key}, 'waiting', 0, {due}, {now}, '[]' from {of} m where m.id = {id} and m.owner = {nobody} \
         and {delay} is not null and not exists (select 1 from {parked} p where p.queue = m.queue and p.{column} = {key})",
        parked = tables.parked,
        column = D::KEY,
        now = D::NOW,
        nobody = D::process(ProcessId::NOBODY),
    );
    wait.done(sql)
}

/// A row of the user's own: it is new and nobody's, whatever else it says.
fn row<D: PlainDialect>(
    queue: &str,
    mapping: &Mapping,
    known: &[String],
    wanted: &[String],
) -> Result<(Vec<SendParameter>, Vec<SendStatement>)> {
    let fields = if wanted.is_empty() { known } else { wanted };
    let mut row = NewRow::new(mapping, fields.iter().map(String::as_str), false, D::literal, |field| {
        let column = known.iter().find(|column| column.as_str() == field);
        let column = column.ok_or_else(|| unknown_field(queue, field, known.iter().map(String::as_str)))?;
        Ok((D::name(column)?, String::new()))
    })?;
    for (value, at) in row.values.iter_mut().filter(|value| value.is_empty()).zip(1..) {
        *value = D::place(at);
    }
    let parameters: Vec<String> = row.bound.iter().map(|&name| name.to_owned()).collect();
    let meaning = |name: &String| parameter(name, "column", false, "the value of this column");
    let described = parameters.iter().map(meaning).collect();
    Ok((described, vec![SendStatement { sql: row.insert(&mapping.table), parameters }]))
}
