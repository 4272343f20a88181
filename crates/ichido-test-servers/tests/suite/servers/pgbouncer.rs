//! pgbouncer keeps what the servers promise.

use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::panic::catch_unwind;

use ichido_test_servers::{PgBouncer, Postgres};

use super::test_process::{TestProcess, assert_gone, play};

#[test]
fn clients_share_connections_to_the_server() {
    let (server, pooler) = (Postgres::shared(), PgBouncer::shared());
    let database = server.fresh_database();
    let through = pooler.url("postgres", &database);
    let pid = |url: &str| server.psql(url, "select pg_backend_pid()");
    assert_eq!(pid(&through), pid(&through), "one after the other, on one connection");
    assert_ne!(pid(&database), pid(&database));
    server.psql(&through, "create table t (n int)");
    assert_eq!(server.psql(&database, "select to_regclass('t')"), "t");
}

#[test]
#[should_panic(expected = "in a read-only transaction")]
fn the_worker_writes_only_in_a_transaction_that_says_so() {
    let (server, pooler) = (Postgres::shared(), PgBouncer::shared());
    let database = pooler.url("worker", &server.fresh_database());
    server.psql(&database, "begin read write; create table t (n int); commit");
    server.psql(&database, "insert into t values (1)");
}

#[test]
fn a_pooler_that_does_not_start_says_why() {
    let start = || PgBouncer::start(Postgres::shared(), "", &[("pool_mode", "sometimes")]);
    let panic = catch_unwind(start).expect_err("a setting that is none");
    let words = panic.downcast_ref::<String>().expect("a message");
    assert!(words.starts_with("pgbouncer did not start") && words.contains("pool_mode"), "{words}");
}

#[test]
fn a_killed_pooler_refuses_and_comes_back() {
    let server = Postgres::shared();
    let pooler = PgBouncer::start(server, "", &[]);
    let database = pooler.url("postgres", &server.fresh_database());
    assert_eq!(server.psql(&database, "select 1"), "1");
    pooler.kill();
    TcpStream::connect(pooler.address()).expect_err("killed");
    pooler.start_again();
    assert_eq!(server.psql(&database, "select 1"), "1");
}

#[test]
fn a_dropped_pooler_is_gone() {
    let pooler = PgBouncer::start(Postgres::shared(), "", &[]);
    let (address, pid, folder) = (pooler.address(), pooler.pid(), pooler.folder().to_owned());
    drop(pooler);
    assert_gone(pid, &folder);
    TcpStream::connect(address).expect_err("dropped");
}

#[test]
fn the_pooler_ends_when_the_test_process_is_killed() {
    let mut child = TestProcess::of("servers::pgbouncer::child", "is killed");
    child.kill();
    assert_eq!(child.end().signal(), Some(9));
}

/// Not a test of its own: what the process of the test above runs.
#[test]
#[ignore = "started by the test above"]
fn child() {
    play(|| (PgBouncer::shared().pid(), PgBouncer::shared().folder().to_owned()));
}
