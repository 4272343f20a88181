//! The servers that a URL names, as sqlx knows them, and whether one of them is fit; `ichido_sql::Hosts` says which is next.

use std::io;

use ichido::{Error, error::Result, store::is_loopback};
use ichido_sql::{Hosts, Plan, Wanted, no_tls};
use sqlx::{
    MySqlConnection, Row,
    mysql::{MySqlConnectOptions, MySqlSslMode},
};

/// The servers that the builder was told.
pub(crate) fn hosts(plan: &mut Plan<MySqlConnectOptions>) -> Result<Hosts<MySqlConnectOptions>> {
    let hosts = plan.hosts(|url| Hosts::of(&url.replacen("mariadb://", "mysql://", 1), options, invalid))?;
    refuse_without_database(hosts.current())?;
    refuse_without_tls(hosts.current())?;
    Ok(hosts)
}

fn options(url: &str) -> Result<MySqlConnectOptions> {
    url.parse().map_err(|error: sqlx::Error| invalid(&error.to_string()))
}

/// sqlx would find out when it connects, again and again.
fn refuse_without_tls(options: &MySqlConnectOptions) -> Result<()> {
    use MySqlSslMode::{Required, VerifyCa, VerifyIdentity};
    let tls = cfg!(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"));
    let asks = matches!(options.get_ssl_mode(), Required | VerifyCa | VerifyIdentity);
    if asks && !tls { Err(no_tls("ssl-mode")) } else { Ok(()) }
}

/// ichido's own tables and yours are in the connection's database.
fn refuse_without_database(options: &MySqlConnectOptions) -> Result<()> {
    if options.get_database().is_none() {
        let text = "the database URL names no database; write one like mysql://user:password@host:3306/name";
        return Err(Error::Setup(text.into()));
    }
    Ok(())
}

fn invalid(why: &str) -> Error {
    Error::Setup(format!("the database URL is invalid ({why}); write one like mysql://user:password@host:3306/name"))
}

/// Host and port.
pub(crate) fn host(options: &MySqlConnectOptions) -> String {
    format!("{}:{}", options.get_host(), options.get_port())
}

/// Where the database is, without the password.
pub(crate) fn address(hosts: &Hosts<MySqlConnectOptions>) -> String {
    let all: Vec<_> = hosts.all().iter().map(host).collect();
    format!("{}/{}", all.join(","), hosts.current().get_database().unwrap_or_default())
}

/// Those that are not on this host, and whose certificate nobody verifies.
pub(crate) fn unverified(hosts: &Hosts<MySqlConnectOptions>) -> Vec<String> {
    let open = |options: &&MySqlConnectOptions| {
        let verified = matches!(options.get_ssl_mode(), MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity);
        !verified && options.get_socket().is_none() && !is_loopback(options.get_host())
    };
    hosts.all().iter().filter(open).map(host).collect()
}

/// Is this server what the URL asks for? A replica is read-only here; nothing else tells it apart.
pub(crate) async fn check(connection: &mut MySqlConnection, wanted: Wanted) -> sqlx::Result<()> {
    if wanted == Wanted::Any {
        return Ok(());
    }
    let question = "select cast(@@global.read_only or @@global.innodb_read_only as signed)";
    let answer = sqlx::raw_sql(question).fetch_one(connection).await?;
    if answer.try_get::<i64, _>(0)? == 0 { Ok(()) } else { Err(io::Error::other("the server is read-only").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Hosts<MySqlConnectOptions>> {
        let mut plan = Plan::new(2, 3);
        plan.place = Some(ichido_sql::Place::Url(url.to_owned()));
        hosts(&mut plan)
    }

    #[test]
    fn a_url_may_name_several_hosts() {
        let two = of("mariadb://me:a%2Cb@one:1,two/shop?target_session_attrs=primary&ssl-mode=DISABLED").unwrap();
        assert_eq!((address(&two).as_str(), two.wanted()), ("one:1,two:3306/shop", Wanted::Primary));
        assert!(two.all().iter().all(|host| host.get_username() == "me"));
    }

    #[test]
    fn a_build_without_tls_refuses_to_do_without() {
        let tls = cfg!(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"));
        assert_eq!(of("mysql://h/d?ssl-mode=VERIFY_CA").is_ok(), tls);
        assert!(of("mysql://h/d?ssl-mode=PREFERRED").is_ok());
    }

    #[test]
    fn a_server_elsewhere_is_verified_or_told() {
        let told = |url: &str| unverified(&of(url).unwrap()).join(" ");
        assert_eq!(told("mysql://db/d"), "db:3306");
        assert_eq!(told("mysql://localhost:1,10.0.0.7:2/d?ssl-mode=REQUIRED"), "10.0.0.7:2", "not whose key it is");
        for fine in ["mysql://db/d?ssl-mode=VERIFY_IDENTITY", "mysql://127.0.0.1/d", "mysql://db/d?ssl-mode=VERIFY_CA"]
        {
            assert_eq!(told(fine), "", "{fine}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for url in ["mysql://a,,b/d", "mysql://a,b/d?target_session_attrs=standby", "mysql://a:x/d", "mysql://a", "no"]
        {
            let Err(Error::Setup(text)) = of(url) else { panic!("{url} was accepted") };
            assert!(text.contains("the database URL"), "{text}");
        }
    }
}
