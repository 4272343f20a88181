//! How rows of a table are messages, in words of SQL that all dialects understand: quoted names and literals come from the
//! dialect, the conditions are the same for all.

use ichido::{
    Queue, Status, Table,
    error::Result,
    message::{OnDone, Place},
    store::ProcessId,
};

use crate::{Kind, Tables};

/// A queue's table with every name quoted.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// The table.
    pub table: String,
    /// Whose rows they are.
    pub kind: Kind,
    /// What these rows are, for the comparison with what other processes mean.
    pub place: String,
    /// Which rows of which table they are, for the comparison with other queues.
    pub identity: String,
    /// The payload of a row of ichido's own; none where the row itself is the payload.
    pub payload: Option<String>,
    /// The key columns.
    pub key: Vec<String>,
    /// The owner column.
    pub owner: String,
    /// The status column and its values; a managed queue has none.
    pub status: Option<(String, Status)>,
    /// The claim order; empty: by key.
    pub order_by: Vec<(String, bool)>,
    /// Only rows with these values belong to the queue.
    pub only: Vec<(String, String)>,
    /// What becomes of a row that is done.
    pub on_done: OnDone,
    /// The column of groups.
    pub group: Option<String>,
    /// Every row has a group: the column cannot be null.
    pub all_grouped: bool,
    /// The column that says when a row was sent.
    pub sent_at: Option<String>,
    /// Messages can have a unique key.
    pub unique_keys: bool,
}

/// What is asked and written about rows, in SQL; the table is called `t`.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// The row is unprocessed. Literals, not parameters: the planner must see that the claim index fits.
    pub new: String,
    /// The row has failed for good, as [`Conditions::fail`] left it.
    pub failed: String,
    /// The row is done; none where no row is there any more then.
    pub done: Option<String>,
    /// The assignments that complete a row; none: it is deleted.
    pub complete: Option<String>,
    /// The assignments that make a row failed for good.
    pub fail: String,
    /// The assignments that put a failed row back into circulation.
    pub retry: String,
    /// The owner that no process has, as a literal.
    pub nobody: String,
    /// The columns of the claim order, and whether each descends.
    pub order: Vec<(String, bool)>,
    /// The claim order among the rows of an owner; a broker hands out about in the order of sending. Its first expression keeps the
    /// database from walking through the whole table in that order to find them.
    pub owned_order: String,
    /// The row is in no group, to be added to other conditions; nothing where there are no groups.
    pub ungrouped: String,
}

impl Conditions {
    /// The claim order.
    #[must_use]
    pub fn order_by(&self) -> String {
        order_by(&self.order)
    }

    /// A condition: some process owns the row. Two ranges of an index on the owner, because `<>` would make the database pass over every row that is
    /// put aside.
    #[must_use]
    pub(crate) fn owned(&self, owner: &str) -> String {
        format!("(t.{owner} < {nobody} or t.{owner} > {nobody})", nobody = self.nobody)
    }

    /// The columns that a lower bound of the claim order compares: all of them where they go the same way, else the first.
    #[must_use]
    pub fn bound(&self) -> &[(String, bool)] {
        let same_way = self.order.windows(2).all(|pair| pair[0].1 == pair[1].1);
        if same_way { &self.order } else { &self.order[..1] }
    }
}

/// A managed message that has failed frees its unique key, and remembers it.
const FREE_UNIQUE_KEY: &str = "freed_key = unique_key, unique_key = null";

/// A managed message that is put back into circulation takes its unique key again, if nobody else has it now.
const TAKE_UNIQUE_KEY: &str = "unique_key = freed_key, freed_key = null";

impl Mapping {
    /// The mapping of a queue in ichido's own tables: managed, or a broker's.
    #[must_use]
    pub fn own(tables: &Tables, queue: &Queue) -> Self {
        match queue.place {
            Place::Broker(_) => Mapping::mutex(tables, &queue.name),
            _ => Mapping::managed(tables, &queue.name),
        }
    }

    /// The mapping of a managed queue, whose message table has the columns `id`, `queue` and `owner`.
    fn managed(tables: &Tables, queue: &str) -> Self {
        Mapping {
            table: tables.message.clone(),
            kind: Kind::Managed,
            place: format!("managed:{queue}"),
            identity: format!("managed:{queue}"),
            payload: Some("t.payload".into()),
            key: vec!["id".into()],
            owner: "owner".into(),
            status: None,
            order_by: Vec::new(),
            only: vec![("queue".into(), queue.into())],
            on_done: OnDone::Delete,
            group: Some("group_key".into()),
            all_grouped: false,
            sent_at: Some("sent_at".into()),
            unique_keys: true,
        }
    }

    /// The mapping of the mutex rows of a broker's queue, which have the columns `id`, `queue`, `owner` and `sent_at`.
    fn mutex(tables: &Tables, queue: &str) -> Self {
        Mapping {
            table: tables.mutex.clone(),
            kind: Kind::Mutex,
            place: format!("mutex:{queue}"),
            identity: format!("mutex:{queue}"),
            payload: Some(format!("(select o.payload from {} o where o.mutex = t.id)", tables.outbox)),
            group: None,
            unique_keys: false,
            ..Mapping::managed(tables, queue)
        }
    }

    /// The mapping of a business table, with its name in full; `quoted` finds a column and quotes its name. Which rows of which table
    /// they are, the store adds.
    ///
    /// # Errors
    /// What `quoted` said about a column.
    pub fn of(
        table: &Table,
        full_name: String,
        key: Vec<String>,
        quoted: impl Fn(&str) -> Result<String>,
    ) -> Result<Self> {
        if table.group_by.is_some() && table.status.failed.is_none() {
            return Err(ichido::Error::Setup(format!(
                "the table `{}` has groups, so its status needs a value for failed rows: one that stays `{}` would \
                 block its group forever",
                table.name, table.status.new
            )));
        }
        let order_by = table.order_by.iter().map(|order| Ok((quoted(&order.column)?, order.descending)));
        let only = table.only.iter().map(|(column, value)| Ok((quoted(column)?, value.clone())));
        Ok(Mapping {
            table: full_name,
            kind: Kind::Table,
            place: table.place(),
            identity: String::new(),
            payload: None,
            key,
            owner: quoted(&table.owner)?,
            status: Some((quoted(&table.status.column)?, table.status.clone())),
            order_by: order_by.collect::<Result<_>>()?,
            only: only.collect::<Result<_>>()?,
            on_done: table.on_done,
            all_grouped: false,
            group: table.group_by.as_deref().map(&quoted).transpose()?,
            sent_at: table.sent_at.as_deref().map(&quoted).transpose()?,
            unique_keys: false,
        })
    }

    /// The conditions and assignments of this mapping.
    ///
    /// # Errors
    /// What `literal` said about a value.
    pub fn conditions(&self, literal: impl Fn(&str) -> Result<String>) -> Result<Conditions> {
        let Mapping { owner, status, .. } = self;
        let nobody = format!("'{}'", ProcessId::NOBODY);
        let part: Vec<_> = self
            .only
            .iter()
            .map(|(column, value)| Ok(format!("t.{column} = {}", literal(value)?)))
            .collect::<Result<_>>()?;
        let all = |first: Vec<String>| first.into_iter().chain(part.iter().cloned()).collect::<Vec<_>>().join(" and ");
        let is = |column: &str, value: &str| Ok::<_, ichido::Error>(format!("t.{column} = {}", literal(value)?));
        let set = |column: &str, value: &str| {
            Ok::<_, ichido::Error>(format!("{column} = {}, {owner} = null", literal(value)?))
        };
        let new = all(status.iter().map(|(column, status)| is(column, &status.new)).collect::<Result<_>>()?);
        let failed_value = status.as_ref().and_then(|(column, status)| Some((column, status.failed.as_ref()?)));
        Ok(Conditions {
            failed: match failed_value {
                Some((column, failed)) => all(vec![is(column, failed)?, format!("t.{owner} is null")]),
                None => format!("t.{owner} = {nobody} and {new}"),
            },
            done: match status {
                Some((column, Status { done: Some(done), .. })) => Some(all(vec![is(column, done)?])),
                _ => None,
            },
            complete: match (self.on_done, status) {
                (OnDone::Status, Some((column, Status { done: Some(done), .. }))) => Some(set(column, done)?),
                _ => None,
            },
            fail: match failed_value {
                Some((column, failed)) => set(column, failed)?,
                None if !self.unique_keys => format!("{owner} = {nobody}"),
                None => format!("{owner} = {nobody}, {FREE_UNIQUE_KEY}"),
            },
            retry: match status {
                Some((column, status)) => set(column, &status.new)?,
                None if !self.unique_keys => format!("{owner} = null"),
                None => format!("{owner} = null, {TAKE_UNIQUE_KEY}"),
            },
            ungrouped: self.group.as_ref().map(|group| format!(" and t.{group} is null")).unwrap_or_default(),
            owned_order: format!(
                "t.{owner} is null, {}",
                if self.kind == Kind::Mutex { "t.sent_at, t.id".to_owned() } else { order_by(&self.total_order()) }
            ),
            order: self.total_order(),
            nobody,
            new,
        })
    }

    /// The claim order, down to the key: without a tie, so that everybody means the same first row.
    fn total_order(&self) -> Vec<(String, bool)> {
        let mut order = self.order_by.clone();
        for column in &self.key {
            if !order.iter().any(|(known, _)| known == column) {
                order.push((column.clone(), false));
            }
        }
        order
    }

    /// Can a row be told to have failed by its status alone?
    #[must_use]
    pub fn has_failed_value(&self) -> bool {
        self.status.as_ref().is_some_and(|(_, status)| status.failed.is_some())
    }

    /// The columns and values that make a row a new message of the queue.
    pub fn fixed(&self) -> impl Iterator<Item = (&str, &str)> {
        let status = self.status.iter().map(|(column, status)| (column.as_str(), status.new.as_str()));
        status.chain(self.only.iter().map(|(column, value)| (column.as_str(), value.as_str())))
    }
}

fn order_by(order: &[(String, bool)]) -> String {
    let order = order.iter().map(|(column, down)| format!("t.{column}{}", if *down { " desc" } else { "" }));
    order.collect::<Vec<_>>().join(", ")
}
