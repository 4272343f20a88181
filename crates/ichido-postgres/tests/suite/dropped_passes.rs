//! Passes that are dropped at each point where they wait. sqlx 0.9.0 gives a connection back to the pool with its transaction
//! open when `Pool::begin` is dropped half-way; here the server itself says whether a session is left like that.

use std::task::Poll;

use ichido::{
    Context, Handler, NewMessage, Next, Operate, Outcome, Pool, Process, Queue, Result, Status, Store, Table,
    handlers::Scope,
    store::{Database, Queues, Transactions},
};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::eventually;
use ichido_testkit::fixture::TABLES;
use sqlx::{Connection, Executor, PgConnection, Row};

/// More than a pass waits for something.
const MOST_WAITS: usize = 30;

/// Drops its pass when it waits for the nth time, and ends the worker in any case.
struct DropsAt(usize);

impl<S: Store> Handler<S> for DropsAt {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let (mut left, mut rest) = (self.0, next.run(cx));
        std::future::poll_fn(|task| match rest.as_mut().poll(task) {
            Poll::Pending if left == 0 => Poll::Ready(()),
            Poll::Pending => {
                left -= 1;
                Poll::Pending
            }
            Poll::Ready(_) => Poll::Ready(()),
        })
        .await;
        Ok(Outcome::Stop)
    }
}

async fn one_line(cx: &mut Context<Postgres>, _: serde_json::Value) -> Result<Outcome> {
    cx.tx().await?.execute("insert into ledger values ('order', 'action')").await?;
    Ok(Outcome::Done)
}

/// Resolves when no session is in a transaction; a commit that was dropped may still be on its way.
async fn all_sessions_rest(outside: &mut PgConnection, waits: usize) {
    let open = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
    eventually(format!("after a pass that was dropped at wait {waits}, no session is in a transaction"), async || {
        sqlx::query(open).fetch_one(&mut *outside).await.unwrap().get::<i64, _>(0) == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_is_dropped_at_any_moment_leaves_no_session_in_a_transaction() {
    let url = servers::Postgres::shared().fresh_database();
    let mut outside = PgConnection::connect(&url).await.unwrap();
    outside.execute(TABLES).await.unwrap();
    let status = Status::new("status", "0", "1").failed("2");
    let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
    // One connection for business: what is left of one pass, the next would get.
    let store = Postgres::new(&url, None, 3, vec![queue]).unwrap();
    store.migrate().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let orders: Vec<_> = (0..=MOST_WAITS).map(|id| NewMessage::new(format!(r#"{{"id":{id}}}"#))).collect();
    store.send(Postgres::connection(&mut tx), "orders", &orders).await.unwrap();
    store.commit(tx).await.unwrap();
    for waits in 0..=MOST_WAITS {
        let process =
            Process::new(store.clone()).action_fn(Pool::new("Dropped").from("orders").concurrency(1), one_line);
        let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", DropsAt(waits)));
        assert_eq!(process.run().await.unwrap(), 0);
        all_sessions_rest(&mut outside, waits).await;
    }
    let done = "select count(*) from received_order where status = '1'";
    let done: i64 = sqlx::query(done).fetch_one(&mut outside).await.unwrap().get(0);
    assert!(done > 0, "the last passes came to their end");
    let effects: i64 = sqlx::query("select count(*) from ledger").fetch_one(&mut outside).await.unwrap().get(0);
    assert_eq!(effects, done);
}
