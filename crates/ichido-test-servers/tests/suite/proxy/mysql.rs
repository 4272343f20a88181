//! The proxy in front of MariaDB.

use std::process::Command;

use ichido_test_servers::MariaDb;
use ichido_test_servers::proxy::{Cut, Proxy};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, Result};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::bench::{Database, Raw, effects, socket, times};
use super::cases::cases;

type Bench = super::bench::Bench<OnMariaDb>;

struct OnMariaDb;

impl Database for OnMariaDb {
    type Client = MySqlConnection;
    type Raw = Bytes;

    fn fresh() -> (String, Proxy) {
        let server = MariaDb::shared();
        let database = server.fresh_database();
        server.client(&database, "create table effect (n int)");
        (database, Proxy::start_mysql(server.address()))
    }

    effects!(MySqlConnection);

    async fn sessions(client: &mut MySqlConnection) -> Result<i64> {
        let sessions = "select count(*) from information_schema.processlist where db = database()";
        sqlx::query_scalar(sessions).fetch_one(client).await
    }

    async fn end_others(client: &mut MySqlConnection) -> Result<()> {
        let others = "db = database() and id <> connection_id()";
        let others = format!("select id from information_schema.processlist where {others}");
        for id in sqlx::query_scalar::<_, i64>(AssertSqlSafe(others)).fetch_all(&mut *client).await? {
            // One that has just ended by itself is as good.
            drop(client.execute(AssertSqlSafe(format!("kill {id}"))).await);
        }
        Ok(())
    }
}

cases!(OnMariaDb, MariaDb, Proxy::start_mysql);

#[tokio::test]
async fn a_commit_is_cut_after_an_answer_of_any_length() {
    let mut bench = Bench::new().await;
    let mut effects = 0;
    for rows in 240..=280 {
        bench.proxy.cut_commits(Cut::AfterCommit, 1, 1);
        let mut client = bench.client().await;
        let mut transaction = client.begin().await.expect("a transaction");
        let read = AssertSqlSafe(format!("select seq from seq_1_to_{rows}"));
        assert_eq!(transaction.fetch_all(sqlx::query(read)).await.expect("rows").len(), rows);
        transaction.execute("insert into effect values (1)").await.expect("an effect");
        transaction.commit().await.expect_err("cut");
        effects += 1;
        assert_eq!(bench.effects().await, effects);
    }
}

#[tokio::test]
async fn a_commit_is_cut_after_a_rollback_that_did_not_wait_for_all_rows() {
    let mut bench = Bench::new().await;
    for round in 1..=i64::from(times()) {
        bench.proxy.cut_commits(Cut::AfterCommit, 1, 1);
        let mut client = bench.client().await;
        let mut transaction = client.begin().await.expect("a transaction");
        transaction.execute("insert into effect values (1)").await.expect("an effect");
        let first = transaction.fetch_optional("select seq from seq_1_to_1000").await;
        assert!(first.expect("a row").is_some());
        drop(transaction);
        OnMariaDb::insert(&mut client).await.expect_err("cut");
        assert_eq!(bench.effects().await, round);
    }
}

#[tokio::test]
async fn a_command_of_several_frames_does_not_hide_the_commit_after_it() {
    let server = MariaDb::start(&[("max-allowed-packet", "64M")]);
    let proxy = Proxy::start_mysql(server.address());
    let database = server.fresh_database();
    server.client(&database, "create table effect (n int)");
    let url = proxy.url(&database);
    for (cut, effects) in [(Cut::BeforeCommit, "0"), (Cut::AfterCommit, "1")] {
        proxy.cut_commits(cut, 1, 1);
        let mut client = MySqlConnection::connect(&url).await.expect("a client");
        for length in [0xff_ffff - 20, 0x1ff_ffff] {
            let long = AssertSqlSafe(format!("do length('{}')", "x".repeat(length)));
            client.execute(long).await.expect("a long command");
        }
        OnMariaDb::insert(&mut client).await.expect_err("cut");
        assert_eq!(server.client(&database, "select count(*) from effect"), effects);
    }
}

#[tokio::test]
async fn a_client_that_asks_for_compression_is_understood() {
    let mut bench = Bench::new().await;
    let (host, port) = (bench.proxy.address().ip(), bench.proxy.address().port());
    for (cut, effects) in [(Cut::BeforeCommit, 0), (Cut::AfterCommit, 1)] {
        bench.proxy.cut_commits(cut, 1, 1);
        let client = Command::new("mariadb")
            .args(["--no-defaults", "--compress", "--skip-ssl", "--skip-reconnect", "-uichido", "-ponce"])
            .args([format!("-h{host}"), format!("-P{port}"), format!("-D{}", bench.name())])
            .args(["-e", "begin; insert into effect values (1); commit"])
            .output();
        assert!(!client.expect("a client").status.success(), "cut");
        bench.proxy.all_cut().await;
        assert_eq!(bench.effects().await, effects);
    }
}

const OK: u8 = 0;

/// A client that speaks the protocol byte by byte, logged in without a password.
struct Bytes(TcpStream);

impl Raw<OnMariaDb> for Bytes {
    const DONE: &'static [u8] = &[OK, OK];

    async fn start(bench: &Bench, piece: usize) -> Self {
        let nobody = "create user if not exists raw@'%' identified via mysql_native_password using ''";
        let server = MariaDb::shared();
        server.client(&server.fresh_database(), &format!("{nobody}; grant all on *.* to raw@'%'"));
        let mut client = Self(socket(bench).await);
        assert_eq!(client.answer().await.expect("a greeting"), 10);
        // Protocol 4.1, a database, a log-in with a plugin.
        let abilities = (1_u32 << 9 | 1 << 3 | 1 << 15 | 1 << 19).to_le_bytes();
        let start = [&abilities[..], &[0, 0, 0, 1, 45], &[0; 23]].concat();
        let log_in = format!("raw\0\0{}\0mysql_native_password\0", bench.name());
        client.send(&frame(1, &[&start, log_in.as_bytes()].concat()), piece).await;
        assert_eq!(client.answer().await.expect("an answer"), OK);
        client
    }

    fn socket(&mut self) -> &mut TcpStream {
        &mut self.0
    }

    fn query(statement: &str) -> Vec<u8> {
        frame(0, &[&[3], statement.as_bytes()].concat())
    }

    async fn answer(&mut self) -> std::io::Result<u8> {
        let header = self.0.read_u32_le().await?;
        let mut body = vec![0; header as usize & 0xff_ffff];
        self.0.read_exact(&mut body).await?;
        Ok(body[0])
    }
}

fn frame(sequence: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a short frame").to_le_bytes();
    [&length[..3], &[sequence], body].concat()
}
