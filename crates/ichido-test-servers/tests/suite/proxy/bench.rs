//! What the cases need of a database, and the bench on which they try it.

use std::fmt::Debug;

use ichido_test_servers::proxy::Proxy;
use ichido_testkit::eventually;
use sqlx::{Connection, Result};
use tokio::{
    io::{self, AsyncWriteExt as _},
    net::TcpStream,
};

/// How often each fault is tried.
pub(crate) fn times() -> u32 {
    ichido_testkit::size(25, 100)
}

/// A kind of database, with a table `effect` in it.
pub(crate) trait Database: Sized + 'static {
    type Client: Connection + Debug;
    type Raw: Raw<Self>;

    /// The URL of a fresh one, and a proxy in front of its server.
    fn fresh() -> (String, Proxy);

    /// Inserts an effect, in a transaction.
    fn insert(client: &mut Self::Client) -> impl Future<Output = Result<()>> + Send;

    /// The same with prepared statements only.
    fn insert_prepared(client: &mut Self::Client) -> impl Future<Output = Result<()>> + Send;

    /// How many effects there are.
    fn effects(client: &mut Self::Client) -> impl Future<Output = Result<i64>> + Send;

    /// How many sessions the server has on this database, this one included.
    fn sessions(client: &mut Self::Client) -> impl Future<Output = Result<i64>> + Send;

    /// Ends all other sessions on this database.
    fn end_others(client: &mut Self::Client) -> impl Future<Output = Result<()>> + Send;
}

/// What needs no dialect, for a [`Database`] with such a client.
macro_rules! effects {
    ($client:ty) => {
        async fn insert(client: &mut $client) -> sqlx::Result<()> {
            let mut transaction = client.begin().await?;
            sqlx::query("insert into effect values (1)").execute(&mut *transaction).await?;
            transaction.commit().await
        }

        async fn insert_prepared(client: &mut $client) -> sqlx::Result<()> {
            for statement in ["begin", "insert into effect values (1)", "commit"] {
                sqlx::query(statement).execute(&mut *client).await?;
            }
            Ok(())
        }

        async fn effects(client: &mut $client) -> sqlx::Result<i64> {
            sqlx::query_scalar("select count(*) from effect").fetch_one(client).await
        }
    };
}
pub(crate) use effects;

/// A client that speaks the protocol byte by byte.
pub(crate) trait Raw<D: Database>: Sized {
    /// How the server answers two statements that it has done.
    const DONE: &'static [u8];

    /// Logs in, in pieces of so many bytes.
    async fn start(bench: &Bench<D>, piece: usize) -> Self;

    fn socket(&mut self) -> &mut TcpStream;

    /// The frame of a statement.
    fn query(statement: &str) -> Vec<u8>;

    /// The kind of the next answer.
    async fn answer(&mut self) -> io::Result<u8>;

    async fn send(&mut self, bytes: &[u8], piece: usize) {
        for piece in bytes.chunks(piece) {
            // The proxy may have cut the connection before the last piece.
            drop(self.socket().write_all(piece).await);
        }
    }

    async fn answers_to_the_end(&mut self) -> Vec<u8> {
        let mut kinds = Vec::new();
        while let Ok(kind) = self.answer().await {
            kinds.push(kind);
        }
        kinds
    }
}

/// A connection to the proxy without any client.
pub(crate) async fn socket<D: Database>(bench: &Bench<D>) -> TcpStream {
    let socket = TcpStream::connect(bench.proxy.address()).await.expect("a connection");
    socket.set_nodelay(true).expect("a socket option");
    socket
}

/// A database, watched past the proxy.
pub(crate) struct Bench<D: Database> {
    pub(crate) proxy: Proxy,
    pub(crate) url: String,
    observer: D::Client,
}

impl<D: Database> Bench<D> {
    pub(crate) async fn new() -> Self {
        let (database, proxy) = D::fresh();
        let observer = D::Client::connect(&database).await;
        Self { url: proxy.url(&database), proxy, observer: observer.expect("an observer") }
    }

    pub(crate) async fn client(&self) -> D::Client {
        let client = D::Client::connect(&self.url).await;
        client.expect("a client")
    }

    pub(crate) async fn effects(&mut self) -> i64 {
        let count = D::effects(&mut self.observer).await;
        count.expect("a count")
    }

    /// How many sessions the server has for the clients.
    pub(crate) async fn sessions(&mut self) -> i64 {
        let count = D::sessions(&mut self.observer).await;
        count.expect("a count") - 1
    }

    /// Ends them.
    pub(crate) async fn end_other_sessions(&mut self) {
        D::end_others(&mut self.observer).await.expect("ended");
        self.sessions_settle_at(0).await;
    }

    /// Waits until there are so many.
    pub(crate) async fn sessions_settle_at(&mut self, number: i64) {
        let look = async || match self.sessions().await {
            seen if seen == number => Ok(()),
            seen => Err(seen),
        };
        eventually(format!("{number} sessions"), look).await;
    }

    /// The name of the database.
    pub(crate) fn name(&self) -> &str {
        let name = self.url.rsplit('/').next().and_then(|name| name.split('?').next());
        name.expect("a database")
    }
}

/// Connects, inserts an effect, hangs up.
pub(crate) async fn insert<D: Database>(url: &str) -> Result<()> {
    D::insert(&mut D::Client::connect(url).await?).await
}

/// The same with prepared statements only.
pub(crate) async fn insert_prepared<D: Database>(url: &str) -> Result<()> {
    D::insert_prepared(&mut D::Client::connect(url).await?).await
}
