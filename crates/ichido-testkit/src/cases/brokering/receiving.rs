//! The inbox: messages of programs that know nothing of ichido, and copies for several queues.

use std::time::Duration;

use ichido::{Broker as _, Operate, Retention, Store};

use super::stage::{LIMIT, Script, Stage, Work, broker_at, outgoing, ways};
use crate::fixture::{Fixture, failed};

async fn stage<F: Fixture>() -> Stage<F> {
    let stage = Stage::<F>::new(ways::<F>()[0]).await.inbox();
    declare(&stage.broker()).await;
    stage
}

/// Declares the queue, again and again while the broker has no time for it.
pub(super) async fn declare(broker: &ichido_rabbitmq::RabbitMq) {
    let declared = async {
        while let Err(error) = broker.declare().await {
            assert!(error.is_transient(), "{error}");
        }
    };
    tokio::time::timeout(LIMIT, declared).await.expect("the queue is declared");
}

/// Nothing is left at the broker and in the database but ids.
async fn ends_done<F: Fixture>(stage: &Stage<F>, ids: i64) {
    stage.ends_empty().await;
    assert_eq!(stage.count("ichido_inbox").await, ids);
}

pub async fn foreign_messages_run_once_by_their_id<F: Fixture>() {
    let stage = stage::<F>().await;
    let process = stage.process(Work::plain());
    let names: Vec<String> = (0..30).map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = names.iter().map(|name| (Some(name.as_str()), "{}")).collect();
    stage.publish_foreign("", "orders", &messages).await;
    stage.publish_foreign("", "orders", &messages[..10]).await;
    stage.until_effects(30).await;
    ends_done(&stage, 30).await;
    process.end().await;
    assert_eq!(stage.effects().await, 30);
    assert_eq!(stage.tally().await.duplicates, 10);
}

pub async fn ids_in_an_inbox_are_compared_as_bytes<F: Fixture>() {
    let stage = stage::<F>().await;
    let process = stage.process(Work::plain());
    let ids = ["a", "A", "a ", "ä", "a\u{308}", "ａ", "1", "01", &"x".repeat(255), &"x".repeat(254)];
    let messages = ids.map(|id| (Some(id), "{}"));
    stage.publish_foreign("", "orders", &messages).await;
    stage.publish_foreign("", "orders", &messages).await;
    stage.until_effects(10).await;
    ends_done(&stage, 10).await;
    process.end().await;
    assert_eq!(stage.effects().await, 10);
}

pub async fn a_foreign_message_without_an_id_is_a_dead_letter<F: Fixture>() {
    let stage = stage::<F>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign("", "orders", &[(None, "{}"), (Some(""), "{}"), (Some("a"), "{}")]).await;
    stage.until_effects(1).await;
    stage.until("dead", async || stage.depth("orders.dead") == (2, 0)).await;
    process.end().await;
    assert_eq!(stage.effects().await, 1);
}

pub async fn two_foreign_messages_with_one_id_are_told_apart<F: Fixture>() {
    let stage = stage::<F>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign("", "orders", &[(Some("a"), "1")]).await;
    stage.until_effects(1).await;
    stage.publish_foreign("", "orders", &[(Some("a"), "2"), (Some("a"), "1")]).await;
    stage.until("dead", async || stage.depth("orders.dead") == (1, 0)).await;
    stage.until("acknowledged", async || stage.depth("orders") == (0, 0)).await;
    process.end().await;
    assert_eq!(stage.effects().await, 1);
}

/// Also if the broker hands the second one out again, because whoever had it has not settled it.
pub async fn another_message_with_the_same_id_is_told_apart_when_it_comes_again<F: Fixture>() {
    let stage = stage::<F>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign("", "orders", &[(Some("a"), "1")]).await;
    stage.until_effects(1).await;
    stage.until("acknowledged", async || stage.depth("orders") == (0, 0)).await;
    process.end().await;
    stage.publish_foreign("", "orders", &[(Some("a"), "2"), (Some("a"), "1")]).await;
    {
        let source = stage.broker().receive(10);
        stage.until("both are out", async || stage.depth("orders") == (0, 2)).await;
        drop(source);
    }
    stage.until("both are back", async || stage.depth("orders") == (2, 0)).await;
    let process = stage.process(Work::plain());
    stage.until("dead", async || stage.depth("orders.dead") == (1, 0)).await;
    stage.until("acknowledged", async || stage.depth("orders") == (0, 0)).await;
    process.end().await;
    assert_eq!(stage.effects().await, 1);
}

/// One exchange, three queues, three consumers, and duplicates.
pub async fn each_of_three_queues_has_its_effect_once<F: Fixture>() {
    let stage = stage::<F>().await;
    let names = ["orders", "second", "third"];
    let mut processes = Vec::new();
    for name in names {
        let fanned = |topology: &mut ichido_rabbitmq::Topology| {
            let busy_delay = topology.busy_delay;
            *topology = ichido_rabbitmq::Topology::new(name);
            (topology.busy_delay, topology.bindings) = (busy_delay, vec![("amq.fanout".into(), String::new())]);
        };
        let broker = broker_at(&stage.url, fanned);
        declare(&broker).await;
        let mut rules = stage.rules.clone();
        (rules.exchange, rules.routing_key, rules.queue) = ("amq.fanout".into(), String::new(), name.into());
        let store = stage.db.store_with(vec![ichido::Queue::broker(name, rules)]);
        let stop = ichido::CancellationToken::new();
        let process = ichido::Process::new(store).broker(name, broker).stop_on(stop.clone());
        let retry = ichido::RetryPolicy { first: Duration::from_millis(50), ..ichido::RetryPolicy::default() };
        let pool = ichido::Pool::new(name).from(name).retry(retry);
        let process = process.poll(Duration::from_millis(100)).action(pool, Work::<F>::of(Script::new(3, false)));
        processes.push((stop, tokio::spawn(process.run())));
    }
    let ids: Vec<String> = (0..40).map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = ids.iter().map(|id| (Some(id.as_str()), "{}")).collect();
    stage.publish_foreign("amq.fanout", "", &messages).await;
    stage.publish_foreign("amq.fanout", "", &messages[..15]).await;
    stage.until_effects(120).await;
    for name in names {
        stage.until("all queues are empty", async || stage.depth(name) == (0, 0)).await;
        let effects = format!("select count(distinct message) from ledger where message like '{name}/%'");
        assert_eq!(stage.db.number(&effects).await, 40, "{name}");
    }
    for (stop, process) in processes {
        stop.cancel();
        assert_eq!(process.await.unwrap().unwrap(), 0);
    }
    assert_eq!(stage.effects().await, 120);
    assert_eq!((stage.count("ichido_inbox").await, stage.count("ichido_mutex").await), (120, 0));
}

pub async fn a_foreign_message_that_fails_runs_again_from_its_own_queue<F: Fixture>() {
    let stage = stage::<F>().await;
    let script = Script::new(2, false);
    let process = stage.process(Work::of(script.clone()));
    stage.publish_foreign("", "orders", &[(Some("a"), "{}")]).await;
    stage.until_effects(1).await;
    ends_done(&stage, 1).await;
    process.end().await;
    let runs = script.runs();
    assert_eq!(runs.iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(runs.iter().all(|(id, _)| *id == runs[0].0), "it keeps its id: {runs:?}");
}

pub async fn a_foreign_message_that_has_failed_is_a_dead_letter_and_comes_back<F: Fixture>() {
    let stage = stage::<F>().await;
    let process = stage.process(Work::of(Script::new(3, false)));
    stage.publish_foreign("", "orders", &[(Some("a"), "{}")]).await;
    stage.until("dead", async || stage.depth("orders.dead") == (1, 0)).await;
    assert_eq!((stage.effects().await, stage.count("ichido_inbox").await), (0, 0));
    let known = failed(&stage.db).await;
    assert!(known.len() == 1 && known[0].1 == 3, "{known:?}");
    assert!(stage.store().retry(&known[0].0.parse().unwrap()).await.unwrap());
    stage.until_effects(1).await;
    stage.until("done", async || stage.count("ichido_mutex").await == 0).await;
    process.end().await;
    assert_eq!((stage.effects().await, stage.count("ichido_inbox").await), (1, 1));
}

pub async fn of_two_copies_of_a_foreign_message_one_is_busy<F: Fixture>() {
    if !F::LOCKS {
        return; // one transaction at a time writes
    }
    let stage = stage::<F>().await;
    let (a, b) = (Script::new(0, true), Script::new(0, false));
    let one = stage.process(Work::of(a.clone()));
    stage.publish_foreign("", "orders", &[(Some("a"), "{}")]).await;
    a.entered().await;
    let other = stage.process(Work::of(b.clone()));
    // Both get some of them, and whoever gets it finds it busy.
    for _ in 0..6 {
        stage.publish_foreign("", "orders", &[(Some("a"), "{}")]).await;
    }
    stage.until("the copies wait", async || stage.depth("orders.busy").0 > 0).await;
    a.open(10);
    stage.until_effects(1).await;
    ends_done(&stage, 1).await;
    one.end().await;
    other.end().await;
    assert_eq!((stage.effects().await, b.runs().len()), (1, 0));
}

/// Somebody has deleted the busy queue, or it takes nothing: nobody waits for it longer than for the message.
pub async fn without_a_busy_queue_copies_are_settled_when_the_message_is_done<F: Fixture>() {
    if !F::LOCKS {
        return; // one transaction at a time writes
    }
    let stage = stage::<F>().await;
    let (a, b) = (Script::new(0, true), Script::new(0, false));
    let one = stage.process(Work::of(a.clone()));
    stage.publish_foreign("", "orders", &[(Some("a"), "{}")]).await;
    a.entered().await;
    let other = stage.process(Work::of(b.clone()));
    stage.until("both consume", async || stage.consumers("orders") == 2).await;
    stage.delete("orders.busy").await;
    for _ in 0..6 {
        stage.publish_foreign("", "orders", &[(Some("a"), "{}")]).await;
    }
    stage.until("the copies are out", async || stage.depth("orders") == (0, 7)).await;
    a.open(10);
    stage.until("all are settled", async || stage.depth("orders") == (0, 0)).await;
    one.end().await;
    other.end().await;
    assert_eq!((stage.effects().await, b.runs().len()), (1, 0));
}

/// Whoever had it has not settled it, and may have died of it.
pub async fn what_is_handed_out_again_is_marked_and_runs_once<F: Fixture>() {
    let stage = stage::<F>().await;
    stage.publish_foreign("", "orders", &[(Some("a"), "{}"), (Some("b"), "{}")]).await;
    {
        let source = stage.broker().receive(10);
        stage.until("both are out", async || stage.depth("orders") == (0, 2)).await;
        drop(source);
    }
    stage.until("both are back", async || stage.depth("orders") == (2, 0)).await;
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

pub async fn foreign_messages_share_a_transaction<F: Fixture>() {
    let stage = stage::<F>().await;
    let names: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = names.iter().map(|name| (Some(name.as_str()), "{}")).collect();
    stage.publish_foreign("", "orders", &messages).await;
    stage.publish_foreign("", "orders", &messages[..10]).await;
    let origin = stage.origin().await;
    stage.broker().publish(&[outgoing("from elsewhere", &origin, None)]).await.remove(0).unwrap();
    let batches = |pool: ichido::Pool| pool.commit_interval(10).concurrency(2);
    let process = stage.process_with(stage.broker(), Work::plain(), batches, |process| process);
    stage.until_effects(51).await;
    ends_done(&stage, 51).await;
    process.end().await;
    assert_eq!(stage.effects().await, 51);
}

pub async fn what_is_in_the_inbox_is_forgotten_after_a_while<F: Fixture>() {
    let stage = stage::<F>().await;
    let process = stage.process(Work::plain());
    stage.publish_foreign("", "orders", &[(Some("a"), "{}"), (Some("b"), "{}")]).await;
    stage.until_effects(2).await;
    process.end().await;
    let store = stage.store();
    store.prune(Retention::default()).await.unwrap();
    assert_eq!(stage.count("ichido_inbox").await, 2);
    store.prune(Retention { inbox: Duration::ZERO, ..Retention::default() }).await.unwrap();
    assert_eq!(stage.count("ichido_inbox").await, 0);
}
