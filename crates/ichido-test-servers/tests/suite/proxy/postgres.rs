//! The proxy in front of PostgreSQL.

use ichido_test_servers::Postgres;
use ichido_test_servers::proxy::{Cut, Proxy};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::bench::Database;
use super::cases::cases;

type Bench = super::bench::Bench<OnPostgres>;

struct OnPostgres;

impl Database for OnPostgres {
    type Client = PgConnection;

    fn fresh() -> (String, Proxy) {
        let server = Postgres::shared();
        let database = server.fresh_database();
        server.psql(&database, "create table effect (n int)");
        (database, Proxy::start(server.address()))
    }

    async fn insert(client: &mut PgConnection) -> Result<()> {
        let mut transaction = client.begin().await?;
        let insert = sqlx::query("insert into effect values (1)");
        insert.execute(&mut *transaction).await?;
        transaction.commit().await
    }

    async fn insert_prepared(client: &mut PgConnection) -> Result<()> {
        for statement in ["begin", "insert into effect values (1)", "commit"] {
            sqlx::query(statement).execute(&mut *client).await?;
        }
        Ok(())
    }

    async fn effects(client: &mut PgConnection) -> Result<i64> {
        sqlx::query_scalar("select count(*) from effect").fetch_one(client).await
    }

    async fn sessions(client: &mut PgConnection) -> Result<i64> {
        let sessions = "select count(*) from pg_stat_activity where datname = current_database()";
        sqlx::query_scalar(sessions).fetch_one(client).await
    }

    async fn end_others(client: &mut PgConnection) -> Result<()> {
        let others = "datname = current_database() and pid <> pg_backend_pid()";
        let end = format!("select pg_terminate_backend(pid) from pg_stat_activity where {others}");
        sqlx::query(AssertSqlSafe(end)).execute(client).await.map(drop)
    }
}

cases!(OnPostgres);

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
                _ => assert_eq!(answers, "CZCZ"),
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
        let database = bench.name();
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
