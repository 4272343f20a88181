//! What a store is told and finds out once: the queues of its configuration, where ichido's own tables are, the statements about each
//! queue, and the name of the database.

use std::sync::Arc;

use ichido::Queue;
use tokio::sync::OnceCell;

use crate::Tables;

/// What all clones of a store know of their database.
#[derive(Debug)]
pub struct Known<Q> {
    /// The queues, as they are configured.
    pub configured: Vec<Queue>,
    /// Where ichido's own tables are.
    pub tables: Tables,
    /// The queues with their statements, once their tables were looked at.
    pub(crate) queues: OnceCell<Vec<Q>>,
    /// The name of this database, once it was read.
    pub(crate) origin: OnceCell<Arc<str>>,
}

impl<Q> Known<Q> {
    /// Before anything was looked at.
    #[must_use]
    pub fn new(configured: Vec<Queue>, tables: Tables) -> Self {
        Known { configured, tables, queues: OnceCell::new(), origin: OnceCell::new() }
    }
}
