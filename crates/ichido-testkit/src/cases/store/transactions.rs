//! The terms of a transaction: how long its action may take, and failures that commit what was written.

use std::{fmt, time::Duration};

use ichido::{
    Context, Error, Operate, Outcome, Pool, Process, Result, RetryPolicy,
    action::CommitOn,
    store::{Database, Failure, Transactions},
};
use serde::Deserialize;

use crate::{
    faults::{Fault, FaultyStore, Scene, Verb},
    fixture::{Fixture, Player, assert_lost, effect_here, effects, failed, with_orders},
    in_time,
};

#[derive(Deserialize)]
struct Order {
    id: i64,
    name: Option<String>,
}

fn orders() -> Pool {
    let retry =
        RetryPolicy { attempts: 2, first: Duration::from_millis(1), max: Duration::from_millis(2), factor: 1.0 };
    Pool::new("Committing").from("orders").concurrency(2).retry(retry)
}

async fn drain<F: Fixture>(fixture: &F, pool: Pool) {
    let process = Process::new(fixture.store()).poll(Duration::from_millis(5)).drain();
    let ended = in_time("the drain ends", process.action_fn(pool, book::<F>).run()).await;
    assert_eq!(ended.unwrap(), 0);
}

/// An error of the user's own.
#[derive(Debug)]
struct NoCustomer;

impl fmt::Display for NoCustomer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such customer")
    }
}

impl std::error::Error for NoCustomer {}

/// Longer than anybody waits, with a hundred orders.
const LONG: &str = "insert into ledger (message, who) select 'x', 'y' from received_order a, received_order b, received_order c, \
     received_order d, received_order e, received_order f where a.id + b.id + c.id + d.id + e.id + f.id < 0";

async fn book<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    match order.name.as_deref() {
        Some("for ever") => std::future::pending().await,
        Some("long") => F::through(cx.tx().await?, LONG.into()).await?,
        Some("park") => return Ok(Outcome::park("not today")),
        Some("customer") => return Err(NoCustomer.into()),
        Some("error") => return Err(format!("order {} is wrong", order.id).into()),
        Some("panic") => panic!("boom"),
        Some("statement") => F::through(cx.tx().await?, "insert into only_one (id) values (1), (1)".into()).await?,
        _ => {}
    }
    Ok(Outcome::Done)
}

async fn lines_of<F: Fixture>(fixture: &F, id: i64) -> i64 {
    fixture.number(&format!("select count(*) from ledger where message = 'orders/{id}'")).await
}

/// Some orders, of which these have such a name.
async fn with_names<F: Fixture>(count: i64, names: &[(i64, &str)]) -> F {
    let fixture = with_orders::<F>(count).await;
    for (id, name) in names {
        fixture.sql(&format!("update received_order set name = '{name}' where id = {id}")).await;
    }
    fixture
}

/// On SQLite the neighbours wait for it, and that is not their time.
pub async fn what_takes_too_long_is_rolled_back_and_runs_again<F: Fixture>() {
    let fixture: F = with_names(10, &[(3, "for ever")]).await;
    drain(&fixture, orders().concurrency(4).timeout(Duration::from_secs(1))).await;
    assert_eq!(failed(&fixture).await, [("orders/3".to_owned(), 2, "timed out after 1s".to_owned())]);
    assert_eq!((effects(&fixture).await, lines_of(&fixture, 3).await), (9, 0));
}

pub async fn a_statement_that_takes_too_long_is_ended<F: Fixture>() {
    let fixture: F = with_names(100, &[(3, "long")]).await;
    drain(&fixture, orders().timeout(Duration::from_secs(1)).commit_interval(10)).await;
    assert_eq!(failed(&fixture).await, [("orders/3".to_owned(), 2, "timed out after 1s".to_owned())]);
    assert_eq!((effects(&fixture).await, lines_of(&fixture, 3).await), (99, 0));
}

pub async fn what_a_parked_message_wrote_is_committed_with_its_failure<F: Fixture>() {
    let fixture: F = with_names(5, &[(2, "park"), (4, "error")]).await;
    drain(&fixture, orders().commit_on(CommitOn::Park)).await;
    assert_eq!((lines_of(&fixture, 2).await, lines_of(&fixture, 4).await), (1, 0));
    let expected = [("orders/2", 1, "not today"), ("orders/4", 2, "order 4 is wrong")];
    assert_eq!(
        failed(&fixture).await,
        expected.map(|(id, attempts, error)| (id.to_owned(), attempts, error.to_owned()))
    );
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '2' and process_id is null").await,
        2
    );
    fixture.sql("update received_order set name = null").await;
    assert!(fixture.store().retry(&"orders/2".parse().unwrap()).await.unwrap());
    drain(&fixture, orders()).await;
    assert_eq!(lines_of(&fixture, 2).await, 2, "an operator has run it again");
}

pub async fn an_actions_error_commits_and_one_of_the_database_does_not<F: Fixture>() {
    let fixture: F = with_names(5, &[(2, "error"), (3, "panic"), (4, "park")]).await;
    drain(&fixture, orders().commit_on(CommitOn::Error)).await;
    let lines = [lines_of(&fixture, 2).await, lines_of(&fixture, 3).await, lines_of(&fixture, 4).await];
    assert_eq!(lines, [1, 0, 0]);
    assert_eq!(failed(&fixture).await.iter().map(|parked| parked.1).collect::<Vec<_>>(), [1, 2, 1]);
    if !F::ENDING.is_empty() {
        // Where an error of the database breaks the transaction, there is nothing to commit.
        let fixture: F = with_names(1, &[(1, "statement")]).await;
        drain(&fixture, orders().commit_on(CommitOn::Error)).await;
        let seen = failed(&fixture).await;
        let whole = lines_of(&fixture, 1).await;
        assert_eq!(seen[0].1, if whole == 1 { 1 } else { 2 }, "{seen:?}");
        assert!(!seen[0].2.contains("broken"), "{seen:?}");
    }
}

pub async fn an_error_type_commits_and_others_do_not<F: Fixture>() {
    let fixture: F = with_names(5, &[(2, "customer"), (3, "error")]).await;
    drain(&fixture, orders().commit_on_error::<NoCustomer>()).await;
    assert_eq!((lines_of(&fixture, 2).await, lines_of(&fixture, 3).await), (1, 0));
    assert_eq!(failed(&fixture).await.iter().map(|parked| parked.1).collect::<Vec<_>>(), [1, 2]);
}

pub async fn a_failure_that_commits_does_so_alone_in_a_batch<F: Fixture>() {
    let fixture: F = with_names(20, &[(7, "park")]).await;
    drain(&fixture, orders().concurrency(1).commit_interval(20).commit_on(CommitOn::Park)).await;
    assert_eq!((effects(&fixture).await, lines_of(&fixture, 7).await), (20, 1));
    assert_eq!(failed(&fixture).await, [("orders/7".to_owned(), 1, "not today".to_owned())]);
}

/// Parks, and has written something.
async fn parks<F: Fixture>(cx: &mut Context<FaultyStore<F::Store>>, _: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    Ok(Outcome::park("not today"))
}

pub async fn a_failure_that_commits_needs_its_claim<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let player = Player::join(&fixture).await;
    let delivery = player.claim_one("orders").await;
    fixture.sql("update received_order set status = '1', process_id = null").await;
    let failure = Failure::dead("not today", 1);
    let mut tx = player.store.begin().await.unwrap();
    let failed = player.store.fail(&mut tx, &delivery, &failure).await;
    assert_lost(&failed);
    player.store.rollback(tx).await.unwrap();
    let mut tx = player.store.begin().await.unwrap();
    let _ = F::through(F::Store::connection(&mut tx), "rollback".into()).await;
    let failed = player.store.fail(&mut tx, &delivery, &failure).await;
    assert!(matches!(failed, Err(Error::BrokenTransaction(_))), "{failed:?}");
    player.store.rollback(tx).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn a_committed_failure_whose_reply_was_lost_is_recorded_once<F: Fixture>() {
    for (harm, commits) in [(Fault::ReplyLost, 1), (Fault::Unreachable, 2)] {
        let scene = Scene::<F>::new(1).await;
        scene.faults.inject(Verb::Commit, harm, 1);
        let pool = orders().concurrency(1).commit_on(CommitOn::Park);
        scene.drain(scene.process().action_fn(pool, parks::<F>)).await;
        assert_eq!(scene.faults.begun(Verb::Commit), commits);
        assert_eq!((effects(&scene.fixture).await, scene.faults.begun(Verb::Park)), (1, 0));
        assert_eq!(failed(&scene.fixture).await, [("orders/1".to_owned(), 1, "not today".to_owned())]);
    }
}
