//! The proxy does to a connection what it says, and the database shows it:
//! the effect is there or it is not, as it must be, a hundred times each.

use ichido_conformance::proxy::{Cut, Proxy};
use ichido_conformance::servers::Postgres;
use sqlx::{Connection as _, PgConnection, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const TIMES: u32 = 100;

#[tokio::test]
async fn cut_before_commit_nothing_is_committed() {
    let mut bench = Bench::new().await;
    bench.proxy.cut_commits(Cut::BeforeCommit, 1, TIMES);
    for _ in 0..TIMES {
        insert(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, 0);
    }
    bench.proxy.all_cut().await;
    assert_eq!(bench.proxy.cuts(), TIMES);
    insert(&bench.url).await.expect("no more cuts");
    assert_eq!(bench.effects().await, 1);
}

#[tokio::test]
async fn cut_after_commit_everything_is_committed_when_the_client_sees_the_error() {
    let mut bench = Bench::new().await;
    bench.proxy.cut_commits(Cut::AfterCommit, 1, TIMES);
    for round in 1..=TIMES {
        insert(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, i64::from(round));
    }
    bench.proxy.all_cut().await;
    assert_eq!(bench.proxy.cuts(), TIMES);
    insert(&bench.url).await.expect("no more cuts");
}

#[tokio::test]
async fn a_prepared_commit_is_cut_when_it_runs_not_when_it_is_parsed() {
    let mut bench = Bench::new().await;
    bench.proxy.cut_commits(Cut::BeforeCommit, 1, TIMES);
    for _ in 0..TIMES {
        insert_prepared(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, 0);
    }
    bench.proxy.cut_commits(Cut::AfterCommit, 1, TIMES);
    for round in 1..=TIMES {
        insert_prepared(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, i64::from(round));
    }
    insert_prepared(&bench.url).await.expect("no more cuts");
}

#[tokio::test]
async fn every_third_commit_is_cut_on_one_connection_too() {
    let mut bench = Bench::new().await;
    bench.proxy.cut_commits(Cut::BeforeCommit, 3, 2);
    let mut client = bench.client().await;
    let mut errors = Vec::new();
    for round in 1..=10 {
        if insert_on(&mut client).await.is_err() {
            errors.push(round);
            client = bench.client().await;
        }
    }
    assert_eq!(errors, [3, 6]);
    assert_eq!(bench.effects().await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_many_clients_as_many_errors_as_cuts() {
    for (cut, effects) in [(Cut::BeforeCommit, 300), (Cut::AfterCommit, 400)] {
        let mut bench = Bench::new().await;
        bench.proxy.cut_commits(cut, 3, TIMES);
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let url = bench.url.clone();
            clients.spawn(async move {
                let mut errors = 0;
                for _ in 0..50 {
                    errors += u32::from(insert(&url).await.is_err());
                }
                errors
            });
        }
        let errors: u32 = clients.join_all().await.into_iter().sum();
        bench.proxy.all_cut().await;
        assert_eq!(errors, TIMES);
        assert_eq!(bench.effects().await, effects);
    }
}

#[tokio::test]
async fn severed_clients_see_an_error_and_may_come_back() {
    let mut bench = Bench::new().await;
    for round in 1..=TIMES {
        let (mut one, mut other) = (bench.client().await, bench.client().await);
        insert_on(&mut one).await.expect("connected");
        bench.proxy.sever_all();
        insert_on(&mut one).await.expect_err("severed");
        insert_on(&mut other).await.expect_err("severed, though idle");
        assert_eq!(bench.effects().await, i64::from(round));
    }
}

#[tokio::test]
async fn what_is_held_arrives_when_it_is_resumed() {
    let mut bench = Bench::new().await;
    let mut client = bench.client().await;
    for round in 1..=TIMES {
        bench.proxy.hold();
        let held = tokio::spawn(async move {
            insert_on(&mut client).await.expect("in the end");
            client
        });
        bench.proxy.holding().await;
        assert_eq!(bench.effects().await, i64::from(round - 1));
        assert!(!held.is_finished());
        bench.proxy.resume();
        client = held.await.expect("a client");
        assert_eq!(bench.effects().await, i64::from(round));
    }
}

#[tokio::test]
async fn a_held_client_can_be_severed_and_a_new_one_is_held() {
    let bench = Bench::new().await;
    for _ in 0..TIMES {
        let mut client = bench.client().await;
        bench.proxy.hold();
        let held = tokio::spawn(async move { insert_on(&mut client).await });
        bench.proxy.holding().await;
        bench.proxy.sever_all();
        held.await.expect("no panic").expect_err("severed");
        let url = bench.url.clone();
        let new = tokio::spawn(async move { PgConnection::connect(&url).await });
        bench.proxy.holding().await;
        assert!(!new.is_finished());
        bench.proxy.resume();
        new.await.expect("no panic").expect("connected in the end");
    }
}

#[tokio::test]
async fn new_clients_are_refused_and_old_ones_stay() {
    let bench = Bench::new().await;
    let mut old = bench.client().await;
    for _ in 0..TIMES {
        bench.proxy.refuse(true);
        let refused = PgConnection::connect(&bench.url).await;
        refused.expect_err("refused");
        insert_on(&mut old).await.expect("still connected");
        bench.proxy.refuse(false);
        bench.client().await.close().await.expect("no longer refused");
    }
}

#[tokio::test]
async fn frames_may_come_in_any_pieces() {
    let mut bench = Bench::new().await;
    let script = ["BEGIN", "insert into effect values (1)", " \n commit"];
    let script = script.map(query).concat();
    for piece in [1, 2, 3, 7, script.len()] {
        for (cut, effects) in [(Cut::BeforeCommit, 0), (Cut::AfterCommit, 1)] {
            let before = bench.effects().await;
            bench.proxy.cut_commits(cut, 1, 1);
            let mut client = Raw::start(&bench, piece).await;
            client.send(&script, piece).await;
            let answers = client.answers_to_the_end().await;
            bench.proxy.all_cut().await;
            assert_eq!(bench.effects().await, before + effects);
            match cut {
                Cut::BeforeCommit => assert!("CZCZ".starts_with(&answers), "{answers}"),
                Cut::AfterCommit => assert_eq!(answers, "CZCZ"),
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_asks_for_encryption_is_understood() {
    let mut bench = Bench::new().await;
    let preferred = bench.url.replace("sslmode=disable", "sslmode=prefer");
    let server = Postgres::shared();
    assert_eq!(server.psql(&preferred, "select 1"), "1");
    let commit = "begin; insert into effect values (1)";
    server.psql(&preferred, &format!("{commit}; commit"));
    assert_eq!(bench.effects().await, 1);
}

#[tokio::test]
async fn a_killed_server_is_an_error_and_a_restarted_one_is_reached() {
    let server = Postgres::start(&[]);
    let proxy = Proxy::start(server.address());
    let url = proxy.url(&server.fresh_database());
    for end in [Postgres::kill, Postgres::stop] {
        let mut client = PgConnection::connect(&url).await.expect("a client");
        end(&server);
        client.ping().await.expect_err("no server");
        let refused = PgConnection::connect(&url).await;
        refused.expect_err("no server");
        server.start_again();
        let client = PgConnection::connect(&url).await;
        client.expect("a server again");
    }
}

#[tokio::test]
async fn a_dropped_proxy_has_closed_its_connections() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let url = bench.url.clone();
    drop(bench);
    client.ping().await.expect_err("no proxy");
    let refused = PgConnection::connect(&url).await;
    refused.expect_err("no proxy");
}

/// A database with a table for effects, watched past the proxy.
struct Bench {
    proxy: Proxy,
    url: String,
    observer: PgConnection,
}

impl Bench {
    async fn new() -> Self {
        let server = Postgres::shared();
        let database = server.fresh_database();
        server.psql(&database, "create table effect (n int)");
        let proxy = Proxy::start(server.address());
        let observer = PgConnection::connect(&database).await;
        Self { url: proxy.url(&database), proxy, observer: observer.expect("an observer") }
    }

    async fn client(&self) -> PgConnection {
        let client = PgConnection::connect(&self.url).await;
        client.expect("a client")
    }

    async fn effects(&mut self) -> i64 {
        let count = sqlx::query_scalar("select count(*) from effect");
        let count = count.fetch_one(&mut self.observer).await;
        count.expect("a count")
    }
}

async fn insert(url: &str) -> Result<()> {
    insert_on(&mut PgConnection::connect(url).await?).await
}

async fn insert_on(client: &mut PgConnection) -> Result<()> {
    let mut transaction = client.begin().await?;
    let insert = sqlx::query("insert into effect values (1)");
    insert.execute(&mut *transaction).await?;
    transaction.commit().await
}

async fn insert_prepared(url: &str) -> Result<()> {
    let mut client = PgConnection::connect(url).await?;
    for statement in ["begin", "insert into effect values (1)", "commit"] {
        sqlx::query(statement).execute(&mut client).await?;
    }
    Ok(())
}

/// A client that speaks the protocol byte by byte.
struct Raw(TcpStream);

impl Raw {
    async fn start(bench: &Bench, piece: usize) -> Self {
        let socket = TcpStream::connect(bench.proxy.address()).await;
        let mut client = Self(socket.expect("a connection"));
        client.0.set_nodelay(true).expect("a socket option");
        for encryption in [80_877_103_u32, 80_877_104] {
            client.send(&packet(&encryption.to_be_bytes()), piece).await;
            let answer = client.0.read_u8().await;
            assert_eq!(answer.expect("an answer"), b'N');
        }
        let database = bench.url.rsplit('/').next().and_then(|name| name.split('?').next());
        let database = database.expect("a database");
        let start = format!("\0\x03\0\0user\0postgres\0database\0{database}\0\0");
        client.send(&packet(start.as_bytes()), piece).await;
        while client.answer().await.expect("an answer") != 'Z' {}
        client
    }

    async fn send(&mut self, bytes: &[u8], piece: usize) {
        for piece in bytes.chunks(piece) {
            // The proxy may have cut the connection before the last piece.
            drop(self.0.write_all(piece).await);
        }
    }

    async fn answer(&mut self) -> std::io::Result<char> {
        let kind = self.0.read_u8().await?;
        let length = self.0.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        self.0.read_exact(&mut body).await?;
        Ok(char::from(kind))
    }

    async fn answers_to_the_end(&mut self) -> String {
        let mut kinds = String::new();
        while let Ok(kind) = self.answer().await {
            kinds.push(kind);
        }
        kinds
    }
}

fn packet(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short packet");
    [&length.to_be_bytes(), body].concat()
}

fn query(text: &str) -> Vec<u8> {
    let body = [text.as_bytes(), &[0]].concat();
    [&b"Q"[..], &packet(&body)].concat()
}
