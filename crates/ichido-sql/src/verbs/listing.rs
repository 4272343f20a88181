//! Lists of messages by queue and state, page by page. Each page walks along one index and reads a bounded number of rows: claimable rows in
//! claim order, those in groups by group, the rows of each process by their owner, parked ones by a time. What is found is then looked at by
//! its key (`messages`), and left out if it is not in that state any more.

use std::collections::BTreeSet;

use ichido::{
    Key, MessageId,
    error::Result,
    inspect::{Cursor, Listed, MessageFilter, MessagePage, ProcessState},
};

use crate::{
    Bind, Dialect, Kind, Query, SqlRows,
    keyset::{self, OrderColumn},
    queue::MOST_OWNERS,
    verbs::{
        inspect,
        messages::described,
        parked_pages::{Begin, By, Order, in_order},
    },
};

/// A page reads no more messages than this, however many are wanted.
const MOST: usize = 500;

/// Of messages in groups a page reads so many in any case, because no index tells which of them can be claimed. More of them, and PostgreSQL
/// would rather read and sort all that come after.
const WINDOW: usize = 200;

/// Where among the claimable messages a page begins: with those in no group, or with those in groups.
const ALONE: &str = "alone";
const GROUPED: &str = "grouped";

/// Some messages of a queue in one state.
///
/// # Errors
/// There is no such queue, the cursor is of another list, or the database failed.
pub async fn messages<S: SqlRows>(store: &S, filter: &MessageFilter) -> Result<MessagePage> {
    let queue = store.queue(&filter.queue).await?;
    let after = filter.after.as_ref().map(|cursor| cursor.values.as_slice()).unwrap_or_default();
    let limit = filter.limit.clamp(1, MOST);
    let Found { keys, next, incomplete, processes } = match filter.state {
        Listed::Ready => ready(store, queue, after, limit).await?,
        Listed::Claimed => claimed(store, queue, after, limit).await?,
        Listed::Waiting => parked(store, &queue.queue, ("waiting", By::Due), after, limit).await?,
        Listed::Failed => parked(store, &queue.queue, ("dead", By::Since), after, limit).await?,
    };
    let mut messages = described(store, queue, &keys, processes.as_deref()).await?;
    messages.retain(|message| message.state == filter.state.state());
    let next = next.map(|values| Cursor { queue: filter.queue.clone(), state: filter.state, values });
    let mut page = MessagePage::new(messages, next);
    page.notes.extend(incomplete);
    Ok(page)
}

/// The keys of a page, and where the next one begins.
#[derive(Default)]
struct Found {
    keys: Vec<Key>,
    next: Option<Vec<Option<String>>>,
    incomplete: Option<String>,
    processes: Option<Vec<ProcessState>>,
}

/// Parked messages by a time; a place is that time and a key.
async fn parked<S: SqlRows>(
    store: &S,
    queue: &str,
    (state, by): (&'static str, By),
    after: &[Option<String>],
    limit: usize,
) -> Result<Found> {
    let order = Order { queue, state, by, older_ms: None };
    let from = match after {
        [Some(time), Some(key)] => Begin::AfterKey(time, key),
        [] => Begin::Start,
        _ => return Err(foreign()),
    };
    let some = in_order(store, order, from, limit).await?;
    let ids = some.iter().map(|parked| parked.id.parse()).collect::<Result<Vec<MessageId>>>()?;
    let last = some.last().zip(ids.last()).filter(|_| some.len() == limit);
    let next = last.map(|(parked, id)| vec![Some(parked.place.clone()), Some(id.key.to_string())]);
    Ok(Found { keys: ids.into_iter().map(|id| id.key).collect(), next, ..Found::default() })
}

/// Messages that processes have, process by process; a place is a process and a key.
async fn claimed<S: SqlRows>(store: &S, queue: &S::Queue, after: &[Option<String>], limit: usize) -> Result<Found> {
    let (from, last) = match after {
        [Some(process), Some(key)] => (process.as_str(), key.parse().ok()),
        [] => ("", None),
        _ => return Err(foreign()),
    };
    let by_index = queue.kind != Kind::Table || store.has_owner_index(queue).await?;
    let mut processes = inspect::processes(store).await?;
    processes.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let mut found = Found { incomplete: (!by_index).then(|| no_owner_index::<S>(queue)), ..Found::default() };
    let serve =
        |process: &&ProcessState| process.id.as_str() >= from && process.queues.contains(&queue.queue.to_string());
    for process in processes.iter().filter(serve) {
        let mut keys = running(process, queue);
        if by_index {
            keys.extend(owned(store, queue, &process.id).await?);
        }
        for key in keys.into_iter().filter(|key| process.id != from || last.as_ref().is_none_or(|last| key > last)) {
            if found.keys.len() == limit {
                return Ok(Found { processes: Some(processes), ..found });
            }
            found.next = Some(vec![Some(process.id.clone()), Some(key.to_string())]);
            found.keys.push(key);
        }
    }
    found.next = None;
    Ok(Found { processes: Some(processes), ..found })
}

/// What a process ran at its last heartbeat, of this queue.
fn running(process: &ProcessState, queue: &crate::SqlQueue) -> BTreeSet<Key> {
    let ids = process.running.iter().filter_map(|running| running.id.parse::<MessageId>().ok());
    ids.filter(|id| id.queue == queue.queue && queue.refuse_key(&id.key).is_ok()).map(|id| id.key).collect()
}

/// The rows that a process owns. Their order keeps the database from walking through the table in the order of its keys.
async fn owned<S: SqlRows>(store: &S, queue: &S::Queue, process: &str) -> Result<Vec<Key>> {
    let mapping = S::mapping_of(queue);
    let table = &mapping.table;
    let owner = S::value_of(queue, &mapping.owner, &S::Dialect::parameter(1, &Bind::Text(None)))?;
    let rows = format!(
        "select {} from {table} t{} where t.{} = {owner} and {} order by {} limit {MOST_OWNERS}",
        key_out::<S>(queue)?,
        hint::<S>(queue.kind, "ichido_message_owner"),
        mapping.owner,
        queue.conditions.new,
        queue.conditions.owned_order
    );
    let rows = store.look(Query::written(rows).bind(process)).await?;
    rows.iter().map(|row| row.key(queue.key_columns)).collect()
}

/// Claimable messages: those in no group in claim order, then those in groups; a place is which of them, and the values of that order.
async fn ready<S: SqlRows>(store: &S, queue: &S::Queue, after: &[Option<String>], limit: usize) -> Result<Found> {
    let all_grouped = queue.grouped.as_ref().is_some_and(|groups| groups.all);
    let (place, after) = match after.split_first() {
        None => (if all_grouped { GROUPED } else { ALONE }, &[][..]),
        Some((Some(place), after)) => (place.as_str(), after),
        Some((None, _)) => return Err(foreign()),
    };
    match place {
        ALONE => {
            let rows = Walk::alone::<S>(queue).read(store, queue, after, limit).await?;
            let more = (queue.grouped.is_some()).then(|| vec![Some(GROUPED.to_owned())]);
            let last = rows.last().filter(|_| rows.len() == limit).map(|row| row.place(ALONE));
            Ok(Found { next: last.or(more), keys: rows.into_iter().map(|row| row.key).collect(), ..Found::default() })
        }
        GROUPED if queue.grouped.is_some() => {
            let rows = Walk::grouped::<S>(queue).read(store, queue, after, WINDOW).await?;
            let mut next = rows.last().filter(|_| rows.len() == WINDOW).map(|row| row.place(GROUPED));
            let free: Vec<_> = rows.into_iter().filter(|row| row.free).collect();
            if free.len() > limit {
                next = Some(free[limit - 1].place(GROUPED));
            }
            Ok(Found { next, keys: free.into_iter().take(limit).map(|row| row.key).collect(), ..Found::default() })
        }
        _ => Err(foreign()),
    }
}

/// A way along an index of a queue's rows.
struct Walk<'a> {
    columns: Vec<OrderColumn<'a>>,
    condition: String,
    hint: String,
    owner: &'a str,
}

/// A row on the way.
struct Step {
    key: Key,
    free: bool,
    values: Vec<Option<String>>,
}

impl Step {
    fn place(&self, of: &str) -> Vec<Option<String>> {
        [Some(of.to_owned())].into_iter().chain(self.values.iter().cloned()).collect()
    }
}

impl<'a> Walk<'a> {
    /// Claimable rows in no group, in claim order.
    fn alone<S: SqlRows>(queue: &'a S::Queue) -> Self {
        let (mapping, conditions) = (S::mapping_of(queue), &queue.conditions);
        Walk {
            columns: order(queue, mapping),
            condition: format!("t.{} is null and {}{}", mapping.owner, conditions.new, conditions.ungrouped),
            hint: hint::<S>(queue.kind, "ichido_message_claim"),
            owner: &mapping.owner,
        }
    }

    /// Unprocessed rows in groups, by group.
    fn grouped<S: SqlRows>(queue: &'a S::Queue) -> Self {
        let (mapping, conditions) = (S::mapping_of(queue), &queue.conditions);
        let group = mapping.group.as_deref().unwrap_or_default();
        let mut columns = order(queue, mapping);
        columns.retain(|column| column.name != group);
        columns.insert(0, OrderColumn { name: group, down: false, nullable: false });
        Walk {
            columns,
            condition: format!("{} and t.{group} is not null", conditions.new),
            hint: hint::<S>(queue.kind, "ichido_message_group"),
            owner: &mapping.owner,
        }
    }

    /// So many rows after these values.
    async fn read<S: SqlRows>(
        &self,
        store: &S,
        queue: &S::Queue,
        after: &[Option<String>],
        limit: usize,
    ) -> Result<Vec<Step>> {
        if after.is_empty() {
            return self.part(store, queue, "", Vec::new(), limit).await;
        }
        if after.len() != self.columns.len() {
            return Err(foreign());
        }
        let has_value: Vec<_> = after.iter().map(Option::is_some).collect();
        let mut found = Vec::new();
        for part in keyset::parts(&self.columns, &has_value, S::Dialect::NULLS_FIRST) {
            let mut binds = Vec::new();
            let beyond = keyset::condition(part, &self.columns, &has_value, |at| {
                binds.push(Bind::Text(after[at].clone()));
                let parameter = S::Dialect::parameter(binds.len(), &Bind::Text(None));
                S::value_of(queue, self.columns[at].name, &parameter)
            })?;
            found.extend(self.part(store, queue, &beyond, binds, limit - found.len()).await?);
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    /// So many rows of one range of the index.
    async fn part<S: SqlRows>(
        &self,
        store: &S,
        queue: &S::Queue,
        beyond: &str,
        binds: Vec<Bind>,
        limit: usize,
    ) -> Result<Vec<Step>> {
        let texts = self.columns.iter().map(|column| S::text_of(queue, column.name)).collect::<Result<Vec<_>>>()?;
        let down = |down: bool| if down { " desc" } else { "" };
        let order: Vec<_> =
            self.columns.iter().map(|column| format!("t.{}{}", column.name, down(column.down))).collect();
        // A primary key of SQLite's can be null; such a row cannot be a message.
        let key = S::mapping_of(queue).key.iter().map(|column| format!(" and t.{column} is not null"));
        let rows = format!(
            "select {}, t.{} is null, {} from {} t{} where {}{}{beyond} order by {} limit {}",
            key_out::<S>(queue)?,
            self.owner,
            texts.join(", "),
            S::mapping_of(queue).table,
            self.hint,
            self.condition,
            key.collect::<String>(),
            order.join(", "),
            S::Dialect::parameter(binds.len() + 1, &Bind::Int(None))
        );
        let rows = binds.into_iter().fold(Query::written(rows), Query::bind).bind(limit);
        let first = queue.key_columns + 1;
        let read = |row: &crate::Row| {
            let values = (first..first + self.columns.len()).map(|at| row.get(at)).collect::<Result<_>>()?;
            Ok(Step { key: row.key(queue.key_columns)?, free: row.get(queue.key_columns)?, values })
        };
        store.look(rows).await?.iter().map(read).collect()
    }
}

/// The claim order.
fn order<'a>(queue: &'a crate::SqlQueue, mapping: &crate::Mapping) -> Vec<OrderColumn<'a>> {
    let column =
        |(name, down): &'a (String, bool)| OrderColumn { name, down: *down, nullable: !mapping.key.contains(name) };
    queue.conditions.order.iter().map(column).collect()
}

fn key_out<S: SqlRows>(queue: &S::Queue) -> Result<String> {
    let key = S::mapping_of(queue).key.iter().map(|column| S::text_of(queue, column));
    Ok(key.collect::<Result<Vec<_>>>()?.join(", "))
}

/// The index of ichido's own messages by which they are found; a table of the user's has what it has.
fn hint<S: SqlRows>(kind: Kind, index: &str) -> String {
    match kind {
        Kind::Managed => S::Dialect::by_index(index),
        Kind::Mutex => S::Dialect::by_index("ichido_mutex_queue"),
        Kind::Table => String::new(),
    }
}

fn no_owner_index<S: SqlRows>(queue: &S::Queue) -> String {
    let mapping = S::mapping_of(queue);
    let table = &mapping.table;
    format!(
        "{table} has no index on {} for rows that are new and owned, and is not read from end to end: of what is claimed in `{}`, only \
         messages that ran at the last heartbeat are listed",
        mapping.owner, queue.queue
    )
}

fn foreign() -> ichido::Error {
    ichido::Error::Setup("this is not where the list goes on; use what the last page said".into())
}
