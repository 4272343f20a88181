//! Bare connections, counted by a semaphore of ours. A connector opens them; those that nobody uses wait here, the last one first. Whoever
//! drops a lent connection closes its socket: nothing is asked or rolled back behind anybody's back. Knows no driver; the stores bring theirs.

use std::{
    future::Future,
    io,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Deadline;

/// Opens connections to one server.
pub trait Connector: Send + Sync + 'static {
    /// A connection, ready for use.
    type Connection: Send + 'static;
    /// Why there is none.
    type Error: From<io::Error> + Send;

    /// Connects within this time ([`crate::deadline`]) or says why not, at once: nobody waits for a server that refuses.
    fn connect(&self, timeout: Duration) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// A connection was dropped in use while the server was silent: its session may live on there, with all that it has locked.
    fn orphaned(&self, connection: Self::Connection) {
        drop(connection);
    }
}

/// So many connections at most.
pub struct Connections<C: Connector>(Arc<Home<C>>);

struct Home<C: Connector> {
    connector: C,
    deadline: Deadline,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Idle<C::Connection>>>,
    size: u32,
}

/// A connection that nobody uses, and how often the server had been silent when it was last heard.
struct Idle<T> {
    connection: T,
    silences: u64,
}

impl<C: Connector> Clone for Connections<C> {
    fn clone(&self) -> Self {
        Connections(self.0.clone())
    }
}

impl<C: Connector> Connections<C> {
    /// Up to `size` connections; nothing is connected yet.
    #[must_use]
    pub fn new(size: u32, connector: C, deadline: Deadline) -> Self {
        let places = Arc::new(Semaphore::new(size as usize));
        Connections(Arc::new(Home { connector, deadline, places, idle: Mutex::default(), size }))
    }

    /// How many there may be.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// Who opens them.
    #[must_use]
    pub fn connector(&self) -> &C {
        &self.0.connector
    }

    /// How long the server may be silent.
    #[must_use]
    pub fn deadline(&self) -> &Deadline {
        &self.0.deadline
    }

    /// A connection: one that nobody uses, or a new one. Waits for whoever has them all, as long as that takes.
    ///
    /// # Errors
    /// What the connector said.
    pub async fn take(&self) -> Result<Lent<C>, C::Error> {
        let place = self.0.places.clone().acquire_owned().await.map_err(io::Error::other)?;
        let silences = self.0.deadline.silences();
        let connection = match self.idle_since(silences) {
            Some(connection) => connection,
            // In a box: it is large and rare, and whoever calls us is moved with it for each message.
            None => Box::pin(self.0.connector.connect(self.0.deadline.timeout())).await?,
        };
        Ok(Lent { connection: Some(connection), silences, home: self.clone(), _place: place })
    }

    /// Opens so many now, for later: none of them waits for the server's admission then.
    ///
    /// # Errors
    /// What the connector said; those that were opened stay.
    pub async fn open(&self, count: u32) -> Result<(), C::Error> {
        let mut opened = Vec::new();
        let mut result = Ok(());
        while opened.len() < count.min(self.size()) as usize && result.is_ok() {
            result = self.take().await.map(|lent| opened.push(lent));
        }
        opened.into_iter().for_each(Lent::give_back);
        result
    }

    /// Closes what nobody uses.
    pub fn close_idle(&self) {
        self.idle().clear();
    }

    /// One that was heard since the server was last silent; the others were closed by the same silence, most likely, and are dropped.
    fn idle_since(&self, silences: u64) -> Option<C::Connection> {
        let mut idle = self.idle();
        while let Some(last) = idle.pop() {
            if last.silences == silences {
                return Some(last.connection);
            }
        }
        None
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle<C::Connection>>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is somebody's. Dropped, it is closed.
pub struct Lent<C: Connector> {
    connection: Option<C::Connection>,
    silences: u64,
    home: Connections<C>,
    _place: OwnedSemaphorePermit,
}

impl<C: Connector> Lent<C> {
    /// How long the server may be silent.
    #[must_use]
    pub fn deadline(&self) -> &Deadline {
        self.home.deadline()
    }

    /// Was the server silent since this was taken? Here or elsewhere: nobody should wait for it once more.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.home.deadline().silences() != self.silences
    }

    /// Closes it; what lives on at the server is the caller's to end.
    pub fn close(mut self) {
        drop(self.connection.take());
    }

    /// For the next one. The server has answered all that was asked, and no transaction is open.
    pub fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            let silences = self.home.deadline().silences();
            self.home.idle().push(Idle { connection, silences });
        }
    }
}

impl<C: Connector> Drop for Lent<C> {
    fn drop(&mut self) {
        let suspect = self.is_suspect();
        match self.connection.take() {
            Some(connection) if suspect => self.home.connector().orphaned(connection),
            connection => drop(connection),
        }
    }
}

const TAKEN: &str = "a connection is there until it is returned";

impl<C: Connector> Deref for Lent<C> {
    type Target = C::Connection;

    #[allow(clippy::expect_used, reason = "only giving back and dropping take it out, and both end us")]
    fn deref(&self) -> &C::Connection {
        self.connection.as_ref().expect(TAKEN)
    }
}

impl<C: Connector> DerefMut for Lent<C> {
    #[allow(clippy::expect_used, reason = "only giving back and dropping take it out, and both end us")]
    fn deref_mut(&mut self) -> &mut C::Connection {
        self.connection.as_mut().expect(TAKEN)
    }
}

#[cfg(test)]
mod tests;
