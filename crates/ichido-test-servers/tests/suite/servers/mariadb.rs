//! MariaDB keeps what the servers promise.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::panic::catch_unwind;
use std::path::Path;
use std::{fs, io};

use ichido_test_servers::MariaDb;
use sqlx::{Connection as _, MySqlConnection};

use super::test_process::{TestProcess, assert_gone, play};

#[test]
fn tests_share_one_server_and_each_has_its_database() {
    let server = MariaDb::shared();
    assert_eq!(server.address(), MariaDb::shared().address());
    let (one, other) = (server.fresh_database(), server.fresh_database());
    assert_ne!(one, other);
    server.client(&one, "create table t (n int, s text)");
    server.client(&one, "insert into t values (1, 'a\tü 🦀'), (2, null)");
    assert_eq!(server.client(&one, "select * from t order by n"), "1|a\\tü 🦀\n2|NULL");
    assert_eq!(server.client(&other, "show tables"), "");
}

#[test]
#[should_panic(expected = "missing' doesn't exist")]
fn failing_sql_shows_the_servers_words() {
    let server = MariaDb::shared();
    server.client(&server.fresh_database(), "select * from missing");
}

#[test]
fn a_server_of_ones_own_has_its_own_settings() {
    let server = MariaDb::start(&[("innodb-flush-log-at-trx-commit", "1"), ("init-connect", "set @w = 'it''s'")]);
    assert_ne!(server.address(), MariaDb::shared().address());
    let database = server.fresh_database();
    let settings = "@@innodb_flush_log_at_trx_commit, @@max_connections, @@init_connect";
    assert_eq!(server.client(&database, &format!("select {settings}")), "1|200|set @w = 'it''s'");
}

#[tokio::test]
async fn everything_is_utf8_and_in_innodb() {
    let server = MariaDb::shared();
    let mut client = MySqlConnection::connect(&server.fresh_database()).await.expect("a log-in with the password");
    let words = sqlx::query_scalar("select concat_ws(' ', @@character_set_database, @@default_storage_engine)");
    let words: String = words.fetch_one(&mut client).await.expect("two words");
    assert_eq!(words, "utf8mb4 InnoDB");
}

#[tokio::test]
async fn nobody_logs_in_without_the_password() {
    let url = MariaDb::shared().fresh_database().replace(":once@", "@");
    let refused = MySqlConnection::connect(&url).await.expect_err("no password");
    assert!(refused.to_string().contains("Access denied"), "{refused}");
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let start = || MariaDb::start(&[("no-such-setting", "1")]);
    let panic = catch_unwind(start).expect_err("a setting that is none");
    let words = panic.downcast_ref::<String>().expect("a message");
    assert!(words.starts_with("MariaDB did not start"), "{words}");
    assert!(words.contains("unknown variable 'no-such-setting=1'"), "{words}");
}

#[test]
fn a_stopped_server_refuses_and_comes_back_with_its_data() {
    let server = MariaDb::start(&[]);
    let database = server.fresh_database();
    server.client(&database, "create table t (n int)");
    for round in 1..=3 {
        server.client(&database, "insert into t values (1)");
        server.stop();
        let refused = TcpStream::connect(server.address()).expect_err("stopped");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        server.start_again();
        let rows = server.client(&database, "select count(*) from t");
        assert_eq!(rows, round.to_string());
    }
}

#[test]
#[should_panic(expected = "Bind on TCP/IP port. Got error: 98")]
fn a_server_whose_port_was_taken_meanwhile_says_so() {
    let server = MariaDb::start(&[]);
    server.stop();
    let _taken = TcpListener::bind(server.address()).expect("a free port");
    server.start_again();
}

#[tokio::test]
async fn a_killed_server_keeps_what_was_committed_and_nothing_else() {
    let server = MariaDb::start(&[]);
    let database = server.fresh_database();
    server.client(&database, "create table t (n int)");
    for round in 1..=3 {
        server.client(&database, "insert into t values (1)");
        let mut client = MySqlConnection::connect(&database).await.expect("a client");
        let mut open = client.begin().await.expect("a transaction");
        let insert = sqlx::query("insert into t values (2)");
        insert.execute(&mut *open).await.expect("an open row");
        server.kill();
        open.commit().await.expect_err("killed");
        server.start_again();
        let rows = server.client(&database, "select count(*), sum(n) from t");
        assert_eq!(rows, format!("{round}|{round}"));
    }
}

#[test]
fn a_dropped_server_is_gone() {
    let server = MariaDb::start(&[]);
    let (address, folder) = (server.address(), server.folder().to_owned());
    let pid = process_of(&folder);
    drop(server);
    assert_gone(pid, &folder);
    TcpStream::connect(address).expect_err("dropped");
}

#[test]
fn a_server_killed_and_not_started_again_leaves_no_folder() {
    let server = MariaDb::start(&[]);
    let folder = server.folder().to_owned();
    let pid = process_of(&folder);
    server.kill();
    drop(server);
    assert_gone(pid, &folder);
}

#[test]
fn the_server_ends_when_the_test_process_ends() {
    let child = TestProcess::of("servers::mariadb::child", "ends");
    assert!(child.end().success());
}

#[test]
fn the_server_ends_when_the_test_process_fails() {
    let child = TestProcess::of("servers::mariadb::child", "fails");
    assert_eq!(child.end().code(), Some(101));
}

#[test]
fn the_server_ends_when_the_test_process_is_killed() {
    let mut child = TestProcess::of("servers::mariadb::child", "is killed");
    child.kill();
    assert_eq!(child.end().signal(), Some(9));
}

/// Not a test of its own: what the processes of the three tests above run.
#[test]
#[ignore = "started by the tests above"]
fn child() {
    play(|| {
        let folder = MariaDb::shared().folder();
        (process_of(folder), folder.to_owned())
    });
}

fn process_of(folder: &Path) -> u32 {
    let pid = fs::read_to_string(folder.join("pid")).expect("a file with its process id");
    pid.trim().parse().expect("a process id")
}
