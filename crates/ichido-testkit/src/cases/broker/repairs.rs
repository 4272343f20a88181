//! What repairs itself, and what operators repair: connections that are lost, drains of foreign messages, retries and discards of what
//! others have sent.

use std::time::Duration;

use ichido::{
    Client, Context, Operate, Outcome, Pool, Process, Result,
    store::{Database, Transactions},
};
use serde_json::Value;

use super::{
    inbox::stage as foreign,
    stage::{Script, Stage, Work, outgoing, ways},
};
use crate::{
    LIMIT,
    fixture::{BrokerFixture, Fixture, Line as _, failed},
    in_time,
};

/// What was handed out and not begun when a connection is lost comes again; it is nobody's, and so not busy.
pub async fn what_a_lost_connection_brought_is_not_busy_the_next_time<F: Fixture, B: BrokerFixture>() {
    if !B::BY_CONNECTION {
        return; // nothing is lost with a connection
    }
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await.dead_letter_busy();
        let line = stage.at.line();
        let script = Script::new(0, true);
        let ids = stage.send(20).await;
        let broker = line.queue("orders");
        let ahead = |pool: Pool| pool.read_ahead(20);
        // Nobody looks for what is lost before it comes again.
        let seldom = |process: Process<F::Store>| process.poll(LIMIT);
        let process = stage.process_with(broker, Work::of(script.clone()), ahead, seldom);
        for _ in 0..4 {
            script.entered().await;
        }
        stage.until("the others are in hand", async || stage.orders().await == (0, 20)).await;
        line.sever();
        // The copies of those that run.
        stage.until("it comes again", async || stage.dead().await.0 >= 4).await;
        script.open(100);
        stage.until_effects(20).await;
        stage.until("all is settled", async || stage.orders().await == (0, 0)).await;
        process.end().await;
        stage.exactly_once(&ids).await;
        assert_eq!(stage.dead().await, (4, 0), "nothing else was busy");
    }
}

/// Their messages have no rows here: the broker knows how many there are.
pub async fn a_drain_of_foreign_messages_ends_when_the_broker_has_no_more<F: Fixture, B: BrokerFixture>() {
    let stage = foreign::<F, B>().await;
    let names: Vec<String> = (0..30).map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = names.iter().map(|name| (Some(name.as_str()), "{}")).collect();
    stage.publish_foreign(&messages).await;
    let process = stage.process_with(stage.broker(), Work::of(Script::new(1, false)), |pool| pool, Process::drain);
    let code = in_time("the drain ends", process.ended).await;
    assert_eq!(code.unwrap().unwrap(), 0);
    assert_eq!(stage.effects().await, 30);
    stage.ends_empty().await;
}

pub async fn a_copy_of_a_discarded_foreign_message_is_a_duplicate<F: Fixture, B: BrokerFixture>() {
    let stage = foreign::<F, B>().await;
    let process = stage.process(Work::of(Script::new(3, false)));
    stage.publish_foreign(&[(Some("a"), "{}")]).await;
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    let id = failed(&stage.db).await.remove(0).0;
    assert!(stage.store().discard(&id.parse().unwrap()).await.unwrap());
    stage.publish_foreign(&[(Some("a"), "{}")]).await;
    stage.until("a duplicate", async || stage.tally().await.duplicates == 1).await;
    process.end().await;
    assert_eq!((stage.effects().await, stage.dead().await), (0, (1, 0)));
}

/// While the first waits for an operator, another message comes with its id.
pub async fn another_message_with_the_id_of_a_failed_one_stays_apart<F: Fixture, B: BrokerFixture>() {
    let stage = foreign::<F, B>().await;
    let process = stage.process(Work::of(Script::new(3, false)));
    stage.publish_foreign(&[(Some("a"), "1")]).await;
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    stage.db.sql("delete from ichido_outbox").await;
    stage.publish_foreign(&[(Some("a"), "2")]).await;
    stage.until("both are dead", async || stage.dead().await == (2, 0)).await;
    process.end().await;
    assert_eq!(stage.count("ichido_outbox").await, 0, "the second is not taken for the first");
    let letters = stage.at.dead_letters("orders").await;
    assert_eq!(
        letters.iter().map(|(payload, named)| (payload.as_str(), *named)).collect::<Vec<_>>(),
        [("1", true), ("2", false)]
    );
}

/// Takes so long that the broker is seen to have nothing meanwhile.
async fn announce<F: Fixture>(cx: &mut Context<F::Store>, message: Value) -> Result<Outcome> {
    // Time itself: nobody tells the test that somebody has looked.
    tokio::time::sleep(Duration::from_secs(2)).await;
    cx.publish("", "orders", &message).await?;
    Ok(Outcome::Done)
}

/// An action in the database publishes, by an exchange, to a queue of the same process.
pub async fn a_drain_waits_for_what_goes_from_the_database_to_a_broker<F: Fixture, B: BrokerFixture>() {
    let stage = foreign::<F, B>().await;
    let store = stage.store();
    let mut tx = store.begin().await.unwrap();
    Client::new(store.clone()).queue("mail").send(F::Store::connection(&mut tx), &1).await.unwrap();
    store.commit(tx).await.unwrap();
    let process = Process::new(store).broker("orders", stage.broker()).poll(Duration::from_millis(100)).drain();
    let process = process.action(Pool::new("Work").from("orders"), Work::<F>::plain());
    let process = process.action_fn(Pool::new("Mail").from("mail"), announce::<F>);
    assert_eq!(in_time("the drain ends", process.run()).await.unwrap(), 0);
    assert_eq!(stage.effects().await, 1);
    stage.ends_empty().await;
}

/// As if its process had died with it: then nobody could keep what it says, until it comes again.
pub async fn what_nobody_has_kept_is_not_retried_before_it_comes_again<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    let process = stage.process(Work::of(Script::new(3, false)));
    stage.db.sql("insert into ichido_mutex (id, queue) values ('theirs', 'orders')").await;
    let copy = || [outgoing("theirs", "elsewhere", None)];
    stage.publish(&copy()).await;
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    stage.db.sql("delete from ichido_outbox").await;
    let id = "orders/theirs".parse().unwrap();
    let refused = stage.store().retry(&id).await.unwrap_err().to_string();
    assert!(refused.contains("only in its dead letter"), "{refused}");
    assert_eq!(failed(&stage.db).await.len(), 1, "it stays failed");
    stage.publish(&copy()).await;
    stage.until("dead again", async || stage.dead().await == (2, 0)).await;
    assert!(stage.store().retry(&id).await.unwrap());
    stage.until_effects(1).await;
    stage.until("done", async || stage.count("ichido_mutex").await == 0).await;
    process.end().await;
    assert_eq!(stage.effects().await, 1);
}
