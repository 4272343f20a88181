//! The servers that a URL names, as sqlx knows them, and whether one of them is fit; `ichido_sql::Hosts` says which is next.

use std::ops::Deref;

use ichido::{Error, error::Result};
use ichido_sql::Wanted;
use sqlx::{ConnectOptions as _, Row, postgres::PgConnectOptions};

/// What a program calls itself if the URL does not say it.
const NAME: &str = "ichido";

/// The servers of a store.
pub(crate) struct Hosts(ichido_sql::Hosts<PgConnectOptions>);

impl Deref for Hosts {
    type Target = ichido_sql::Hosts<PgConnectOptions>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Hosts {
    /// The servers of this URL.
    pub(crate) fn of(url: &str) -> Result<Self> {
        ichido_sql::Hosts::of(url, options, invalid).map(Hosts)
    }

    /// Where the database is, without the password.
    pub(crate) fn address(&self) -> String {
        let hosts: Vec<_> = self.all().iter().map(host).collect();
        format!("{}/{}", hosts.join(","), self.current().get_database().unwrap_or_default())
    }

    /// Is this server what the URL asks for? On a connection of its own: ours have settings that would answer in its place.
    pub(crate) async fn check(&self, host: &PgConnectOptions) -> sqlx::Result<()> {
        let (question, unfit) = match self.wanted() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_name_several_hosts() {
        let hosts =
            Hosts::of("postgres://me:a%2Cb@one:1,two:2/shop?target_session_attrs=read-write&sslmode=disable").unwrap();
        assert_eq!((hosts.address().as_str(), hosts.wanted()), ("one:1,two:2/shop", Wanted::ReadWrite));
        assert!(hosts.all().iter().all(|host| host.get_username() == "me" && host.get_database() == Some("shop")));
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
