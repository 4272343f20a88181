//! What only this server does: transactions that an action begins anew, types that make values equal, faults without end, and
//! COMMITs whose reply is lost.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ichido::{
    Action, BoxFuture, Context, Error, Handler, Inspect, Next, Outcome, Pool, Process, Queue, Result, Status, Store,
    Table,
    handlers::Scope,
    inspect::ParkedFilter,
    process::Clock,
    store::{Database, Queues, Transactions},
};
use ichido_postgres::Postgres;
use ichido_testkit::fixture::{Fixture, Player, assert_group_is_held, refusal, with_orders};
use sqlx::Executor;
use {
    ichido_test_servers as servers,
    ichido_test_servers::proxy::{Cut, Proxy},
};

use crate::fixture::OnPostgres;

/// The transaction that the action begins may write, so only the token tells that it is not the one that was begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_action_begins_completes_nothing() {
    for restart in [&["rollback", "begin read write"][..], &["rollback and chain"], &["commit and chain"]] {
        let fixture = with_orders::<OnPostgres>(1).await;
        let Player { store, registration } = Player::join(&fixture).await;
        let claimed = store.claim(registration.id, "orders", 1).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        for statement in restart.iter().chain(&["insert into ledger values ('late', 'action')"]) {
            Postgres::connection(&mut tx).execute(*statement).await.unwrap();
        }
        let completed = store.complete(&mut tx, &claimed).await;
        assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "after {restart:?}: {completed:?}");
        store.rollback(tx).await.unwrap();
        assert_eq!(fixture.number("select count(*) from ledger").await, 0, "after {restart:?}");
        assert_eq!(fixture.number("select count(*) from received_order where status = '0'").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_equal_for_the_column_or_too_wide_are_refused() {
    let fixture = OnPostgres::fresh().await;
    let table = "create table word (id int primary key, state varchar(3) not null, grade int not null, padded char(3) not null, taken_by char(36), narrow char(32))";
    fixture.sql(table).await;
    let refusal = async |owner: &str, status: Status| {
        refusal(fixture.store_with(vec![Queue::table("words", Table::new("word", owner, status))])).await
    };
    assert!(refusal("taken_by", Status::new("grade", "1", "01")).await.contains("are equal"));
    assert!(refusal("taken_by", Status::new("padded", "n", "n ")).await.contains("are equal"));
    assert!(refusal("taken_by", Status::new("state", "new", "done")).await.contains("does not fit"));
    assert!(refusal("narrow", Status::new("state", "new", "ok")).await.contains("36 characters"));
}

/// Time that passes at once.
#[derive(Debug)]
struct Hasty;

impl Clock for Hasty {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time.min(Duration::from_millis(5))))
    }
}

/// Meets a conflict with other transactions, again and again.
struct Unlucky(Arc<AtomicUsize>);

impl Action<Postgres> for Unlucky {
    type Message = serde_json::Value;

    async fn handle(&self, cx: &mut Context<Postgres>, _: serde_json::Value) -> Result<Outcome> {
        if self.0.fetch_add(1, Ordering::SeqCst) >= 40 {
            return Ok(Outcome::park("nobody stopped it"));
        }
        let conflict = "do $$ begin raise exception using errcode = '40001', message = 'conflict'; end $$";
        cx.tx().await?.execute(conflict).await?;
        Ok(Outcome::Done)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_faults_in_a_row_put_a_message_aside_and_spend_no_attempt() {
    let fixture = with_orders::<OnPostgres>(1).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let process = Process::new(fixture.store()).clock(Hasty).drain();
    let process = process.action(Pool::new("Unlucky").from("orders").concurrency(1), Unlucky(runs.clone()));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(runs.load(Ordering::SeqCst), 20);
    let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
    assert_eq!((failed[0].id.as_str(), failed[0].attempts), ("orders/1", 0));
    assert!(failed[0].error.contains("20 times in a row"), "{}", failed[0].error);
}

/// What was said about each message, further out than `transaction`.
struct Diary(Arc<Mutex<Vec<bool>>>);

impl<S: Store> Handler<S> for Diary {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let outcome = next.run(cx).await;
        self.0.lock().unwrap().push(matches!(outcome, Ok(Outcome::Done)));
        outcome
    }
}

/// Runs forty orders while ten of the COMMITs are cut; says how often an order ran, and how often one was said to be done.
async fn cut_ten_of_forty(cut: Cut) -> (usize, usize) {
    let fixture = with_orders::<OnPostgres>(40).await;
    let proxy = Proxy::start(servers::Postgres::shared().address());
    let said = Arc::<Mutex<Vec<bool>>>::default();
    let diary = said.clone();
    let process = Process::new(OnPostgres::at(&proxy.url(&fixture.place())).await.store())
        .poll(Duration::from_millis(20))
        .lease(Duration::from_secs(3))
        .drain();
    let process = process
        .action_fn(Pool::new("Cut").from("orders").concurrency(1), writes)
        .handlers(move |queue| queue.before(Scope::Worker, "transaction", Diary(diary)));
    proxy.cut_commits(cut, 3, 10);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(proxy.cuts(), 10);
    assert_eq!(fixture.number("select count(*) from ledger").await, 40);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 40);
    let said = said.lock().unwrap();
    (said.len(), said.iter().filter(|done| **done).count())
}

async fn writes(cx: &mut Context<Postgres>, _: serde_json::Value) -> Result<Outcome> {
    cx.tx().await?.execute("insert into ledger values ('order', 'action')").await?;
    Ok(Outcome::Done)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_without_a_reply_is_done_and_does_not_run_again() {
    assert_eq!(cut_ten_of_forty(Cut::AfterCommit).await, (40, 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_committed_is_not_said_to_be_done() {
    // A cut may also hit a COMMIT of the process's own chores.
    let (runs, done) = cut_ten_of_forty(Cut::BeforeCommit).await;
    assert!((41..=50).contains(&runs) && done == 40, "{runs} runs, {done} of them done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_holds_what_is_the_same_group_for_the_column() {
    let fixture = OnPostgres::fresh().await;
    for (kind, same, other) in [
        ("numeric", ["1", "1.0", "1.00"], "1.001"),
        ("numeric not null", ["0", "-0.0", "0.00"], "1"),
        ("char(10)", ["a", "a ", "a  "], "A"),
        ("interval", ["30 days", "1 mon", "720:00"], "31 days"),
        (
            "uuid",
            [
                "00000000-0000-0000-0000-00000000000a",
                "{0000000000000000000000000000000A}",
                "0000000000000000000000000000000a",
            ],
            "00000000-0000-0000-0000-00000000000b",
        ),
        ("timestamptz", ["2026-01-01 00:00Z", "2026-01-01 09:00+09", "2025-12-31 23:00-01"], "2026-01-01 00:01Z"),
        ("double precision", ["0.1", "0.10", "1e-1"], "0.2"),
        ("bytea", ["\\x00", "\\x00", "\\000"], "\\x0000"),
        ("boolean", ["yes", "true", "1"], "no"),
        ("text", ["", "", ""], " "),
    ] {
        let [one, two, three] = same;
        let table = format!(
            "drop table if exists held; create table held (id int primary key, g {kind}, s char(1) default '0' not null, o uuid); \
             insert into held (id, g) values (1, '{one}'), (2, '{two}'), (3, '{three}'), (4, '{other}')"
        );
        fixture.sql(&table).await;
        let queue = Table::new("held", "o", Status::new("s", "0", "1").failed("2")).group_by("g");
        let store = fixture.store_with(vec![Queue::table("held", queue)]);
        assert_group_is_held(&Player::<OnPostgres>::join_with(store, &["held"]).await, "held", kind).await;
    }
}
