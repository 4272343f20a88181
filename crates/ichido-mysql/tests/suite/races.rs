//! Races that only this server can be set up for; the others are cases of `ichido-testkit`.

use std::time::Duration;

use ichido::{
    Context, Error, Outcome, Pool, Process,
    store::{Processes, Queues, Rescued, Transactions},
};
use ichido_mysql::MySql;
use ichido_test_servers::{
    self as servers,
    proxy::{Cut, Proxy},
};
use ichido_testkit::{
    eventually,
    fixture::{Fixture, Player, with_orders},
    in_time,
};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};

use crate::fixture::OnMariaDb;

/// The URL of a user for whose sessions it is an hour ago. The server sets up only sessions of users without privileges.
async fn an_hour_ago(fixture: &OnMariaDb) -> String {
    let late = "create user late@'%' identified by 'late'; grant all on `ichido\\_%`.* to late@'%'; \
                set global init_connect = concat('set timestamp = ', unix_timestamp() - 3600)";
    fixture.sql(late).await;
    let url = fixture.place();
    let (_, place) = url.split_once('@').unwrap();
    format!("mysql://late:late@{place}")
}

/// A claim compares with the time at which it began, and is slow to arrive at its process row: an hour ago it was alive. Since
/// then it was rescued, but not forgotten, because one of its rows is in a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_overtaken_by_a_rescue_gets_nothing() {
    let fixture = with_orders::<OnMariaDb>(2).await;
    let (dead, rescuer) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let rescue = async || rescuer.store.rescue(&rescuer.registration).await.unwrap();
    let mut tx = dead.store.begin().await.unwrap();
    dead.store.complete(&mut tx, &dead.claim("orders", 1).await).await.unwrap();
    fixture.die(fixture.store(), dead.registration.id).await;
    assert_eq!(rescue().await, Rescued::default(), "its row is in a transaction");
    let late = OnMariaDb::at(&an_hour_ago(&fixture).await).await.store().claim(dead.registration.id, "orders", 1).await;
    assert!(matches!(late, Err(Error::LostClaim)), "{late:?}");
    dead.store.rollback(tx).await.unwrap();
    assert_eq!(rescue().await, Rescued { processes: 1, messages: 1, parked: 0 });
}

/// At REPEATABLE READ a claim that has come to the end of the table would lock what comes after it, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_holds_up_no_insert() {
    let fixture = with_orders::<OnMariaDb>(3).await;
    let Player { store, registration } = Player::join(&fixture).await;
    // The claim stops in its UPDATE, with all its locks, until the other side lets it go on.
    let trigger =
        "create trigger halt before update on received_order for each row set @halted = get_lock(database(), 30)";
    fixture.sql(trigger).await;
    let mut other = MySqlConnection::connect(&fixture.place()).await.unwrap();
    other.execute("select get_lock(database(), 0)").await.unwrap();
    let claiming = tokio::spawn(async move { store.claim(registration.id, "orders", 10).await });
    let halted = "select 1 from information_schema.processlist where db = database() and state = 'User lock'";
    while other.fetch_optional(halted).await.unwrap().is_none() {
        assert!(!claiming.is_finished(), "the claim did not stop");
    }
    other.execute("set innodb_lock_wait_timeout = 1").await.unwrap();
    let inserted = other.execute("insert into received_order (id) values (1000)").await;
    other.execute("select release_lock(database())").await.unwrap();
    assert_eq!(claiming.await.unwrap().unwrap().len(), 3);
    inserted.expect("nobody waits for a claim");
}

/// Here a claim ends with a COMMIT, whose reply can be lost. The lease is long, so that only the doubt can find the rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_reply_was_lost_is_found_long_before_the_lease() {
    let fixture = with_orders::<OnMariaDb>(3).await;
    let proxy = Proxy::start_mysql(servers::MariaDb::shared().address());
    let process = Process::new(OnMariaDb::at(&proxy.url(&fixture.place())).await.store())
        .poll(Duration::from_millis(20))
        .lease(Duration::from_hours(1))
        .drain();
    let process = process.action_fn(Pool::new("Found").from("orders"), nothing_to_write);
    // The first COMMIT is the registration's, the second the claim's.
    proxy.cut_commits(Cut::AfterCommit, 2, 1);
    assert_eq!(in_time("it ends long before the lease", process.run()).await.unwrap(), 0);
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 3);
}

/// An operator ends whatever runs for long, or a limit of the server does: the process goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_killed_is_a_fault_and_not_the_end() {
    let fixture = with_orders::<OnMariaDb>(3).await;
    let trigger = "create trigger halt before update on received_order for each row set @halted = if(new.status = '0', get_lock(database(), 30) + release_lock(database()), 0)";
    fixture.sql(trigger).await;
    let mut other = MySqlConnection::connect(&fixture.place()).await.unwrap();
    other.execute("select get_lock(database(), 0)").await.unwrap();
    let process = Process::new(fixture.store()).poll(Duration::from_millis(20)).drain();
    let process = process.action_fn(Pool::new("Killed").from("orders"), nothing_to_write);
    let running = tokio::spawn(process.run());
    let halted =
        "select cast(id as signed) from information_schema.processlist where db = database() and state = 'User lock'";
    for _ in 0..2 {
        eventually("a claim that halts is killed", async || {
            let Some(claim) = other.fetch_optional(halted).await.unwrap() else { return false };
            // One that was killed before may be gone by now.
            other.execute(AssertSqlSafe(format!("kill query {}", claim.get::<i64, _>(0)))).await.is_ok()
        })
        .await;
    }
    other.execute("select release_lock(database())").await.unwrap();
    assert_eq!(in_time("it drains", running).await.unwrap().unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 3);
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

async fn nothing_to_write(_: &mut Context<MySql>, _: serde_json::Value) -> ichido::Result<Outcome> {
    Ok(Outcome::Done)
}
