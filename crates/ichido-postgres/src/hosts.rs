//! The servers that a URL names: one, or several of which one can be written to. sqlx knows only one host; `connector` asks here which
//! is next, and whether it is fit.

use std::sync::atomic::{AtomicUsize, Ordering};

use ichido::{Error, Result};
use sqlx::{ConnectOptions as _, Row, postgres::PgConnectOptions};

/// What a program calls itself if the URL does not say it.
const NAME: &str = "ichido";

/// The servers of a store, in the order of its URL.
pub(crate) struct Hosts {
    all: Vec<PgConnectOptions>,
    wanted: Wanted,
    /// The one that answered last is tried first: all connections are to be to one server.
    last: AtomicUsize,
}

/// `target_session_attrs`, as libpq has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Any,
    /// Sessions can write without asking for it.
    ReadWrite,
    /// No standby.
    Primary,
}

impl Hosts {
    /// The servers of this URL.
    pub(crate) fn of(url: &str) -> Result<Self> {
        let (wanted, urls) = split(url)?;
        let all = urls.iter().map(|url| options(url)).collect::<Result<_>>()?;
        Ok(Hosts { all, wanted, last: AtomicUsize::new(0) })
    }

    /// All of them, beginning with the one that answered last.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (usize, &PgConnectOptions)> {
        let (first, count) = (self.last.load(Ordering::Relaxed), self.all.len());
        (first..first + count).map(move |at| (at % count, &self.all[at % count]))
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// This one answered.
    pub(crate) fn note(&self, at: usize) {
        self.last.store(at, Ordering::Relaxed);
    }

    /// The one that answered last.
    pub(crate) fn current(&self) -> &PgConnectOptions {
        &self.all[self.last.load(Ordering::Relaxed)]
    }

    /// Where the database is, without the password.
    pub(crate) fn address(&self) -> String {
        let hosts: Vec<_> = self.all.iter().map(host).collect();
        format!("{}/{}", hosts.join(","), self.all[0].get_database().unwrap_or_default())
    }

    /// Is this server what the URL asks for? On a connection of its own: ours have settings that would answer in its place.
    pub(crate) async fn check(&self, host: &PgConnectOptions) -> sqlx::Result<()> {
        let (question, unfit) = match self.wanted {
            Wanted::Any => return Ok(()),
            Wanted::ReadWrite => ("show transaction_read_only", "the server is read-only"),
            Wanted::Primary => {
                ("select case when pg_is_in_recovery() then 'on' else 'off' end", "the server is a standby")
            }
        };
        let answer = sqlx::raw_sql(question).fetch_one(&mut host.connect().await?).await?;
        match answer.try_get::<&str, _>(0)? {
            "off" => Ok(()),
            _ => Err(std::io::Error::other(unfit).into()),
        }
    }
}

/// Host and port.
pub(crate) fn host(options: &PgConnectOptions) -> String {
    format!("{}:{}", options.get_host(), options.get_port())
}

fn options(url: &str) -> Result<PgConnectOptions> {
    let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| invalid(&error.to_string()))?;
    let named = options.get_application_name().is_some();
    Ok(if named { options } else { options.application_name(NAME) })
}

fn invalid(why: &str) -> Error {
    Error::Setup(format!("the database URL is invalid ({why}); write one like postgres://user:password@host:5432/name"))
}

/// One URL per host, and what is wanted of them: `scheme://user:password@a:1,b:2/name?target_session_attrs=read-write`.
fn split(url: &str) -> Result<(Wanted, Vec<String>)> {
    let (url, wanted) = without_wanted(url)?;
    let Some((scheme, rest)) = url.split_once("://") else { return Ok((wanted, vec![url])) };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
    if hosts.contains(',') && hosts.split(',').any(str::is_empty) {
        return Err(invalid("a host has no name"));
    }
    Ok((wanted, hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()))
}

/// The URL without `target_session_attrs`, which sqlx does not know.
fn without_wanted(url: &str) -> Result<(String, Wanted)> {
    let Some((front, query)) = url.split_once('?') else { return Ok((url.to_owned(), Wanted::Any)) };
    let (mut wanted, mut rest) = (Wanted::Any, Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("target_session_attrs", value)) => {
                wanted = match value {
                    "any" => Wanted::Any,
                    "read-write" => Wanted::ReadWrite,
                    "primary" => Wanted::Primary,
                    other => {
                        return Err(invalid(&format!(
                            "target_session_attrs={other}; expected read-write, primary or any: ichido writes"
                        )));
                    }
                };
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

    #[test]
    fn a_url_may_name_several_hosts() {
        let hosts =
            Hosts::of("postgres://me:a%2Cb@one:1,two:2/shop?target_session_attrs=read-write&sslmode=disable").unwrap();
        assert_eq!((hosts.address().as_str(), hosts.wanted), ("one:1,two:2/shop", Wanted::ReadWrite));
        assert!(hosts.all.iter().all(|host| host.get_username() == "me" && host.get_database() == Some("shop")));
        let order = |hosts: &Hosts| hosts.in_order().map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(order(&hosts), [0, 1]);
        hosts.note(1);
        assert_eq!((order(&hosts), host(hosts.current())), (vec![1, 0], "two:2".to_owned()));
        let one = Hosts::of("postgres://localhost/shop?application_name=till").unwrap();
        assert_eq!((one.count(), one.wanted), (1, Wanted::Any));
    }

    #[test]
    fn the_name_of_the_program_is_the_urls() {
        let name = |url: &str| Hosts::of(url).unwrap().current().get_application_name().map(ToOwned::to_owned);
        assert_eq!(name("postgres://h/d?application_name=till").as_deref(), Some("till"));
        assert_eq!(name("postgres://h/d").as_deref(), Some(NAME));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for url in
            ["postgres://a,,b/d", "postgres://a,b/d?target_session_attrs=standby", "postgres://a:x/d", "nonsense"]
        {
            let Err(Error::Setup(text)) = Hosts::of(url) else { panic!("{url} was accepted") };
            assert!(text.contains("the database URL is invalid"), "{text}");
        }
    }
}
