//! MariaDB keeps what the servers promise.

use std::fs;
use std::path::Path;

use ichido_test_servers::MariaDb;
use sqlx::{Connection as _, MySqlConnection};

use super::cases::cases;

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

cases!(
    MariaDb,
    client,
    MySqlConnection,
    ("no-such-setting", "1"),
    "unknown variable 'no-such-setting=1'",
    "Bind on TCP/IP port. Got error: 98",
    "servers::mariadb::child"
);

fn process_of(folder: &Path) -> u32 {
    let pid = fs::read_to_string(folder.join("pid")).expect("a file with its process id");
    pid.trim().parse().expect("a process id")
}
