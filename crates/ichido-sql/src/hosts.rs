//! The servers that a URL names: one, or several of which one can be written to. The drivers know only one host; a store's connector asks here
//! which is next and with which options it is reached now, and finds out itself whether it is fit.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{BoxFuture, Cause};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::deadline;

/// Completes the options each time a connection is opened, for example with a password that changes.
pub type BeforeConnect<O> = Arc<dyn Fn(O) -> BoxFuture<'static, Result<O, Cause>> + Send + Sync>;

/// The servers of a store, in the order of its URL; `O` is how the driver reaches one.
pub struct Hosts<O> {
    all: Vec<O>,
    wanted: Wanted,
    /// The one that answered last is tried first: all connections are to be to one server.
    last: AtomicUsize,
    before: Option<BeforeConnect<O>>,
    beside: Semaphore,
}

/// `target_session_attrs`, as libpq has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Whoever answers.
    Any,
    /// Sessions can write without asking for it.
    ReadWrite,
    /// No standby.
    Primary,
}

impl<O: Clone> Hosts<O> {
    /// The servers of this URL; `read` gets a URL with one host.
    ///
    /// # Errors
    /// What `read` says, or `invalid` made of why this is no URL.
    pub fn of<E>(url: &str, read: impl Fn(&str) -> Result<O, E>, invalid: impl Fn(&str) -> E) -> Result<Self, E> {
        let (wanted, urls) = split(url).map_err(|why| invalid(&why))?;
        let all = urls.iter().map(|url| read(url)).collect::<Result<_, E>>()?;
        Ok(Hosts::new(all, wanted))
    }

    /// The one server that is reached with these options.
    #[must_use]
    pub fn one(options: O) -> Self {
        Hosts::new(vec![options], Wanted::Any)
    }

    fn new(all: Vec<O>, wanted: Wanted) -> Self {
        Hosts { all, wanted, last: AtomicUsize::new(0), before: None, beside: Semaphore::new(1) }
    }

    /// The same servers, with options that are completed for each connection.
    #[must_use]
    pub fn before_connect(self, before: Option<BeforeConnect<O>>) -> Self {
        Hosts { before, ..self }
    }

    /// What the URL asks of them.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// All of them, in the order of the URL.
    #[must_use]
    pub fn all(&self) -> &[O] {
        &self.all
    }

    /// The one that answered last, as it was configured. A connection is opened with [`Hosts::options`].
    #[must_use]
    pub fn current(&self) -> &O {
        &self.all[self.last.load(Ordering::Relaxed)]
    }

    /// The one that answered last, and how it is reached now.
    ///
    /// # Errors
    /// What completes the options failed.
    pub async fn options(&self) -> io::Result<O> {
        self.completed(self.current()).await
    }

    async fn completed(&self, host: &O) -> io::Result<O> {
        match &self.before {
            Some(before) => before(host.clone()).await.map_err(io::Error::other),
            None => Ok(host.clone()),
        }
    }

    /// For whoever opens a connection beside those that are counted, to ask about a session or to end it: one at a time.
    ///
    /// # Errors
    /// Never: nobody ends the line.
    pub async fn beside(&self) -> io::Result<SemaphorePermit<'_>> {
        self.beside.acquire().await.map_err(io::Error::other)
    }

    /// All of them, beginning with the one that answered last.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, &O)> {
        let (first, count) = (self.last.load(Ordering::Relaxed), self.all.len());
        (first..first + count).map(move |at| (at % count, &self.all[at % count]))
    }

    /// What the first of them that is fit opens. The time is for all of them together, in equal shares: one that is silent must not keep us
    /// from the next.
    ///
    /// # Errors
    /// Why none of them is, each with its `name`.
    pub async fn first<T, E: From<io::Error> + ToString, F: Future<Output = Result<T, E>>>(
        &self,
        timeout: Duration,
        name: impl Fn(&O) -> String,
        open: impl Fn(O) -> F,
    ) -> Result<T, E> {
        let count = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let mut causes = Vec::new();
        for (at, host) in self.in_order() {
            match deadline(timeout / count, async { open(self.completed(host).await?).await }).await {
                Ok(opened) => {
                    self.last.store(at, Ordering::Relaxed);
                    return Ok(opened);
                }
                Err(error) if count == 1 => return Err(error),
                Err(error) => causes.push(format!("{}: {}", name(host), error.to_string())),
            }
        }
        Err(io::Error::other(causes.join("; ")).into())
    }
}

/// One URL per host, and what is wanted of them: `scheme://user:password@a:1,b:2/name?target_session_attrs=read-write`.
fn split(url: &str) -> Result<(Wanted, Vec<String>), String> {
    let (url, wanted) = without_wanted(url)?;
    let Some((scheme, rest)) = url.split_once("://") else { return Ok((wanted, vec![url])) };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
    if hosts.contains(',') && hosts.split(',').any(str::is_empty) {
        return Err("a host has no name".into());
    }
    Ok((wanted, hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()))
}

/// The URL without `target_session_attrs`, which sqlx does not know.
fn without_wanted(url: &str) -> Result<(String, Wanted), String> {
    let Some((front, query)) = url.split_once('?') else { return Ok((url.to_owned(), Wanted::Any)) };
    let (mut wanted, mut rest) = (Wanted::Any, Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("target_session_attrs", "any")) => wanted = Wanted::Any,
            Some(("target_session_attrs", "read-write")) => wanted = Wanted::ReadWrite,
            Some(("target_session_attrs", "primary")) => wanted = Wanted::Primary,
            Some(("target_session_attrs", other)) => {
                return Err(format!(
                    "target_session_attrs={other}; expected read-write, primary or any: ichido writes"
                ));
            }
            _ => rest.push(pair),
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok((format!("{front}{query}"), wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Result<Hosts<String>, String> {
        Hosts::of(url, |url| Ok(url.to_owned()), ToOwned::to_owned)
    }

    #[test]
    fn a_url_may_name_several_hosts() {
        let two = hosts("db://me:a%2Cb@one:1,two:2/shop?target_session_attrs=read-write&tls=off").unwrap();
        assert_eq!(two.wanted(), Wanted::ReadWrite);
        assert_eq!(two.all(), ["db://me:a%2Cb@one:1/shop?tls=off", "db://me:a%2Cb@two:2/shop?tls=off"]);
        let one = hosts("db://localhost/shop?name=till").unwrap();
        assert_eq!((one.all().len(), one.wanted()), (1, Wanted::Any));
    }

    #[tokio::test]
    async fn the_one_that_answered_last_is_tried_first() {
        let two = hosts("db://one,two/shop").unwrap();
        let open = |host: String| {
            let fit = host.contains("two");
            async move { if fit { Ok(()) } else { Err(io::Error::other("refused")) } }
        };
        two.first(Duration::from_mins(1), Clone::clone, open).await.unwrap();
        assert_eq!(two.in_order().map(|(at, _)| at).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(two.current(), "db://two/shop");
        let none = two.first(Duration::from_mins(1), Clone::clone, |_| async { Err::<(), _>(io::Error::other("no")) });
        assert_eq!(none.await.unwrap_err().to_string(), "db://two/shop: no; db://one/shop: no");
    }

    #[tokio::test]
    async fn options_are_completed_for_each_connection() {
        let times = Arc::new(AtomicUsize::new(0));
        let before: BeforeConnect<String> = {
            let times = times.clone();
            Arc::new(move |host| {
                let time = times.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    if time == 2 { Err("the vault is locked".into()) } else { Ok(format!("{host} {time}")) }
                })
            })
        };
        let one = Hosts::one("db".to_owned()).before_connect(Some(before));
        let open = |host: String| async move { Ok::<_, io::Error>(host) };
        assert_eq!(one.first(Duration::from_mins(1), Clone::clone, open).await.unwrap(), "db 0");
        assert_eq!(one.options().await.unwrap(), "db 1");
        let failed = one.first(Duration::from_mins(1), Clone::clone, open).await.unwrap_err();
        assert_eq!(failed.to_string(), "the vault is locked");
        assert_eq!(one.current(), "db");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for url in ["db://a,,b/d", "db://a,b/d?target_session_attrs=standby"] {
            assert!(hosts(url).is_err(), "{url} was accepted");
        }
    }
}
