//! A race that only this server's sessions can be held up for; the others are cases of `ichido-testkit`.

use ichido::{
    Error,
    store::{Processes, Queues, Rescued, Transactions},
};
use ichido_testkit::{
    eventually,
    fixture::{Fixture, Player, with_orders},
};
use sqlx::{Connection, Executor, PgConnection};

use crate::fixture::{OnPostgres, WAITING};

/// A session of the server that stands still until this is dropped: what it does next, it does late.
struct Halted(i64);

impl Halted {
    fn at(session: i64) -> Self {
        signal("-STOP", session);
        Halted(session)
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(signal: &str, session: i64) {
    let sent = std::process::Command::new("kill").args([signal, &session.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "no signal for session {session}");
}

/// What a query counts, as soon as it is more than nothing.
async fn more_than_none(fixture: &OnPostgres, query: &str) -> i64 {
    let look = async || Some(fixture.number(query).await).filter(|number| *number > 0);
    eventually(query, look).await
}

/// The claim has seen its process alive and is slow to lock the row; meanwhile the lease ends and the process is rescued,
/// but not forgotten, because one of its rows is in a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_overtaken_by_a_rescue_gets_nothing() {
    let fixture = with_orders::<OnPostgres>(2).await;
    let (dead, rescuer) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let rescue = async || rescuer.store.rescue(&rescuer.registration).await.unwrap();
    let (store, id) = (dead.store.clone(), dead.registration.id);
    let mut tx = store.begin().await.unwrap();
    store.complete(&mut tx, &dead.claim("orders", 1).await).await.unwrap();
    let soon = "heartbeat_at = clock_timestamp(), lease = interval '3 seconds'";
    fixture.sql(&format!("update ichido_process set {soon} where id = '{id}'")).await;
    let mut lock = PgConnection::connect(&fixture.place()).await.unwrap();
    lock.execute("begin; select 1 from ichido_process for update").await.unwrap();
    let mut claiming = tokio::spawn(async move { store.claim(id, "orders", 1).await });
    let waits = format!("select coalesce(max(pid), 0)::bigint from {WAITING}");
    let halted = tokio::select! {
        session = more_than_none(&fixture, &waits) => Halted::at(session),
        early = &mut claiming => panic!("the lease was over before the claim began: {early:?}"),
    };
    let over = format!("id = '{id}' and heartbeat_at <= clock_timestamp() - lease");
    more_than_none(&fixture, &format!("select count(*) from ichido_process where {over}")).await;
    lock.execute("commit").await.unwrap();
    assert_eq!(rescue().await, Rescued::default(), "its row is in a transaction");
    drop(halted);
    let late = claiming.await.unwrap();
    assert!(matches!(late, Err(Error::LostClaim)), "{late:?}");
    dead.store.rollback(tx).await.unwrap();
    assert_eq!(rescue().await, Rescued { processes: 1, messages: 1, parked: 0 });
}
