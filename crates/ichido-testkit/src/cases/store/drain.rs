//! When a process that drains has come to its end.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use ichido::{
    Context, NewMessage, Outcome, Pool, Process, Result, Store,
    store::{Database, Queues, Transactions},
};
use serde_json::Value;

use crate::{
    faults::{Fault, FaultyStore, Scene, Verb, one_line, orders},
    fixture::{Fixture, Player, send_orders},
    in_time,
};

/// So often a message goes from one queue to the other.
const MOVES: usize = 60;

/// A message that is done in one queue and sent to the other in the same transaction is always in one of them.
pub async fn nothing_is_drained_while_a_message_moves_between_queues<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = Player::join(&fixture).await;
    send_orders(&fixture, 1).await;
    let queues: [Arc<str>; 2] = ["mail".into(), "orders".into()];
    let moving = async {
        for _ in 0..MOVES {
            let order = process.claim_one("orders").await;
            let mut tx = process.store.begin().await.unwrap();
            let mail = [NewMessage::new("{}")];
            process.store.send(F::Store::connection(&mut tx), "mail", &mail).await.unwrap();
            process.store.complete(&mut tx, &[order]).await.unwrap();
            process.store.commit(tx).await.unwrap();
            let mail = process.claim_one("mail").await;
            let mut tx = process.store.begin().await.unwrap();
            let again = "update received_order set status = '0', process_id = null";
            F::through(F::Store::connection(&mut tx), again.into()).await.unwrap();
            process.store.complete(&mut tx, &[mail]).await.unwrap();
            process.store.commit(tx).await.unwrap();
        }
    };
    let store = fixture.store();
    let looking = async {
        loop {
            assert!(store.undrained(&queues).await.unwrap().is_some(), "it is in one of them");
        }
    };
    tokio::select! {
        () = moving => {}
        () = looking => {}
    }
}

/// A host that only drains, now and then, is the only one that returns what is due: no tick of a process that runs on helps it.
pub async fn a_drain_runs_what_is_due_by_now<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let (now, hour) = (SystemTime::now(), Duration::from_hours(1));
    let messages = [NewMessage::new("1").at(now - hour), NewMessage::new("2").delay(hour)];
    let mut tx = store.begin().await.unwrap();
    store.send(F::Store::connection(&mut tx), "mail", &messages).await.unwrap();
    store.commit(tx).await.unwrap();
    assert!(!store.is_drained("mail").await.unwrap(), "what is due by now is unprocessed");
    let process =
        Process::new(store.clone()).poll(hour).action_fn(Pool::new("Mail").from("mail"), read_mail::<F::Store>);
    assert_eq!(in_time("the drain", process.drain().run()).await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 1, "what is due later waits");
    assert!(store.is_drained("mail").await.unwrap());
}

async fn read_mail<S: Store>(_: &mut Context<S>, _: Value) -> Result<Outcome> {
    Ok(Outcome::Done)
}

/// Others may send to a queue whose reader has ended already; the other readers do not wait for that.
pub async fn what_one_reader_has_found_ends_the_drain_of_all<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    let other = Player::join(&scene.fixture).await;
    let order = other.claim_one("orders").await;
    scene.faults.inject(Verb::Drained, Fault::WrongReply, 1);
    let process = scene.process().poll(Duration::from_millis(20)).action_fn(orders(), one_line::<F>);
    let process = process.action_fn(Pool::new("Mail").from("mail"), read_mail::<FaultyStore<F::Store>>);
    scene.drain(process).await;
    assert!(!scene.fixture.store().is_drained("orders").await.unwrap());
    other.finish(&order).await.unwrap();
}
