//! What is kept between transactions: a session that is left in the middle of its beginning, one in which an action has made
//! prepared statements go away, and sessions that outlive their runtime.

use std::{pin::pin, task::Poll};

use ichido::{
    Delivery, Guarded, Key, Message, NewMessage, Operate, Queue,
    action::Terms,
    broker::{Found, Standing},
    message::Claim,
    store::{Database, Mutexes, ProcessId, Queues, Transactions},
};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::eventually;
use sqlx::{Connection, Executor, PgConnection, Row};

const FREE: Found = Found::Free(Standing { failures: 0, suspect: false, parked: false });

/// More than a beginning waits for something.
const MOST_WAITS: usize = 8;

/// A queue at a broker, with a pool of one connection for business.
async fn store(url: &str) -> Postgres {
    let store = Postgres::new(url, None, 3, vec![Queue::broker("paid", Guarded::new("shop", "paid"))]).unwrap();
    store.migrate().await.unwrap();
    store
}

/// A store with a table `noted`, and a connection beside it.
async fn noting() -> (Postgres, PgConnection) {
    let url = servers::Postgres::shared().fresh_database();
    let store = store(&url).await;
    let mut outside = PgConnection::connect(&url).await.unwrap();
    outside.execute("create table noted (line text)").await.unwrap();
    (store, outside)
}

fn handed_out(id: &str) -> Delivery {
    let message = Message::new("paid", Key::new([id]), *b"{}");
    let claim = Claim { owner: ProcessId::random(), parked: false, suspect: false, group: None, locked: true };
    Delivery::claimed(message, claim, 0)
}

async fn send(store: &Postgres) -> String {
    let mut tx = store.begin().await.unwrap();
    let sent = store.send(Postgres::connection(&mut tx), "paid", &[NewMessage::new("{}")]).await.unwrap();
    store.commit(tx).await.unwrap();
    sent[0].key.columns()[0].clone()
}

/// Resolves when no session is in a transaction.
async fn all_sessions_rest(outside: &mut PgConnection, waits: usize) {
    let open = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
    eventually(
        format!("after a beginning that was dropped at wait {waits}, no session is in a transaction"),
        async || sqlx::query(open).fetch_one(&mut *outside).await.unwrap().get::<i64, _>(0) == 0,
    )
    .await;
}

/// What is found by a transaction that begins with the lock of this message.
async fn find(store: &Postgres, id: &str) -> Found {
    let (tx, found) = store.begin_locked(Terms::default(), &handed_out(id)).await.unwrap();
    store.rollback(tx).await.unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_beginning_that_is_dropped_at_any_moment_leaves_no_lock() {
    let url = servers::Postgres::shared().fresh_database();
    let store = store(&url).await;
    let mut outside = PgConnection::connect(&url).await.unwrap();
    let delivery = handed_out(&send(&store).await);
    let mut ended = 0;
    for waits in 0..2 * MOST_WAITS {
        let mut left = waits % MOST_WAITS;
        {
            let mut opening = pin!(store.begin_locked(Terms::default(), &delivery));
            std::future::poll_fn(|task| match opening.as_mut().poll(task) {
                Poll::Pending if left == 0 => Poll::Ready(()),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
                Poll::Ready(begun) => {
                    begun.unwrap();
                    ended += 1;
                    Poll::Ready(())
                }
            })
            .await;
        }
        all_sessions_rest(&mut outside, waits).await;
    }
    assert!(ended > 0, "the last ones came to their end");
    assert_eq!(find(&store, &delivery.message.key.columns()[0]).await, FREE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_may_make_prepared_statements_go_away() {
    let store = store(&servers::Postgres::shared().fresh_database()).await;
    let id = send(&store).await;
    for _ in 0..3 {
        let (mut tx, found) = store.begin_locked(Terms::default(), &handed_out(&id)).await.unwrap();
        assert_eq!(found, FREE);
        Postgres::connection(&mut tx).execute("deallocate all").await.unwrap();
        store.rollback(tx).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_within_the_transaction_is_a_savepoint() {
    let (store, mut outside) = noting().await;
    for line in ["first", "second"] {
        let mut tx = store.begin().await.unwrap();
        let connection = Postgres::connection(&mut tx);
        sqlx::query("insert into noted values ($1)").bind(line).execute(&mut *connection).await.unwrap();
        let mut within = connection.begin().await.unwrap();
        within.execute("insert into noted values ('never')").await.unwrap();
        within.rollback().await.unwrap();
        let mut within = connection.begin().await.unwrap();
        within.execute("insert into noted values ('within')").await.unwrap();
        within.commit().await.unwrap();
        store.commit(tx).await.unwrap();
    }
    let noted = "select string_agg(line, ' ' order by line) from noted";
    let noted: String = sqlx::query(noted).fetch_one(&mut outside).await.unwrap().get(0);
    assert_eq!(noted, "first second within within");
}

/// To sqlx a transaction within the transaction that cannot begin is the end of both.
#[tokio::test(flavor = "multi_thread")]
async fn a_savepoint_that_could_not_be_made_takes_nothing_from_the_next_transaction() {
    let (store, mut outside) = noting().await;
    let mut tx = store.begin().await.unwrap();
    let connection = Postgres::connection(&mut tx);
    assert!(connection.execute("select 1 / 0").await.is_err());
    assert!(connection.begin().await.is_err());
    store.rollback(tx).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let connection = Postgres::connection(&mut tx);
    connection.execute("insert into noted values ('never')").await.unwrap();
    let within = connection.begin().await.unwrap();
    within.commit().await.unwrap();
    store.rollback(tx).await.unwrap();
    let noted: i64 = sqlx::query("select count(*) from noted").fetch_one(&mut outside).await.unwrap().get(0);
    assert_eq!(noted, 0);
}

/// The answers that sqlx leaves unread after a COPY that failed are not taken for the answer of a lock.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_copy_that_failed_a_message_is_still_found() {
    let store = store(&servers::Postgres::shared().fresh_database()).await;
    let id = send(&store).await;
    for _ in 0..3 {
        let mut tx = store.begin().await.unwrap();
        assert!(Postgres::connection(&mut tx).copy_out_raw("copy nothing to stdout").await.is_err());
        store.rollback(tx).await.unwrap();
        assert_eq!(find(&store, &id).await, FREE);
        // The session that is not used any more is noticed, whichever way a transaction begins.
        let mut tx = store.begin().await.unwrap();
        assert!(Postgres::connection(&mut tx).copy_out_raw("copy nothing to stdout").await.is_err());
        store.rollback(tx).await.unwrap();
        while store.begin().await.is_err() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_look_like_sql_are_ids() {
    let url = servers::Postgres::shared().fresh_database();
    let store = store(&url).await;
    let mut outside = PgConnection::connect(&url).await.unwrap();
    for id in ["it's", "\\'; drop table ichido_mutex; --", "$1", "ü\u{202e}\"", "\\", "''"] {
        assert_eq!(find(&store, id).await, Found::Nothing, "{id}");
        let insert = sqlx::query("insert into ichido_mutex (id, queue) values ($1, 'paid')").bind(id);
        insert.execute(&mut outside).await.unwrap();
        assert_eq!(find(&store, id).await, FREE, "{id}");
    }
}

#[test]
fn sessions_may_outlive_their_runtime() {
    let url = servers::Postgres::shared().fresh_database();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = runtime.block_on(async {
        let store = store(&url).await;
        send(&store).await;
        store
    });
    drop(store.clone());
    drop(runtime);
    drop(store);
}

/// The server's statistics have an entry for each text of a SET: one for each message would displace all others.
#[tokio::test]
async fn transactions_of_a_session_begin_with_the_same_words() {
    let (store, _outside) = noting().await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut tx = store.begin_on(Terms::default()).await.unwrap();
        let connection = Postgres::connection(&mut tx);
        let token = sqlx::raw_sql("select pg_backend_pid()::text || ' ' || current_setting('ichido.tx')");
        tokens.push(token.fetch_one(&mut *connection).await.unwrap().get::<String, _>(0));
        store.commit(tx).await.unwrap();
    }
    assert_eq!(tokens[0], tokens[1]);
}
