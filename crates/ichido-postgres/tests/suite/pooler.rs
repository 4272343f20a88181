//! Behind pgbouncer in transaction mode: all conformance cases, how ichido finds out, and what is different then. What is
//! seen from outside goes directly to the server.

use std::time::Duration;

use ichido::{
    Error, Inspect, Queue, Result,
    store::{Database, Failure, ProcessId, Processes, Queues, Transactions},
};
use ichido_postgres::Postgres;
use ichido_testkit::fixture::{Fixture, Player, effects, send_orders};
use sqlx::{Executor, PgConnection};
use {ichido_test_servers as servers, ichido_test_servers::PgBouncer};

use crate::fixture::OnPostgres;

struct ThroughPooler {
    /// Through the pooler.
    url: String,
    direct: OnPostgres,
}

impl ThroughPooler {
    async fn by(pooler: &PgBouncer, user: &str) -> Self {
        ThroughPooler::over(pooler, user, OnPostgres::fresh().await)
    }

    fn over(pooler: &PgBouncer, user: &str, direct: OnPostgres) -> Self {
        ThroughPooler { url: pooler.url(user, &direct.place()), direct }
    }

    /// What `check` says about a pooler.
    async fn warnings(&self) -> Vec<String> {
        let warnings = self.store().warnings(Duration::from_secs(30)).await.unwrap();
        warnings.into_iter().filter(|warning| warning.contains("pooler")).collect()
    }

    /// Claims an order, ends its transaction by hand, writes, and completes.
    async fn break_one(&self, process: &Player<Self>) -> Result<(), Error> {
        let delivery = process.claim_one("orders").await;
        let mut tx = process.store.begin().await.unwrap();
        for statement in ["rollback", "insert into ledger values ('late', 'action')"] {
            let _ = Postgres::connection(&mut tx).execute(statement).await;
        }
        let completed = process.store.complete(&mut tx, std::slice::from_ref(&delivery)).await;
        process.store.rollback(tx).await.unwrap();
        completed
    }
}

impl Fixture for ThroughPooler {
    type Store = Postgres;
    const ENDING: &'static [&'static str] = OnPostgres::ENDING;

    async fn empty() -> Self {
        ThroughPooler::over(PgBouncer::shared(), "worker", OnPostgres::empty().await)
    }

    async fn fresh() -> Self {
        ThroughPooler::by(PgBouncer::shared(), "worker").await
    }

    fn place(&self) -> String {
        format!("{} {}", self.url, self.direct.place())
    }

    async fn at(place: &str) -> Self {
        let (pooled, direct) = place.split_once(' ').unwrap();
        ThroughPooler { url: pooled.into(), direct: OnPostgres::at(direct).await }
    }

    fn store_with(&self, queues: Vec<Queue>) -> Postgres {
        Postgres::new(&self.url, None, 6, queues).unwrap()
    }

    async fn sql(&self, statements: &str) {
        self.direct.sql(statements).await;
    }

    async fn number(&self, query: &str) -> i64 {
        self.direct.number(query).await
    }

    async fn through(connection: &mut PgConnection, statement: String) -> Result<()> {
        OnPostgres::through(connection, statement).await
    }

    async fn lock_waits(&self) -> i64 {
        self.direct.lock_waits().await
    }

    async fn die(&self, store: Postgres, process: ProcessId) {
        self.direct.die(store, process).await;
    }
}

ichido_testkit::conformance!(ThroughPooler);
ichido_testkit::crashing!(ThroughPooler);

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_is_found_out_whether_it_refuses_our_settings_or_drops_them() {
    let dropping = [("ignore_startup_parameters", "options,extra_float_digits")];
    let dropping = PgBouncer::start(servers::Postgres::shared(), "", &dropping);
    for pooler in [PgBouncer::shared(), &dropping] {
        let fixture = ThroughPooler::by(pooler, "postgres").await;
        assert_eq!(fixture.warnings().await.len(), 1);
        send_orders(&fixture, 3).await;
        let process = Player::join(&fixture).await;
        for delivery in process.claim("orders", 3).await {
            process.finish(&delivery).await.unwrap();
        }
        assert_eq!(effects(&fixture).await, 3);
    }
    let mut direct = ThroughPooler::by(PgBouncer::shared(), "postgres").await;
    direct.url = direct.direct.place();
    assert!(direct.warnings().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_default_of_the_role_or_the_pooler_check_warns_and_a_broken_transaction_completes_nothing() {
    let fixture = ThroughPooler::by(PgBouncer::shared(), "postgres").await;
    let warnings = fixture.warnings().await;
    assert!(warnings[0].contains("alter role") && warnings[0].contains("connect_query"), "{warnings:?}");
    send_orders(&fixture, 1).await;
    let broken = fixture.break_one(&Player::join(&fixture).await).await;
    assert!(matches!(broken, Err(Error::BrokenTransaction(_))), "{broken:?}");
    assert_eq!(fixture.number("select count(*) from received_order where status = '0'").await, 1);
    assert_eq!(effects(&fixture).await, 1, "what the warning is about");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_default_of_the_role_or_the_pooler_nothing_is_left_of_a_broken_transaction() {
    let query = "connect_query='set default_transaction_read_only = on'";
    let guarded = PgBouncer::start(servers::Postgres::shared(), query, &[]);
    for (pooler, user) in [(PgBouncer::shared(), "worker"), (&guarded, "postgres")] {
        let fixture = ThroughPooler::by(pooler, user).await;
        assert!(fixture.warnings().await.is_empty());
        send_orders(&fixture, 1).await;
        let broken = fixture.break_one(&Player::join(&fixture).await).await;
        assert!(matches!(broken, Err(Error::BrokenTransaction(_))), "{broken:?}");
        assert_eq!(effects(&fixture).await, 0);
    }
}

/// A pooler with one connection to the server for everybody, and so many orders.
async fn on_one_connection(orders: i64) -> (PgBouncer, ThroughPooler) {
    let narrow = PgBouncer::start(servers::Postgres::shared(), "", &[("default_pool_size", "1")]);
    let fixture = ThroughPooler::by(&narrow, "worker").await;
    send_orders(&fixture, orders).await;
    (narrow, fixture)
}

/// One connection to the server for everybody: each client finds what the others have left there.
#[tokio::test(flavor = "multi_thread")]
async fn statements_with_the_same_name_do_not_meet() {
    let (_narrow, fixture) = on_one_connection(20).await;
    let processes = [Player::join(&fixture).await, Player::join(&fixture).await];
    for process in processes.iter().cycle().take(20) {
        let delivery = process.claim_one("orders").await;
        process.finish(&delivery).await.unwrap();
    }
    assert_eq!(effects(&fixture).await, 20);
}

/// Between the action's ROLLBACK and the completion somebody else has had the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_transaction_is_noticed_among_statements_of_others() {
    let (_narrow, fixture) = on_one_connection(1).await;
    let (process, other) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let delivery = process.claim_one("orders").await;
    let mut tx = process.store.begin().await.unwrap();
    Postgres::connection(&mut tx).execute("rollback").await.unwrap();
    let mut others = other.store.begin().await.unwrap();
    for _ in 0..20 {
        sqlx::query("select 1").execute(Postgres::connection(&mut others)).await.unwrap();
    }
    other.store.commit(others).await.unwrap();
    let completed = process.store.complete(&mut tx, std::slice::from_ref(&delivery)).await;
    assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "{completed:?}");
}

/// The role of the workers is used without a pooler too.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_reads_by_default_works_directly() {
    let mut fixture = ThroughPooler::by(PgBouncer::shared(), "worker").await;
    fixture.url = fixture.direct.place().replace("postgres@", "worker@");
    send_orders(&fixture, 2).await;
    let process = Player::join(&fixture).await;
    assert!(process.store.heartbeat(process.registration.id, &[]).await.unwrap());
    let [first, second] = process.claim("orders", 2).await.try_into().unwrap();
    process.finish(&first).await.unwrap();
    assert!(process.store.is_claimed(&second).await.unwrap());
    assert!(process.store.park(&second, &Failure::waiting("later", 1, Duration::ZERO)).await.unwrap());
    assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 1);
    assert_eq!(effects(&fixture).await, 1);
}
