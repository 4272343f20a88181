//! PostgreSQL keeps what the servers promise.

use std::fs;
use std::path::Path;

use ichido_test_servers::Postgres;
use sqlx::{Connection as _, PgConnection};

use super::cases::cases;

#[test]
fn tests_share_one_server_and_each_has_its_database() {
    let server = Postgres::shared();
    assert_eq!(server.address(), Postgres::shared().address());
    let (one, other) = (server.fresh_database(), server.fresh_database());
    assert_ne!(one, other);
    server.psql(&one, "create table t (n int, s text)");
    server.psql(&one, "insert into t values (1, 'a'), (2, null)");
    assert_eq!(server.psql(&one, "select * from t order by n"), "1|a\n2|");
    assert_eq!(server.psql(&other, "select to_regclass('t') is null"), "t");
}

#[test]
fn a_lent_database_is_dropped_when_another_is_created() {
    let server = Postgres::shared();
    let database = server.fresh_database();
    let (_, name) = database.rsplit_once('/').expect("a name");
    let name = name.split('?').next().expect("a name");
    let there = format!("select count(*) from pg_database where datname = '{name}'");
    let lent = server.lend(&database);
    let other = server.fresh_database();
    assert_eq!(server.psql(&other, &there), "1");
    drop(lent);
    // Another test may be about to drop it.
    let is_gone = (0..100).any(|_| {
        let _ = server.fresh_database();
        server.psql(&other, &there) == "0"
    });
    assert!(is_gone);
}

#[test]
#[should_panic(expected = "relation \"missing\" does not exist")]
fn failing_sql_shows_the_servers_words() {
    let server = Postgres::shared();
    server.psql(&server.fresh_database(), "select * from missing");
}

#[test]
fn a_server_of_ones_own_has_its_own_settings() {
    let server = Postgres::start(&[("fsync", "on"), ("application_name", "it's")]);
    assert_ne!(server.address(), Postgres::shared().address());
    let database = server.fresh_database();
    assert_eq!(server.psql(&database, "show fsync"), "on");
    assert_eq!(server.psql(&database, "show max_connections"), "200");
    let conf = fs::read_to_string(server.folder().join("data/postgresql.conf"));
    assert!(conf.expect("its settings").contains("'it''s'"));
}

cases!(
    Postgres,
    psql,
    PgConnection,
    ("max_connections", "many"),
    "invalid value for parameter",
    "could not create any TCP/IP sockets",
    "servers::postgres::child"
);

fn process_of(folder: &Path) -> u32 {
    let lock = fs::read_to_string(folder.join("data/postmaster.pid")).expect("a lock file");
    let pid = lock.lines().next().expect("a line");
    pid.parse().expect("a process id")
}
