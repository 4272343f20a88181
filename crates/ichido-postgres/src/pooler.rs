//! A pool of connections, and what is different when a transaction pooler such as pgbouncer stands between them and the
//! server. Then each transaction may be on another of the server's connections: no setting of a session holds, a statement
//! that was prepared is not there any more, and sqlx prepares and executes in two steps that a pooler may send to two
//! connections. So everything is a transaction there, and each says itself what it needs. `connect` has two of these pools.

use std::{sync::Arc, time::Duration};

use ichido::store::ProcessId;
use sqlx::{
    AssertSqlSafe, PgPool, Row, Transaction,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnectOptions, PgListener, PgPoolOptions, PgQueryResult, PgRow},
    query::Query,
};
use tokio::sync::OnceCell;

use crate::fault;

/// Nobody waits longer than this for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);

/// The server looks this soon, this often and so many times whether we are still there: within half a minute it notices
/// that a host is gone, and frees the rows of its transactions. A pooler does the same by settings of its own.
const KEEPALIVES: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];

/// A transaction of ichido's own, whatever the server has as its defaults; nobody waits longer for a row that somebody
/// else has locked.
pub(crate) const OWN: &str = "begin isolation level read committed read write; set local lock_timeout = '5s'";

/// A look at what is there.
pub(crate) const LOOK: &str = "begin isolation level read committed read only";

/// With BEGIN behind a pooler: the last user of the server's connection may have left statements under the names that ours will
/// get.
pub(crate) const FORGET: &str = "deallocate all";

/// What pgbouncer says to a startup parameter that it does not know.
const REFUSED: &str = "08P01";

/// What a statement of ichido's own is.
type Statement<'q> = Query<'q, sqlx::Postgres, PgArguments>;

/// How the server is reached, found out once for all pools of a store.
#[derive(Clone)]
pub(crate) struct Way {
    /// Asked for as a setting; who shares connections among clients does not pass it on.
    mark: Arc<str>,
    pooled: Arc<OnceCell<bool>>,
}

impl Default for Way {
    fn default() -> Self {
        Way { mark: ProcessId::random().to_string().into(), pooled: Arc::default() }
    }
}

/// A pool, connected at first use.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) size: u32,
    options: PgConnectOptions,
    settings: &'static [(&'static str, &'static str)],
    way: Way,
    pool: Arc<OnceCell<PgPool>>,
}

impl Connections {
    /// So many connections, with these settings if the server is reached directly.
    pub(crate) fn new(
        size: u32,
        options: PgConnectOptions,
        settings: &'static [(&'static str, &'static str)],
        way: Way,
    ) -> Self {
        Connections { size, options, settings, way, pool: Arc::default() }
    }

    async fn pool(&self) -> sqlx::Result<&PgPool> {
        match self.pool.get() {
            Some(pool) => Ok(pool),
            // In a box, as everything that is rare and large: whoever calls us is moved with it for each message.
            None => Box::pin(self.open()).await,
        }
    }

    async fn open(&self) -> sqlx::Result<&PgPool> {
        let opened = self.pool.get_or_try_init(|| async {
            let mark = [("ichido.direct", &*self.way.mark)];
            let settings = KEEPALIVES.iter().chain(self.settings).chain(&mark).copied();
            let direct = pool(self.size, self.options.clone().options(settings));
            // sqlx prepares under a name even what it does not keep; BEGIN makes the names free.
            let pooled = pool(self.size, self.options.clone().extra_float_digits(None).statement_cache_capacity(0));
            let found = self.way.pooled.get_or_try_init(|| is_pooled(&direct, &pooled, &self.way.mark)).await?;
            if !found {
                return Ok(direct);
            }
            direct.close().await;
            Ok(pooled)
        });
        opened.await
    }

    /// Whether a transaction pooler is on the way; false before anything was connected.
    pub(crate) fn is_pooled(&self) -> bool {
        self.way.pooled.get().is_some_and(|pooled| *pooled)
    }

    pub(crate) async fn acquire(&self) -> sqlx::Result<PoolConnection<sqlx::Postgres>> {
        self.pool().await?.acquire().await
    }

    /// Begins a transaction with these words, and comes to the end of that even if nobody waits for it any more: sqlx would
    /// leave the transaction open in the pool.
    pub(crate) async fn begin(&self, words: &str) -> sqlx::Result<Transaction<'static, sqlx::Postgres>> {
        let pool = self.pool().await?.clone();
        let mut words = words.to_owned();
        if self.is_pooled() {
            words.push_str("; ");
            words.push_str(FORGET);
        }
        let begin = async move {
            match pool.try_begin_with(AssertSqlSafe(words.clone())).await? {
                Some(begun) => Ok(begun),
                None => Box::pin(pool.begin_with(AssertSqlSafe(words))).await,
            }
        };
        tokio::spawn(begin).await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }

    /// Runs one statement that is a transaction by itself.
    pub(crate) async fn execute(&self, statement: Statement<'_>) -> sqlx::Result<PgQueryResult> {
        let pool = self.pool().await?;
        if !self.is_pooled() {
            return statement.execute(pool).await;
        }
        let mut tx = self.begin(OWN).await?;
        let done = statement.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(done)
    }

    /// The same, for its rows.
    pub(crate) async fn fetch_all(&self, statement: Statement<'_>) -> sqlx::Result<Vec<PgRow>> {
        let pool = self.pool().await?;
        if !self.is_pooled() {
            return statement.fetch_all(pool).await;
        }
        let mut tx = self.begin(OWN).await?;
        let rows = statement.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(rows)
    }

    pub(crate) async fn fetch_optional(&self, statement: Statement<'_>) -> sqlx::Result<Option<PgRow>> {
        Ok(self.fetch_all(statement).await?.into_iter().next())
    }

    pub(crate) async fn fetch_one(&self, statement: Statement<'_>) -> sqlx::Result<PgRow> {
        self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// A connection of its own that listens; none behind a pooler, where nothing would be heard.
    pub(crate) async fn listener(&self) -> sqlx::Result<Option<PgListener>> {
        self.pool().await?;
        if self.is_pooled() {
            return Ok(None);
        }
        PgListener::connect_with(&pool(1, self.options.clone())).await.map(Some)
    }

    /// What an operator should know: behind a pooler, an action that ends its transaction leaves the guard of `connect`.
    pub(crate) async fn unguarded(&self) -> sqlx::Result<Option<String>> {
        let pool = self.pool().await?;
        if !self.is_pooled() {
            return Ok(None);
        }
        let default = sqlx::raw_sql("show default_transaction_read_only").fetch_one(pool).await?;
        Ok((default.try_get::<&str, _>(0)? != "on").then(|| UNGUARDED.to_owned()))
    }
}

const UNGUARDED: &str = "the database is behind a transaction pooler and the role may write outside a transaction: \
     what an action writes after its own COMMIT or ROLLBACK stays, although its message is parked as broken; run \
     `alter role … set default_transaction_read_only = on` for the role of the workers, or set connect_query = 'set \
     default_transaction_read_only = on' in pgbouncer";

/// Is our setting there? A pooler has refused or dropped it.
async fn is_pooled(direct: &PgPool, pooled: &PgPool, mark: &str) -> sqlx::Result<bool> {
    let mut connection = match direct.acquire().await {
        Ok(connection) => connection,
        // The same words may mean that the server is away: only a connection without our settings tells.
        Err(error) if fault::code(&error).as_deref() == Some(REFUSED) => {
            return pooled.acquire().await.map(|_| true);
        }
        Err(error) => return Err(error),
    };
    let setting = sqlx::raw_sql("select current_setting('ichido.direct', true)").fetch_one(&mut *connection).await?;
    Ok(setting.try_get::<Option<&str>, _>(0)? != Some(mark))
}

fn pool(size: u32, options: PgConnectOptions) -> PgPool {
    // Connections are kept: one that was given up may not be had again. No test before use: a dead connection shows at BEGIN, where it costs nobody an attempt, and the test a round trip.
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(options)
}
