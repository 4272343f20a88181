//! Where a claim looks for rows, and in which order: the words by which the planner finds the claim index.

use ichido::error::Result;
use ichido_sql::{Conditions, Kind};

use crate::{quote, statements::Rows};

/// How claimable rows are walked through.
pub(crate) struct Walk {
    /// The rows that are not processed.
    pub(crate) within: String,
    pub(crate) order: String,
    /// The rest of the condition that begins at a bound: its values are the parameters from `$3` on.
    pub(crate) from: String,
}

impl Walk {
    /// ichido's own messages are in one table, whose claim index begins with the queue. With `queue =` the planner could as well walk
    /// through the primary key, which has the same order, past everything that is claimed or in other queues; and it does while most
    /// messages are claimable. A range of queues, which is no more than the one, has its order from the claim index alone.
    pub(crate) fn new(queue: &str, rows: &Rows, conditions: &Conditions) -> Result<Self> {
        let (order, bound) = (conditions.order_by(), conditions.bound());
        let mut columns: Vec<_> = bound.iter().map(|(column, _)| format!("t.{column}")).collect();
        let mut values: Vec<_> = bound.iter().enumerate().map(|(at, (column, _))| rows.cast(column, 3 + at)).collect();
        let descending = bound.first().is_some_and(|(_, down)| *down);
        let one_table = rows.mapping.kind == Kind::Managed && !descending;
        let (within, order) = if one_table {
            let queue = quote::literal(queue)?;
            columns.insert(0, "t.queue".into());
            values.insert(0, queue.clone());
            (format!("t.queue >= {queue} and t.queue <= {queue}"), format!("t.queue, {order}"))
        } else {
            (conditions.new.clone(), order)
        };
        let sign = if descending { "<=" } else { ">=" };
        let from = format!(" and ({}) {sign} ({})", columns.join(", "), values.join(", "));
        Ok(Walk { within, order, from })
    }
}
