//! How a store is described before it is built: where its database is, its queues, how many connections it may open. Each store has a builder of
//! its own with the methods that the macros here write into it; what they set is a [`Plan`].

use std::{sync::Arc, time::Duration};

use ichido::{Error, Queue};

use crate::{BeforeConnect, Hosts};

/// Of a store's connections, this many are ichido's own: one claims, one parks and releases.
pub const OWN: u32 = 2;

/// Where a database is.
pub enum Place<O> {
    /// A URL with all that is needed.
    Url(String),
    /// The driver's options.
    Options(O),
}

/// What a builder was told.
pub struct Plan<O> {
    /// Where the database is; it must be said.
    pub place: Option<Place<O>>,
    /// Completes the options for each connection.
    pub before_connect: Option<BeforeConnect<O>>,
    /// The queues that the store knows.
    pub queues: Vec<Queue>,
    /// The schema of ichido's own tables; none: the connection's.
    pub schema: Option<String>,
    /// So many connections are opened at the start, and so many at most.
    pub connections: (u32, u32),
    /// How long a server may be silent; none: the default.
    pub timeout: Option<Duration>,
}

impl<O: Clone> Plan<O> {
    /// With so many connections if nothing else is said.
    #[must_use]
    pub fn new(min: u32, max: u32) -> Self {
        Plan {
            place: None,
            before_connect: None,
            queues: Vec::new(),
            schema: None,
            connections: (min, max),
            timeout: None,
        }
    }

    /// Refuses what cannot be meant: at least so many connections are needed.
    ///
    /// # Errors
    /// [`Error::Setup`], with what to change.
    pub fn check(&self, least: u32) -> Result<(), Error> {
        let (min, max) = self.connections;
        if max < least {
            return Err(Error::Setup(format!("connections({min}, {max}): at least {least} connections are needed")));
        }
        if min > max {
            return Err(Error::Setup(format!("connections({min}, {max}): the first number is the smaller one")));
        }
        Ok(())
    }

    /// Where the database is.
    ///
    /// # Errors
    /// [`Error::Setup`] if nobody has said it.
    pub fn place(&mut self) -> Result<Place<O>, Error> {
        let nowhere = || Error::Setup("a store needs the place of its database: call url or options".into());
        self.place.take().ok_or_else(nowhere)
    }

    /// The servers, from a URL or from options.
    ///
    /// # Errors
    /// What `read` says about a URL, or that there is none.
    pub fn hosts(&mut self, read: impl Fn(&str) -> Result<Hosts<O>, Error>) -> Result<Hosts<O>, Error> {
        let hosts = match self.place()? {
            Place::Url(url) => read(&url)?,
            Place::Options(options) => Hosts::one(options),
        };
        Ok(hosts.before_connect(self.before_connect.take()))
    }
}

/// The refusal of options that ask for TLS in a build without it.
#[must_use]
pub fn no_tls(option: &str) -> Error {
    Error::Setup(format!(
        "{option} asks for TLS, which this build does not have: build it with the feature `tls-rustls-ring` or `tls-rustls-aws-lc`"
    ))
}

/// Boxes a closure that completes options.
pub fn before_connect<O, F>(before: impl Fn(O) -> F + Send + Sync + 'static) -> BeforeConnect<O>
where
    F: Future<Output = Result<O, ichido::Cause>> + Send + 'static,
{
    Arc::new(move |options| Box::pin(before(options)))
}

/// The methods that every store's builder has; `$options` is how the driver reaches the database.
#[macro_export]
macro_rules! builder {
    ($options:ty) => {
        /// Where the database is. Of `url` and `options`, the last one counts.
        #[must_use]
        pub fn url(mut self, url: &str) -> Self {
            self.plan.place = Some($crate::Place::Url(url.to_owned()));
            self
        }

        /// Where the database is, as sqlx's options: for what a URL cannot say.
        #[must_use]
        pub fn options(mut self, options: $options) -> Self {
            self.plan.place = Some($crate::Place::Options(options));
            self
        }

        /// The queues that are sent to and processed.
        #[must_use]
        pub fn queues(mut self, queues: impl IntoIterator<Item = ichido::Queue>) -> Self {
            self.plan.queues = queues.into_iter().collect();
            self
        }
    };
}

/// The methods that only the builders of stores with a server have.
#[macro_export]
macro_rules! server_builder {
    ($options:ty) => {
        /// Completes the options each time a connection is opened, whatever it is for: with a token that expires, or a password that changes.
        /// It gets what `url` or `options` said, for the host that is tried. The time that it takes counts as time to connect; if it
        /// fails, the database counts as unreachable.
        #[must_use]
        pub fn before_connect<F>(mut self, complete: impl Fn($options) -> F + Send + Sync + 'static) -> Self
        where
            F: Future<Output = Result<$options, ichido::Cause>> + Send + 'static,
        {
            self.plan.before_connect = Some($crate::before_connect(complete));
            self
        }

        /// `min` connections are opened when the store is first used, and at most `max` are open at once: two are ichido's own, the others
        /// are for business transactions. (2, 16) if nothing else is said; at least three, and two are always opened. One that is open stays
        /// open; one that is lost is opened again when it is needed. A process opens a few more for its upkeep
        /// ([`connections`](ichido::store::Database::connections)).
        #[must_use]
        pub fn connections(mut self, min: u32, max: u32) -> Self {
            self.plan.connections = (min, max);
            self
        }

        /// The schema of ichido's own tables; the connection's if nothing else is said.
        #[must_use]
        pub fn schema(mut self, schema: &str) -> Self {
            self.plan.schema = Some(schema.to_owned());
            self
        }

        /// How long a statement of ichido's own, COMMIT or ROLLBACK may stay unanswered, and how long connecting may take: 15 s if nothing
        /// else is said.
        #[must_use]
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.plan.timeout = Some(timeout);
            self
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(min: u32, max: u32) -> String {
        let Err(Error::Setup(text)) = Plan::<()>::new(min, max).check(3) else { panic!("({min}, {max}) was accepted") };
        text
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert!(Plan::<()>::new(0, 3).check(3).is_ok());
        assert_eq!(refused(0, 2), "connections(0, 2): at least 3 connections are needed");
        assert_eq!(refused(5, 4), "connections(5, 4): the first number is the smaller one");
        let Err(Error::Setup(text)) = Plan::<()>::new(2, 16).place().map(|_| ()) else { panic!("it is nowhere") };
        assert!(text.contains("url or options"), "{text}");
    }
}
