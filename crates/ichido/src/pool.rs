//! What one action of a process needs: its name, where its messages come from, how many workers run it and how failures
//! are retried. `Process` collects pools, `dispatch` picks them and opens their readers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{Reader, RetryPolicy, Store, action::DynAction, reader::DynReader};

/// One action's workers and where their messages come from.
#[derive(Clone)]
pub struct Pool {
    pub(crate) name: Arc<str>,
    pub(crate) from: From,
    pub(crate) concurrency: usize,
    pub(crate) read_ahead: Option<usize>,
    pub(crate) retry: RetryPolicy,
}

#[derive(Clone)]
pub(crate) enum From {
    Queue(Arc<str>),
    Reader(Arc<dyn DynReader>),
}

/// Workers of an action unless it says otherwise.
pub const CONCURRENCY: usize = 4;

/// The most that is claimed beyond the free workers.
pub const MOST_READ_AHEAD: usize = 64;

impl Pool {
    /// The action's name; its messages come from the queue of the same name unless [`Pool::from`] names another.
    pub fn new(action: impl Into<Arc<str>>) -> Self {
        let name = action.into();
        Pool {
            from: From::Queue(name.clone()),
            name,
            concurrency: CONCURRENCY,
            read_ahead: None,
            retry: RetryPolicy::default(),
        }
    }

    /// The queue that its messages come from.
    #[must_use]
    pub fn from(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.from = From::Queue(queue.into());
        self
    }

    /// A reader of your own in the place of a queue.
    #[must_use]
    pub fn reader(mut self, reader: impl Reader) -> Self {
        self.from = From::Reader(Arc::new(reader));
        self
    }

    /// The number of workers.
    #[must_use]
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = workers.max(1);
        self
    }

    /// How many messages are claimed beyond what the workers have in hand.
    #[must_use]
    pub fn read_ahead(mut self, messages: usize) -> Self {
        self.read_ahead = Some(messages);
        self
    }

    /// When failed messages run again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    pub(crate) fn ahead(&self) -> usize {
        self.read_ahead.unwrap_or(self.concurrency).min(MOST_READ_AHEAD)
    }
}

/// An action with its pool.
pub(crate) type PooledAction<S> = (Pool, Arc<dyn DynAction<S>>);

/// All actions of a process, by name.
pub(crate) type Actions<S> = BTreeMap<Arc<str>, PooledAction<S>>;

/// A pool with its action and its open reader: what `dispatch` puts into the context.
pub(crate) struct Work<S: Store> {
    pub(crate) pool: Pool,
    pub(crate) action: Arc<dyn DynAction<S>>,
    pub(crate) reader: Arc<dyn DynReader>,
}

/// What holds for the whole process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Without a sign of life for this long a process is dead.
    pub lease: Duration,
    /// How often an empty queue is looked at.
    pub poll: Duration,
    /// How long running messages may take to end after a stop.
    pub grace: Duration,
    /// End when nothing is unprocessed.
    pub drain: bool,
    /// End after so many messages.
    pub max_messages: Option<u64>,
    /// How often a line about the progress is logged; zero: never.
    pub progress: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(25),
            drain: false,
            max_messages: None,
            progress: Duration::from_secs(10),
        }
    }
}
