//! Parked messages in the order of a time, page by page: each page is a range of an index by queue, state and time, however many messages are
//! parked. `failed list` reads them by the time of the failure, `messages list` also by the due time.

use ichido::{
    MessageId,
    error::Result,
    inspect::{Parked, ParkedFilter},
};

use crate::{Bind, Dialect, Query, Row, SqlStore};

/// So many parked messages are read together.
const PAGE: usize = 1000;

/// By which time parked messages are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// When they were parked.
    Since,
    /// The same, the last one first; what was only delayed or snoozed is left out.
    Newest,
    /// When they are due.
    Due,
}

impl By {
    /// The column, and the index that begins with queue and state.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            By::Since | By::Newest => ("parked_at", "ichido_parked_since"),
            By::Due => ("due_at", "ichido_parked_waiting"),
        }
    }

    /// What comes after a value compares with it like this, and the order goes this way.
    fn direction(self) -> (&'static str, &'static str) {
        if self == By::Newest { ("<", " desc") } else { (">", "") }
    }

    /// So many rows are read for so many messages: those that are left out are read too, but no more than a page of them.
    fn rows(self, count: usize) -> usize {
        if self == By::Newest { PAGE } else { count }
    }

    fn leaves_out(self, parked: &Parked) -> bool {
        self == By::Newest && parked.error.is_empty()
    }
}

/// Where a page begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Begin<'a> {
    /// With the first message.
    Start,
    /// With the first of this time.
    Time(&'a str),
    /// With the first after this time.
    AfterTime(&'a str),
    /// With the one after this time and key.
    AfterKey(&'a str, &'a str),
}

/// Parked messages of the store's queues, oldest failure first unless the filter says otherwise.
///
/// # Errors
/// The database failed.
pub async fn parked<S: SqlStore>(store: &S, filter: &ParkedFilter) -> Result<Vec<Parked>> {
    if let Some(id) = &filter.id {
        let one = these(store, &id.queue, &[id.key.to_string()]).await?;
        let is_meant = |parked: &Parked| states(filter).contains(&parked.state.as_str()) && filter.matches(parked);
        return Ok(one.into_iter().filter(is_meant).take(filter.limit as usize).collect());
    }
    let (most, mut found, mut filter) = (filter.limit as usize, Vec::new(), filter.clone());
    loop {
        let count = if filter.error.is_some() { PAGE } else { PAGE.min(most - found.len()) };
        let page = page(store, &filter, count).await?;
        let is_last = page.len() < count;
        filter.after = page.last().cloned();
        found.extend(page.into_iter().filter(|parked| filter.matches(parked)));
        if is_last || found.len() >= most {
            found.truncate(most);
            return Ok(found);
        }
    }
}

fn states(filter: &ParkedFilter) -> &'static [&'static str] {
    if filter.waiting { &["dead", "waiting"] } else { &["dead"] }
}

/// So many parked messages, whatever their error: the first of all queues together.
async fn page<S: SqlStore>(store: &S, filter: &ParkedFilter, count: usize) -> Result<Vec<Parked>> {
    let queues = match &filter.queue {
        Some(queue) => vec![queue.clone()],
        None => store.queues().await?.iter().map(|queue| queue.queue.to_string()).collect(),
    };
    let after = filter.after.as_ref().map(|after| Ok::<_, ichido::Error>((after, after.id.parse::<MessageId>()?)));
    let after = after.transpose()?.map(|(after, id)| (after.place.clone(), id.queue.to_string(), id.key.to_string()));
    let (mut found, by) = (Vec::new(), if filter.newest { By::Newest } else { By::Since });
    for queue in &queues {
        let from = match &after {
            None => Begin::Start,
            Some((time, last, key)) if queue == last => Begin::AfterKey(time, key),
            Some((time, last, _)) if (queue > last) != filter.newest => Begin::Time(time),
            Some((time, ..)) => Begin::AfterTime(time),
        };
        for state in states(filter) {
            let order = Order { queue, state, by, older_ms: Some(filter.older_ms()) };
            for parked in in_order(store, order, from, count).await? {
                let key = parked.id[queue.len() + 1..].to_owned();
                found.push((parked.place.clone(), queue.clone(), key, parked));
            }
        }
    }
    found.sort_by(|one, other| (&one.0, &one.1, &one.2).cmp(&(&other.0, &other.1, &other.2)));
    if filter.newest {
        found.reverse();
    }
    Ok(found.into_iter().take(count).map(|(.., parked)| parked).collect())
}

/// Parked messages of a queue in one state, in the order of a time and of their keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    /// The queue.
    pub(crate) queue: &'a str,
    /// The state, as it is in the table.
    pub(crate) state: &'static str,
    /// The time.
    pub(crate) by: By,
    /// Only those that were parked at least so long ago.
    pub(crate) older_ms: Option<i64>,
}

/// So many parked messages in this order, from this place on.
///
/// # Errors
/// The database failed.
pub(crate) async fn in_order<S: SqlStore>(
    store: &S,
    order: Order<'_>,
    from: Begin<'_>,
    count: usize,
) -> Result<Vec<Parked>> {
    let mut found = range(store, order, from, count).await?;
    // What comes after a key of some time is in two ranges of the index.
    if let Begin::AfterKey(time, _) = from
        && found.len() < count
    {
        found.extend(range(store, order, Begin::AfterTime(time), count - found.len()).await?);
    }
    Ok(found)
}

async fn range<S: SqlStore>(store: &S, order: Order<'_>, from: Begin<'_>, count: usize) -> Result<Vec<Parked>> {
    let Order { queue, state, by, older_ms } = order;
    let (key, (time, index), (beyond, down)) = (S::Dialect::KEY, by.names(), by.direction());
    let mut binds: Vec<Bind> = vec![queue.into(), by.rows(count).into()];
    let mut place = |bind: Bind| {
        binds.push(bind);
        format!("?{}", binds.len())
    };
    let mut moment = |text: &str| S::Dialect::moment(&place(text.into()));
    let from = match from {
        Begin::Start => String::new(),
        Begin::Time(then) => format!(" and {time} {beyond}= {}", moment(then)),
        Begin::AfterTime(then) => format!(" and {time} {beyond} {}", moment(then)),
        Begin::AfterKey(then, last) => {
            format!(" and {time} = {} and {key} {beyond} {}", moment(then), place(Bind::Exact(Some(last.to_owned()))))
        }
    };
    let aged = older_ms.map(|ms| format!(" and parked_at <= {}", S::Dialect::after('-', &place(ms.into()))));
    let some = format!(
        "select {}, {} from {}{} where queue = ?1 and state = '{state}'{from}{} order by {time}{down}, {key}{down} limit ?2",
        columns::<S>(),
        S::Dialect::stamp(time),
        store.tables().parked,
        S::Dialect::by_index(index),
        aged.unwrap_or_default()
    );
    let some = store.look(binds.into_iter().fold(Query::new(some), Query::bind)).await?;
    let some = some.iter().map(|row| Ok(read(row)?.at(row.get(8)?)));
    some.filter(|parked| !parked.as_ref().is_ok_and(|parked| by.leaves_out(parked))).take(count).collect()
}

/// What is known about these messages of a queue, whatever their state.
///
/// # Errors
/// The database failed.
pub(crate) async fn these<S: SqlStore>(store: &S, queue: &str, keys: &[String]) -> Result<Vec<Parked>> {
    let (parked, key) = (&store.tables().parked, S::Dialect::KEY);
    let known = format!("select {} from {parked} where queue = ?1 and {key} in ?2", columns::<S>());
    let known = store.look(Query::new(known).bind(queue).bind(Bind::Exacts(keys.to_vec()))).await?;
    known.iter().map(read).collect()
}

fn columns<S: SqlStore>() -> String {
    let (due, since) = (S::Dialect::utc("due_at"), S::Dialect::utc("parked_at"));
    format!("queue, {}, state, attempts, {due}, {since}, history, snoozed", S::Dialect::KEY)
}

fn read(row: &Row) -> Result<Parked> {
    let id = format!("{}/{}", row.get::<String>(0)?, row.get::<String>(1)?);
    let (state, history): (String, String) = (row.get(2)?, row.get(6)?);
    Ok(Parked::new(id, &state, (row.get(3)?, row.get(7)?), row.get(4)?, row.get(5)?, &history))
}
