//! Completion: the one-way door, and the guards around it.

use ichido::{
    Error, Result,
    store::{Database, Transactions},
};

use crate::fixture::{
    Fixture, Player, assert_lost, claimed_after_another, effect, effects, one_claimed, order_and_mail, send,
    send_orders, with_orders,
};

pub async fn effect_and_completion_are_committed_together<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    send(&fixture, "mail", &["{}"]).await;
    fixture.sql("insert into ticket (region, number, kind) values ('a', 1, 'urgent')").await;
    let process = Player::join(&fixture).await;
    for queue in ["orders", "mail", "urgent"] {
        process.finish(&process.claim_one(queue).await).await.unwrap();
    }
    assert_eq!(effects(&fixture).await, 3);
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '1' and process_id is null").await,
        1
    );
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 0);
    assert_eq!(fixture.number("select count(*) from ticket").await, 0);
}

pub async fn a_message_passes_the_door_only_once<F: Fixture>() {
    let (fixture, process) = order_and_mail::<F>().await;
    for queue in ["orders", "mail"] {
        let delivery = process.claim_one(queue).await;
        process.finish(&delivery).await.unwrap();
        assert_lost(&process.finish(&delivery).await);
    }
    assert_eq!(effects(&fixture).await, 2);
}

pub async fn a_claim_that_was_given_to_another_completes_nothing<F: Fixture>() {
    let (fixture, (old, stale), (new, fresh)) = claimed_after_another::<F>().await;
    assert_lost(&old.finish(&stale).await);
    assert_eq!(effects(&fixture).await, 0);
    new.finish(&fresh).await.unwrap();
    assert_eq!(effects(&fixture).await, 1);
}

pub async fn a_row_that_was_changed_by_hand_completes_nothing<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = Player::join(&fixture).await;
    let by_hand = [
        "delete from received_order",
        "update received_order set status = '1'",
        "update received_order set process_id = null",
    ];
    for change in by_hand {
        fixture.sql("delete from received_order").await;
        send_orders(&fixture, 1).await;
        let delivery = process.claim_one("orders").await;
        fixture.sql(change).await;
        assert_lost(&process.finish(&delivery).await);
        assert_eq!(effects(&fixture).await, 0, "{change}");
    }
}

/// An action that runs these statements and swallows what they say; then completion.
async fn after<F: Fixture>(process: &Player<F>, statements: &[&str]) -> Result<(), Error> {
    let delivery = process.claim_one("orders").await;
    let mut tx = process.store.begin().await?;
    effect::<F>(F::Store::connection(&mut tx), &delivery.message).await?;
    for statement in statements {
        let _ = F::through(F::Store::connection(&mut tx), (*statement).to_owned()).await;
    }
    let completed = process.store.complete(&mut tx, std::slice::from_ref(&delivery)).await;
    match completed {
        Ok(()) => process.store.commit(tx).await,
        Err(error) => {
            process.store.rollback(tx).await?;
            Err(error)
        }
    }
}

async fn assert_broken<F: Fixture>(fixture: &F, process: &Player<F>, statements: &[&str]) {
    let result = after(process, statements).await;
    assert!(matches!(result, Err(Error::BrokenTransaction(_))), "after {statements:?}: {result:?}");
    assert_eq!(effects(fixture).await, 0, "after {statements:?} an effect stayed");
    assert_eq!(
        fixture.number("select count(*) from received_order where status <> '0'").await,
        0,
        "after {statements:?}"
    );
}

const WRITE: &str = "insert into ledger (message, who) values ('late', 'late')";

/// An error that ended the transaction, swallowed; on MariaDB only a deadlock does that, which has a test of its own.
pub async fn a_swallowed_error_breaks_the_transaction<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    if !F::ENDING.is_empty() {
        let statements: Vec<_> = F::ENDING.iter().copied().chain([WRITE]).collect();
        assert_broken(&fixture, &process, &statements).await;
    }
}

pub async fn a_rollback_by_the_action_breaks_the_transaction<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let process = Player::join(&fixture).await;
    assert_broken(&fixture, &process, &["rollback"]).await;
    assert_broken(&fixture, &process, &["rollback", WRITE]).await;
    assert_broken(&fixture, &process, &["rollback", "begin", WRITE]).await;
}

/// A COMMIT in the middle is half of the work: it is refused where the database can, and never completes the message.
pub async fn a_commit_by_the_action_breaks_the_transaction<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let process = Player::join(&fixture).await;
    for statements in [&["commit"][..], &["commit", WRITE]] {
        let result = after(&process, statements).await;
        assert!(matches!(result, Err(Error::BrokenTransaction(_))), "after {statements:?}: {result:?}");
    }
    assert_eq!(fixture.number("select count(*) from ledger where message = 'late'").await, 0);
    assert_eq!(fixture.number("select count(*) from received_order where status <> '0'").await, 0);
}

pub async fn a_rolled_back_transaction_leaves_nothing<F: Fixture>() {
    let (fixture, process, delivery) = one_claimed::<F>().await;
    let mut tx = process.store.begin().await.unwrap();
    effect::<F>(F::Store::connection(&mut tx), &delivery.message).await.unwrap();
    process.store.complete(&mut tx, std::slice::from_ref(&delivery)).await.unwrap();
    process.store.rollback(tx).await.unwrap();
    assert_eq!(effects(&fixture).await, 0);
    process.finish(&delivery).await.unwrap();
    assert_eq!(effects(&fixture).await, 1);
}

pub async fn the_row_tells_whether_a_commit_arrived<F: Fixture>() {
    let (_fixture, process, delivery) = one_claimed::<F>().await;
    assert!(process.store.is_claimed(&delivery).await.unwrap());
    process.finish(&delivery).await.unwrap();
    assert!(!process.store.is_claimed(&delivery).await.unwrap());
}

pub async fn a_dropped_transaction_leaves_nothing_and_harms_nobody<F: Fixture>() {
    let (fixture, process, delivery) = one_claimed::<F>().await;
    for _ in 0..20 {
        let mut tx = process.store.begin().await.unwrap();
        effect::<F>(F::Store::connection(&mut tx), &delivery.message).await.unwrap();
        drop(tx);
    }
    process.finish(&delivery).await.unwrap();
    assert_eq!(effects(&fixture).await, 1);
}
