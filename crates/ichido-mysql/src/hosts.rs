//! The servers that a URL names, as sqlx knows them, and whether one of them is fit; `ichido_sql::Hosts` says which is next.

use std::io;

use ichido::{Error, error::Result};
use ichido_sql::{Hosts, Wanted};
use sqlx::{MySqlConnection, Row, mysql::MySqlConnectOptions};

/// The servers of this URL.
pub(crate) fn hosts(url: &str) -> Result<Hosts<MySqlConnectOptions>> {
    Hosts::of(&url.replacen("mariadb://", "mysql://", 1), options, invalid)
}

fn options(url: &str) -> Result<MySqlConnectOptions> {
    let options: MySqlConnectOptions = url.parse().map_err(|error: sqlx::Error| invalid(&error.to_string()))?;
    if options.get_database().is_none() {
        let text = "the database URL names no database; write one like mysql://user:password@host:3306/name";
        return Err(Error::Setup(text.into()));
    }
    Ok(options)
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

    #[test]
    fn a_url_may_name_several_hosts() {
        let two = hosts("mariadb://me:a%2Cb@one:1,two/shop?target_session_attrs=primary&ssl-mode=DISABLED").unwrap();
        assert_eq!((address(&two).as_str(), two.wanted()), ("one:1,two:3306/shop", Wanted::Primary));
        assert!(two.all().iter().all(|host| host.get_username() == "me"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for url in ["mysql://a,,b/d", "mysql://a,b/d?target_session_attrs=standby", "mysql://a:x/d", "mysql://a", "no"]
        {
            let Err(Error::Setup(text)) = hosts(url) else { panic!("{url} was accepted") };
            assert!(text.contains("the database URL"), "{text}");
        }
    }
}
