//! Messages that a broker carries, from send to settlement, between two ends in one database.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ichido::{
    Client, Operate,
    broker::Broker as _,
    store::{Database, Transactions},
};

use super::stage::{Running, Script, Stage, Work, outgoing, ways, with_body};
use crate::fixture::{BrokerFixture, Fixture, Line as _, failed};

pub async fn what_is_sent_is_run_once_and_leaves_nothing<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(100).await;
        let process = stage.process(Work::plain());
        stage.finish(process, &ids).await;
    }
}

pub async fn what_is_rolled_back_is_never_published<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    let process = stage.process(Work::plain());
    let store = stage.store();
    let mut tx = store.begin().await.unwrap();
    Client::new(store.clone()).queue("orders").send(F::Store::connection(&mut tx), &1).await.unwrap();
    store.rollback(tx).await.unwrap();
    let ids = stage.send(1).await;
    stage.until_effects(1).await;
    process.end().await;
    stage.exactly_once(&ids).await;
    stage.ends_empty().await;
}

pub async fn a_copy_of_what_is_done_is_acknowledged_and_counted<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(3).await;
        let process = stage.process(Work::plain());
        stage.until_effects(3).await;
        stage.until("done", async || stage.count("ichido_mutex").await == 0).await;
        stage.publish_copies(&ids).await;
        stage.ends_empty().await;
        process.end().await;
        stage.exactly_once(&ids).await;
        assert_eq!(stage.tally().await.duplicates, 3);
    }
}

pub async fn a_message_that_fails_runs_again_after_its_backoff<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(1).await;
        let script = Script::new(2, false);
        let process = stage.process(Work::of(script.clone()));
        stage.finish(process, &ids).await;
        let attempts: Vec<u32> = script.runs().iter().map(|(_, attempt)| *attempt).collect();
        assert_eq!(attempts, [1, 2, 3]);
    }
}

pub async fn a_snoozed_message_comes_again_as_the_same_attempt<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(4).await;
        let script = Script::snoozing(10);
        let process = stage.process(Work::of(script.clone()));
        stage.finish(process, &ids).await;
        let runs = script.runs();
        assert!(runs.len() == 14 && runs.iter().all(|(_, attempt)| *attempt == 1), "{way:?}: {runs:?}");
        let tally = stage.tally().await;
        assert_eq!((tally.done, tally.snoozed, tally.retried), (4, 10, 0), "{way:?}");
    }
}

/// A message that has failed for good, and is a dead letter; a fourth run would be done.
async fn one_that_failed<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>) -> (Vec<String>, Arc<Script>, Running) {
    let ids = stage.send(1).await;
    let script = Script::new(3, false);
    let process = stage.process(Work::of(script.clone()));
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    (ids, script, process)
}

/// An operator retries it: it is done, once.
async fn retried<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>, ids: &[String], process: Running) {
    assert!(stage.store().retry(&ids[0].parse().unwrap()).await.unwrap());
    stage.until_effects(1).await;
    stage.until("done", async || stage.count("ichido_mutex").await == 0).await;
    process.end().await;
    stage.exactly_once(ids).await;
}

pub async fn what_has_failed_is_a_dead_letter_until_an_operator_retries<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let (ids, script, process) = one_that_failed(&stage).await;
        assert_eq!(stage.effects().await, 0);
        let known = failed(&stage.db).await;
        assert_eq!(known.len(), 1, "{known:?}");
        assert!(known[0].0 == ids[0] && known[0].1 == 3 && known[0].2.contains("told to fail"), "{known:?}");
        retried(&stage, &ids, process).await;
        assert_eq!(script.runs().last().unwrap().1, 1, "as attempt one");
        assert_eq!(stage.dead().await, (1, 0), "the copy stays for whoever looks after dead letters");
    }
}

pub async fn what_was_not_sent_from_here_is_a_dead_letter<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ours = stage.origin().await;
        let process = stage.process(Work::plain());
        let strangers = [
            outgoing("a", "elsewhere", Some("orders")),
            outgoing("b", &ours, Some("mail")),
            outgoing("c", &ours, None),
        ];
        for fate in stage.broker().publish(&strangers).await {
            fate.unwrap();
        }
        stage.until("dead", async || stage.dead().await == (3, 0)).await;
        process.end().await;
        assert_eq!(stage.effects().await, 0);
    }
}

/// Whoever may publish knows the id of a message that waits, and sends another body under it, before and after the genuine one.
pub async fn another_body_under_a_pending_id_never_runs<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let stage = if way == ways::<F>()[0] { stage } else { stage.dead_letter_busy() };
        let ids = stage.send(1).await;
        let forged = [with_body(outgoing(&ids[0], &stage.origin().await, Some("orders")), r#"{"id":666}"#)];
        stage.publish(&forged).await;
        let script = Script::new(1, true);
        let process = stage.process(Work::of(script.clone()));
        script.entered().await;
        stage.until("the first is a dead letter", async || stage.dead().await == (1, 0)).await;
        script.open(1); // the genuine one fails, and waits for its retry
        script.entered().await;
        stage.publish(&forged).await;
        script.open(1);
        stage.until_effects(1).await;
        stage.until("done", async || stage.count("ichido_mutex").await == 0).await;
        let all_gone = async || stage.orders().await == (0, 0) && stage.busy().await == (0, 0);
        stage.until("the second is gone", all_gone).await;
        process.end().await;
        stage.exactly_once(&ids).await;
        let bodies = script.bodies.lock().unwrap().clone();
        assert_eq!(bodies, vec![serde_json::json!({ "id": 0 }); 2], "{way:?}: what was sent, twice");
    }
}

/// The copy of what has failed is the message; a forged one is not, and does not become it.
pub async fn another_body_under_a_failed_id_is_never_its_copy<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let (ids, script, process) = one_that_failed(&stage).await;
        let forged = with_body(outgoing(&ids[0], &stage.origin().await, Some("orders")), r#"{"id":666}"#);
        stage.publish(&[forged]).await;
        stage.until("both are dead letters", async || stage.dead().await == (2, 0)).await;
        retried(&stage, &ids, process).await;
        assert!(script.bodies.lock().unwrap().iter().all(|body| body["id"] == 0), "{way:?}");
    }
}

/// A is cut off while it processes; B gets the message and finds it busy; A commits, and its acknowledgement fails.
pub async fn the_classic_story_ends_with_one_effect<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        for dead_letter in [false, true] {
            let stage = Stage::<F, B>::new(way).await;
            let stage = if dead_letter { stage.dead_letter_busy() } else { stage };
            let line = stage.at.line();
            let (a, b) = (Script::new(0, true), Script::new(0, false));
            let cut_off = stage.process_at(line.queue("orders"), Work::of(a.clone()));
            let ids = stage.send(1).await;
            a.entered().await;
            line.close();
            let other = stage.process(Work::of(b.clone()));
            let busy = async || stage.is_one_busy().await || stage.dead().await == (1, 0);
            stage.until("B finds it busy", busy).await;
            assert_eq!(stage.effects().await, 0);
            a.open(1);
            stage.until_effects(1).await;
            if dead_letter {
                stage.until("dead", async || stage.dead().await == (1, 0)).await;
            } else {
                stage.ends_empty().await;
            }
            cut_off.end().await;
            other.end().await;
            stage.exactly_once(&ids).await;
            assert_eq!(b.runs(), [], "B never ran it");
        }
    }
}

pub async fn a_message_with_a_delay_is_published_when_it_is_due<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    let process = stage.process(Work::plain());
    let store = stage.store();
    let mut tx = store.begin().await.unwrap();
    let sender = Client::new(store.clone());
    let (delay, began) = (Duration::from_secs(1), Instant::now());
    let sender = sender.queue("orders").delay(delay);
    let id = sender.send(F::Store::connection(&mut tx), &1).await.unwrap();
    store.commit(tx).await.unwrap();
    stage.until_effects(1).await;
    // Databases count in milliseconds.
    assert!(began.elapsed() + Duration::from_millis(2) > delay, "it ran before its time");
    process.end().await;
    stage.exactly_once(&[id.to_string()]).await;
    stage.ends_empty().await;
}
