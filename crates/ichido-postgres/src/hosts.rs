//! The servers that a URL names, as sqlx knows them, and whether one of them is fit; `ichido_sql::Hosts` says which is next.

use std::ops::Deref;

use ichido::{Error, error::Result, store::is_loopback};
use ichido_sql::{Plan, Wanted, no_tls};
use sqlx::{
    ConnectOptions as _, Connection as _, PgConnection, Row,
    postgres::{PgConnectOptions, PgSslMode},
};

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
    /// Those that the builder was told.
    pub(crate) fn planned(plan: &mut Plan<PgConnectOptions>) -> Result<Self> {
        let hosts = plan.hosts(|url| ichido_sql::Hosts::of(url, options, invalid))?;
        refuse_without_tls(hosts.current())?;
        Ok(Hosts(hosts))
    }

    /// Where the database is, without the password.
    pub(crate) fn address(&self) -> String {
        let hosts: Vec<_> = self.all().iter().map(host).collect();
        format!("{}/{}", hosts.join(","), self.current().get_database().unwrap_or_default())
    }

    /// Those that are not on this host, and whose certificate nobody verifies.
    pub(crate) fn unverified(&self) -> Vec<String> {
        let open = |options: &&PgConnectOptions| {
            let verified = matches!(options.get_ssl_mode(), PgSslMode::VerifyCa | PgSslMode::VerifyFull);
            !verified && options.get_socket().is_none() && !is_loopback(options.get_host())
        };
        self.all().iter().filter(open).map(host).collect()
    }

    /// A connection beside those that are counted, to the server that answered last.
    pub(crate) async fn connect(&self) -> sqlx::Result<PgConnection> {
        named(self.options().await?).connect().await
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
        let mut asked = host.connect().await?;
        let answer = sqlx::raw_sql(question).fetch_one(&mut asked).await?;
        asked.close().await?;
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
    url.parse().map_err(|error: sqlx::Error| invalid(&error.to_string()))
}

/// sqlx would find out when it connects, again and again.
fn refuse_without_tls(options: &PgConnectOptions) -> Result<()> {
    let tls = cfg!(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"));
    let asks = matches!(options.get_ssl_mode(), PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull);
    if asks && !tls { Err(no_tls("sslmode")) } else { Ok(()) }
}

/// Operators must see at the server who we are.
pub(crate) fn named(options: PgConnectOptions) -> PgConnectOptions {
    let named = options.get_application_name().is_some();
    if named { options } else { options.application_name(NAME) }
}

fn invalid(why: &str) -> Error {
    Error::Setup(format!("the database URL is invalid ({why}); write one like postgres://user:password@host:5432/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Hosts> {
        let mut plan = Plan::new(2, 3);
        plan.place = Some(ichido_sql::Place::Url(url.to_owned()));
        Hosts::planned(&mut plan)
    }

    #[test]
    fn a_url_may_name_several_hosts() {
        let hosts = of("postgres://me:a%2Cb@one:1,two:2/shop?target_session_attrs=read-write&sslmode=disable").unwrap();
        assert_eq!((hosts.address().as_str(), hosts.wanted()), ("one:1,two:2/shop", Wanted::ReadWrite));
        assert!(hosts.all().iter().all(|host| host.get_username() == "me" && host.get_database() == Some("shop")));
    }

    #[test]
    fn a_build_without_tls_refuses_to_do_without() {
        let tls = cfg!(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"));
        assert_eq!(of("postgres://h/d?sslmode=require").is_ok(), tls);
        assert!(of("postgres://h/d?sslmode=prefer").is_ok());
    }

    #[test]
    fn a_server_elsewhere_is_verified_or_told() {
        let unverified = |url: &str| of(url).unwrap().unverified().join(" ");
        assert_eq!(unverified("postgres://db/d?sslmode=disable"), "db:5432");
        assert_eq!(
            unverified("postgres://localhost:1,10.0.0.7:2/d?sslmode=require"),
            "10.0.0.7:2",
            "not whose key it is"
        );
        for fine in
            ["postgres://db/d?sslmode=verify-full", "postgres://127.0.0.1/d?sslmode=disable", "postgres:///d?host=/run"]
        {
            assert_eq!(unverified(fine), "", "{fine}");
        }
    }

    #[test]
    fn the_name_of_the_program_is_the_urls() {
        let name = |url: &str| {
            let options = named(of(url).unwrap().current().clone());
            options.get_application_name().map(ToOwned::to_owned)
        };
        assert_eq!(name("postgres://h/d?application_name=till").as_deref(), Some("till"));
        assert_eq!(name("postgres://h/d").as_deref(), Some(NAME));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for url in
            ["postgres://a,,b/d", "postgres://a,b/d?target_session_attrs=standby", "postgres://a:x/d", "nonsense"]
        {
            let Err(Error::Setup(text)) = of(url) else { panic!("{url} was accepted") };
            assert!(text.contains("the database URL is invalid"), "{text}");
        }
    }
}
