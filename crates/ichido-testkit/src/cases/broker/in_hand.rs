//! What the reader keeps in hand, and releases: batches, drains, pauses, stops, deaths, and who is whose.

use std::sync::Arc;

use ichido::{
    Key, Message, MessageId, Operate,
    broker::{Broker as _, Found},
    message::ClaimBy,
    process::Flag,
    store::{Mutexes, Processes},
};

use super::stage::{LIMIT_OF_ORDERS, Running, Script, Stage, Work, body, outgoing, ways};
use crate::{
    fixture::{BrokerFixture, Fixture, Player, failed},
    in_time,
};

/// Twenty messages, of which a process has begun four: its action stands still until the script lets it go on.
async fn four_of_twenty<F: Fixture, B: BrokerFixture>(
    way: ClaimBy,
) -> (Stage<F, B>, Arc<Script>, Running, Vec<String>) {
    let stage = Stage::<F, B>::new(way).await;
    let script = Script::new(0, true);
    let process = stage.process(Work::of(script.clone()));
    let ids = stage.send(20).await;
    for _ in 0..4 {
        script.entered().await;
    }
    (stage, script, process, ids)
}

/// More suspects than the broker hands out at a time, of which one runs: what else there is runs beside it.
pub async fn suspects_leave_room_for_others<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ClaimBy::Lease).await;
    let ids = stage.send(20).await;
    let keys: Vec<Key> = ids.iter().map(|id| id.parse::<MessageId>().unwrap().key).collect();
    let (victim, other) = (player(&stage).await, player(&stage).await);
    victim.store.claim_these(victim.registration.id, "orders", &handed_out(&keys)).await.unwrap();
    victim.die(&stage.db).await;
    assert_eq!(other.store.rescue(&other.registration).await.unwrap().messages, 20);
    let script = Script::new(0, true);
    let work = Work::of(script.clone());
    let process = stage.process_with(stage.broker(), work, |pool| pool.read_ahead(4), |process| process);
    script.entered().await;
    let more = stage.send(1).await;
    script.entered().await;
    assert_eq!(script.runs().iter().filter(|(id, _)| *id == more[0]).count(), 1, "a suspect runs alone");
    script.open(100);
    stage.until_effects(21).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&[ids, more].concat()).await;
}

/// What a broker hands out of what [`Stage::send`] has sent: orders with numbers, in their order.
fn handed_out(keys: &[Key]) -> Vec<Message> {
    let all = keys.iter().zip(0..);
    all.map(|(key, n)| Message::new("orders", key.clone(), body(n).as_bytes())).collect()
}

async fn player<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>) -> Player<F> {
    Player::join_with(stage.store(), &["orders"]).await
}

/// Both consume from one exchange, each from its own queue; a copy that reaches the wrong one is nobody's to acknowledge.
pub async fn two_services_with_two_databases_share_an_exchange<F: Fixture, B: BrokerFixture>() {
    let way = ways::<F>()[0];
    let one = Stage::<F, B>::new(way).await;
    let mut two = Stage::<F, B>::new(way).await;
    two.at = one.at.clone();
    let here = one.process(Work::plain());
    let (ours, theirs) = (one.send(5).await, two.send(5).await);
    // Of the other service only the relay runs: what it publishes goes to the wrong consumer.
    let relay = ichido::Relay::new(two.store()).broker("orders", two.broker());
    assert_eq!(relay.flush().await.unwrap().published, 5);
    one.until("dead", async || one.dead().await == (5, 0)).await;
    one.until_effects(5).await;
    here.end().await;
    one.exactly_once(&ours).await;
    assert_eq!((two.effects().await, two.count("ichido_mutex").await), (0, 5), "nobody's is acked away: {theirs:?}");
}

pub async fn messages_that_share_a_transaction_are_acknowledged_together<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(50).await;
        stage.publish_copies(&ids[..10]).await;
        let batches = |pool: ichido::Pool| pool.commit_interval(10).concurrency(2);
        let process = stage.process_with(stage.broker(), Work::plain(), batches, |process| process);
        stage.finish(process, &ids).await;
    }
}

pub async fn a_drain_ends_when_every_mutex_is_gone<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(30).await;
        let script = Script::new(1, false);
        let process = stage.process_with(stage.broker(), Work::of(script), |pool| pool, ichido::Process::drain);
        let code = in_time("the drain ends", process.ended).await;
        assert_eq!(code.unwrap().unwrap(), 0);
        stage.exactly_once(&ids).await;
        stage.ends_empty().await;
    }
}

pub async fn a_pause_gives_everything_back_and_a_resume_takes_it_again<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let (stage, script, process, ids) = four_of_twenty::<F, B>(way).await;
        stage.store().set_flag("Work", Flag::Pause, true).await.unwrap();
        // More than sixteen, where a relay had to publish some of them twice.
        stage.until("the rest is back", async || matches!(stage.orders().await, (16.., 4))).await;
        let owned = stage.db.number("select count(*) from ichido_mutex where owner is not null").await;
        assert!(owned <= 4, "{owned} rows are still marked");
        script.open(1000);
        stage.until_effects(4).await;
        stage.until("the four are done", async || matches!(stage.orders().await, (16.., 0))).await;
        stage.store().set_flag("Work", Flag::Pause, false).await.unwrap();
        stage.finish(process, &ids).await;
    }
}

pub async fn a_stop_gives_back_what_is_not_begun<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let (stage, script, process, ids) = four_of_twenty::<F, B>(way).await;
        process.stop.cancel();
        script.open(1000);
        process.end().await;
        stage.until("the rest is back", async || matches!(stage.orders().await, (16.., 0))).await;
        assert_eq!(stage.db.number("select count(*) from ichido_mutex where owner is not null").await, 0);
        let process = stage.process(Work::plain());
        stage.finish(process, &ids).await;
    }
}

/// Somebody has leased it and died; the broker hands it out to a live process, which finds it busy until it is rescued.
pub async fn what_a_dead_process_had_leased_runs_again<F: Fixture, B: BrokerFixture>() {
    for dead_letter in [false, true] {
        let stage = Stage::<F, B>::new(ClaimBy::Lease).await;
        let stage = if dead_letter { stage.dead_letter_busy() } else { stage };
        let ids = stage.send(1).await;
        let dead = Player::<F>::join_with(stage.store(), &["orders"]).await;
        let key = Key::new([ids[0].rsplit('/').next().unwrap()]);
        let found = dead.store.claim_these(dead.registration.id, "orders", &handed_out(&[key])).await.unwrap();
        assert!(matches!(found[0], Found::Free(_)), "{found:?}");
        dead.die(&stage.db).await;
        let process = stage.process(Work::plain());
        stage.until_effects(1).await;
        stage.until("done", async || stage.count("ichido_mutex").await == 0).await;
        process.end().await;
        stage.exactly_once(&ids).await;
        if !dead_letter {
            stage.ends_empty().await;
        }
    }
}

/// COMMIT is ichido's: what was committed without the mutex cannot be had twice, nor acknowledged.
pub async fn an_action_that_ends_its_transaction_is_a_dead_letter<F: Fixture, B: BrokerFixture>() {
    use ichido::{Action, Context, Outcome, Result};
    struct Rude<F>(std::marker::PhantomData<fn() -> F>);
    impl<F: Fixture> Action<F::Store> for Rude<F> {
        type Message = serde_json::Value;

        async fn handle(&self, cx: &mut Context<F::Store>, _: serde_json::Value) -> Result<Outcome> {
            let _ = F::through(cx.tx().await?, "rollback".into()).await;
            Ok(Outcome::Done)
        }
    }
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(1).await;
        let stop = ichido::CancellationToken::new();
        let process = ichido::Process::new(stage.store()).broker("orders", stage.broker()).stop_on(stop.clone());
        let pool = ichido::Pool::new("Work").from("orders");
        let process = tokio::spawn(process.action(pool, Rude::<F>(std::marker::PhantomData)).run());
        stage.until("dead", async || stage.dead().await == (1, 0)).await;
        stop.cancel();
        process.await.unwrap().unwrap();
        let known = failed(&stage.db).await;
        assert!(known[0].0 == ids[0] && known[0].2.contains("transaction"), "{known:?}");
    }
}

pub async fn of_two_copies_in_one_process_one_is_busy<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let script = Script::new(0, true);
        let process = stage.process(Work::of(script.clone()));
        let ids = stage.send(1).await;
        script.entered().await;
        stage.publish_copies(&ids).await;
        stage.until("the copy waits", async || stage.is_one_busy().await).await;
        script.open(1);
        stage.finish(process, &ids).await;
        assert_eq!(script.runs().len(), 1);
        let tally = stage.tally().await;
        assert!(tally.found_busy >= 1 && tally.duplicates == 1, "{tally:?}");
    }
}

pub async fn a_payload_over_the_limit_is_a_dead_letter<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    let process = stage.process(Work::plain());
    let origin = stage.origin().await;
    stage.db.sql("insert into ichido_mutex (id, queue) values ('7', 'orders')").await;
    let mut large = outgoing("7", &origin, Some("orders"));
    large.payload = vec![b' '; LIMIT_OF_ORDERS + 1];
    stage.broker().publish(&[large]).await.remove(0).unwrap();
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    let known = failed(&stage.db).await;
    assert!(known[0].0 == "orders/7" && known[0].2.contains("over the limit"), "{known:?}");
    process.end().await;
}
