//! PostgreSQL keeps what the servers promise.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::panic::catch_unwind;
use std::path::Path;
use std::{fs, io};

use ichido_test_servers::Postgres;
use sqlx::{Connection as _, PgConnection};

use super::test_process::{TestProcess, assert_gone, play};

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

#[test]
fn a_server_that_does_not_start_says_why() {
    let start = || Postgres::start(&[("max_connections", "many")]);
    let panic = catch_unwind(start).expect_err("a setting that is none");
    let words = panic.downcast_ref::<String>().expect("a message");
    assert!(words.starts_with("PostgreSQL did not start"), "{words}");
    assert!(words.contains("invalid value for parameter"), "{words}");
}

#[test]
fn a_stopped_server_refuses_and_comes_back_with_its_data() {
    let server = Postgres::start(&[]);
    let database = server.fresh_database();
    server.psql(&database, "create table t (n int)");
    for round in 1..=3 {
        server.psql(&database, "insert into t values (1)");
        server.stop();
        let refused = TcpStream::connect(server.address()).expect_err("stopped");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        server.start_again();
        let rows = server.psql(&database, "select count(*) from t");
        assert_eq!(rows, round.to_string());
    }
}

#[test]
#[should_panic(expected = "could not create any TCP/IP sockets")]
fn a_server_whose_port_was_taken_meanwhile_says_so() {
    let server = Postgres::start(&[]);
    server.stop();
    let _taken = TcpListener::bind(server.address()).expect("a free port");
    server.start_again();
}

#[tokio::test]
async fn a_killed_server_keeps_what_was_committed_and_nothing_else() {
    let server = Postgres::start(&[]);
    let database = server.fresh_database();
    server.psql(&database, "create table t (n int)");
    for round in 1..=3 {
        server.psql(&database, "insert into t values (1)");
        let mut client = PgConnection::connect(&database).await.expect("a client");
        let mut open = client.begin().await.expect("a transaction");
        let insert = sqlx::query("insert into t values (2)");
        insert.execute(&mut *open).await.expect("an open row");
        server.kill();
        open.commit().await.expect_err("killed");
        server.start_again();
        let rows = server.psql(&database, "select count(*), sum(n) from t");
        assert_eq!(rows, format!("{round}|{round}"));
    }
}

#[test]
fn a_dropped_server_is_gone() {
    let server = Postgres::start(&[]);
    let (address, folder) = (server.address(), server.folder().to_owned());
    let pid = process_of(&folder);
    drop(server);
    assert_gone(pid, &folder);
    TcpStream::connect(address).expect_err("dropped");
}

#[test]
fn a_server_killed_and_not_started_again_leaves_no_folder() {
    let server = Postgres::start(&[]);
    let folder = server.folder().to_owned();
    let pid = process_of(&folder);
    server.kill();
    drop(server);
    assert_gone(pid, &folder);
}

#[test]
fn the_server_ends_when_the_test_process_ends() {
    let child = TestProcess::of("servers::postgres::child", "ends");
    assert!(child.end().success());
}

#[test]
fn the_server_ends_when_the_test_process_fails() {
    let child = TestProcess::of("servers::postgres::child", "fails");
    assert_eq!(child.end().code(), Some(101));
}

#[test]
fn the_server_ends_when_the_test_process_is_killed() {
    let mut child = TestProcess::of("servers::postgres::child", "is killed");
    child.kill();
    assert_eq!(child.end().signal(), Some(9));
}

/// Not a test of its own: what the processes of the three tests above run.
#[test]
#[ignore = "started by the tests above"]
fn child() {
    play(|| {
        let folder = Postgres::shared().folder();
        (process_of(folder), folder.to_owned())
    });
}

fn process_of(folder: &Path) -> u32 {
    let lock = fs::read_to_string(folder.join("data/postmaster.pid")).expect("a lock file");
    let pid = lock.lines().next().expect("a line");
    pid.parse().expect("a process id")
}
