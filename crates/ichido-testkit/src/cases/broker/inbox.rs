//! The inbox: messages of programs that know nothing of ichido, and copies for several queues.

use std::{sync::Arc, time::Duration};

use ichido::{Operate, broker::Broker as _, process::Retention, store::Stats};

use super::stage::{Running, Script, Stage, Work, outgoing, ways};
use crate::fixture::{BrokerFixture, Fixture, failed};

/// A stage whose queue is there, for senders that know nothing of ichido.
pub(crate) async fn stage<F: Fixture, B: BrokerFixture>() -> Stage<F, B> {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await.inbox();
    stage.at.declare("orders").await;
    stage
}

/// Two processes, each with what its action does: the first is at the foreign message `a` until it may go on, the other has begun nothing.
pub(crate) async fn two_at_one<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>) -> [(Arc<Script>, Running); 2] {
    let (a, b) = (Script::new(0, true), Script::new(0, false));
    let one = stage.process(Work::of(a.clone()));
    stage.publish_foreign(&[(Some("a"), "{}")]).await;
    a.entered().await;
    let other = stage.process(Work::of(b.clone()));
    [(a, one), (b, other)]
}

/// Nothing is left at the broker and in the database but ids.
async fn ends_done<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>, ids: i64) {
    stage.ends_empty().await;
    assert_eq!(stage.count("ichido_inbox").await, ids);
}

pub async fn foreign_messages_run_once_by_their_id<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let process = stage.process(Work::plain());
    let names: Vec<String> = (0..30).map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = names.iter().map(|name| (Some(name.as_str()), "{}")).collect();
    stage.publish_foreign(&messages).await;
    stage.publish_foreign(&messages[..10]).await;
    stage.until_effects(30).await;
    ends_done(&stage, 30).await;
    process.end().await;
    assert_eq!(stage.effects().await, 30);
    assert_eq!(stage.tally().await.duplicates, 10);
}

pub async fn ids_in_an_inbox_are_compared_as_bytes<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let process = stage.process(Work::plain());
    let ids = ["a", "A", "a ", "ä", "a\u{308}", "ａ", "1", "01", &"x".repeat(255), &"x".repeat(254)];
    let messages = ids.map(|id| (Some(id), "{}"));
    stage.publish_foreign(&messages).await;
    stage.publish_foreign(&messages).await;
    stage.until_effects(10).await;
    ends_done(&stage, 10).await;
    process.end().await;
    assert_eq!(stage.effects().await, 10);
}

pub async fn a_foreign_message_without_an_id_is_a_dead_letter<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign(&[(None, "{}"), (Some(""), "{}"), (Some("a"), "{}")]).await;
    let (named, nameless) = if B::NAMES { (3, 0) } else { (1, 2) };
    stage.until_effects(named).await;
    stage.until("dead", async || stage.dead().await == (nameless, 0)).await;
    process.end().await;
    assert_eq!(stage.effects().await, named);
}

pub async fn two_foreign_messages_with_one_id_are_told_apart<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign(&[(Some("a"), "1")]).await;
    stage.until_effects(1).await;
    stage.publish_foreign(&[(Some("a"), "2"), (Some("a"), "1")]).await;
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    stage.until("acknowledged", async || stage.orders().await == (0, 0)).await;
    process.end().await;
    assert_eq!(stage.effects().await, 1);
}

/// Also if the broker hands the second one out again, because whoever had it has not settled it.
pub async fn another_message_with_the_id_is_told_apart_when_redelivered<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign(&[(Some("a"), "1")]).await;
    stage.until_effects(1).await;
    stage.until("acknowledged", async || stage.orders().await == (0, 0)).await;
    process.end().await;
    stage.publish_foreign(&[(Some("a"), "2"), (Some("a"), "1")]).await;
    {
        let source = stage.broker().receive(10);
        stage.until("both are out", async || stage.orders().await == (0, 2)).await;
        drop(source);
    }
    stage.until("both are back", async || stage.orders().await == (2, 0)).await;
    let process = stage.process(Work::plain());
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    stage.until("acknowledged", async || stage.orders().await == (0, 0)).await;
    process.end().await;
    assert_eq!(stage.effects().await, 1);
}

pub async fn a_foreign_message_that_fails_runs_again_from_its_own_queue<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let script = Script::new(2, false);
    let process = stage.process(Work::of(script.clone()));
    stage.publish_foreign(&[(Some("a"), "{}")]).await;
    stage.until_effects(1).await;
    ends_done(&stage, 1).await;
    process.end().await;
    let runs = script.runs();
    assert_eq!(runs.iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(runs.iter().all(|(id, _)| *id == runs[0].0), "it keeps its id: {runs:?}");
}

pub async fn a_snoozed_foreign_message_comes_again_as_the_same_attempt<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let script = Script::snoozing(5);
    let process = stage.process(Work::of(script.clone()));
    stage.publish_foreign(&[(Some("a"), "{}"), (Some("b"), "{}")]).await;
    stage.until_effects(2).await;
    ends_done(&stage, 2).await;
    process.end().await;
    let runs = script.runs();
    assert!(runs.len() == 7 && runs.iter().all(|(_, attempt)| *attempt == 1), "{runs:?}");
    assert_eq!((stage.effects().await, stage.tally().await.snoozed), (2, 5));
}

pub async fn a_failed_foreign_message_is_a_dead_letter_and_comes_back<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let process = stage.process(Work::of(Script::new(3, false)));
    stage.publish_foreign(&[(Some("a"), "{}")]).await;
    stage.until("dead", async || stage.dead().await == (1, 0)).await;
    assert_eq!((stage.effects().await, stage.count("ichido_inbox").await), (0, 0));
    let known = failed(&stage.db).await;
    assert!(known.len() == 1 && known[0].1 == 3, "{known:?}");
    assert!(stage.store().retry(&known[0].0.parse().unwrap()).await.unwrap());
    stage.until_effects(1).await;
    stage.until("done", async || stage.count("ichido_mutex").await == 0).await;
    process.end().await;
    assert_eq!((stage.effects().await, stage.count("ichido_inbox").await), (1, 1));
}

pub async fn of_two_copies_of_a_foreign_message_one_is_busy<F: Fixture, B: BrokerFixture>() {
    if !F::LOCKS {
        return; // one transaction at a time writes
    }
    let stage = stage::<F, B>().await;
    let [(a, one), (b, other)] = two_at_one(&stage).await;
    // Both get some of them, and whoever gets it finds it busy.
    for _ in 0..6 {
        stage.publish_foreign(&[(Some("a"), "{}")]).await;
    }
    stage.until("the copies wait", async || stage.is_one_busy().await).await;
    a.open(10);
    stage.until_effects(1).await;
    ends_done(&stage, 1).await;
    one.end().await;
    other.end().await;
    assert_eq!((stage.effects().await, b.runs().len()), (1, 0));
}

/// Whoever had it has not settled it, and may have died of it.
pub async fn what_is_handed_out_again_is_marked_and_runs_once<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    stage.publish_foreign(&[(Some("a"), "{}"), (Some("b"), "{}")]).await;
    {
        let source = stage.broker().receive(10);
        stage.until("both are out", async || stage.orders().await == (0, 2)).await;
        drop(source);
    }
    stage.until("both are back", async || stage.orders().await == (2, 0)).await;
    let script = Script::new(0, true);
    let process = stage.process(Work::of(script.clone()));
    script.entered().await;
    let marked = "select count(*) from ichido_mutex where owner is not null";
    stage.until("both are marked", async || stage.db.number(marked).await == 2).await;
    script.open(10);
    stage.until_effects(2).await;
    ends_done(&stage, 2).await;
    process.end().await;
    assert_eq!(stage.effects().await, 2);
}

pub async fn foreign_messages_share_a_transaction<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let names: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = names.iter().map(|name| (Some(name.as_str()), "{}")).collect();
    stage.publish_foreign(&messages).await;
    stage.publish_foreign(&messages[..10]).await;
    let origin = stage.origin().await;
    stage.broker().publish(&[outgoing("from elsewhere", &origin, None)]).await.remove(0).unwrap();
    let batches = |pool: ichido::Pool| pool.commit_interval(10).concurrency(2);
    let process = stage.process_with(stage.broker(), Work::plain(), batches, |process| process);
    stage.until_effects(51).await;
    ends_done(&stage, 51).await;
    process.end().await;
    assert_eq!(stage.effects().await, 51);
}

pub async fn what_is_in_the_inbox_is_forgotten_after_a_while<F: Fixture, B: BrokerFixture>() {
    let stage = stage::<F, B>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign(&[(Some("a"), "{}"), (Some("b"), "{}")]).await;
    stage.until_effects(2).await;
    process.end().await;
    let store = stage.store();
    store.prune(Retention::default()).await.unwrap();
    assert_eq!(stage.count("ichido_inbox").await, 2);
    store.prune(Retention { inbox: Duration::ZERO, ..Retention::default() }).await.unwrap();
    assert_eq!(stage.count("ichido_inbox").await, 0);
}
