//! The proxy in front of PostgreSQL.

use ichido_test_servers::Postgres;
use ichido_test_servers::proxy::Proxy;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Result};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::bench::{Database, Raw, effects, socket};
use super::cases::cases;

type Bench = super::bench::Bench<OnPostgres>;

struct OnPostgres;

impl Database for OnPostgres {
    type Client = PgConnection;
    type Raw = Bytes;

    fn fresh() -> (String, Proxy) {
        let server = Postgres::shared();
        let database = server.fresh_database();
        server.psql(&database, "create table effect (n int)");
        (database, Proxy::start(server.address()))
    }

    effects!(PgConnection);

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

cases!(OnPostgres, Postgres, Proxy::start);

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

/// A client that speaks the protocol byte by byte.
struct Bytes(TcpStream);

impl Raw<OnPostgres> for Bytes {
    const DONE: &'static [u8] = b"CZCZ";

    async fn start(bench: &Bench, piece: usize) -> Self {
        let mut client = Self(socket(bench).await);
        for encryption in [80_877_103_u32, 80_877_104] {
            client.send(&packet(&encryption.to_be_bytes()), piece).await;
            let answer = client.0.read_u8().await;
            assert_eq!(answer.expect("an answer"), b'N');
        }
        let database = bench.name();
        let start = format!("\0\x03\0\0user\0postgres\0database\0{database}\0\0");
        client.send(&packet(start.as_bytes()), piece).await;
        while client.answer().await.expect("an answer") != b'Z' {}
        client
    }

    fn socket(&mut self) -> &mut TcpStream {
        &mut self.0
    }

    fn query(statement: &str) -> Vec<u8> {
        let body = [statement.as_bytes(), &[0]].concat();
        [&b"Q"[..], &packet(&body)].concat()
    }

    async fn answer(&mut self) -> std::io::Result<u8> {
        let kind = self.0.read_u8().await?;
        let length = self.0.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        self.0.read_exact(&mut body).await?;
        Ok(kind)
    }
}

fn packet(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short packet");
    [&length.to_be_bytes(), body].concat()
}
