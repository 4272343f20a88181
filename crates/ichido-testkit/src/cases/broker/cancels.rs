//! Messages that a broker delivers and an operator cancels: before they are published, while they wait there, and while they run, however their
//! rows are held. No copy of them runs afterwards.

use std::time::Duration;

use ichido::{
    Client, MessageId,
    message::ClaimBy,
    store::{By, Cancelled},
};

use super::{
    inbox,
    stage::{Script, Stage, Work, ways},
};
use crate::{
    fixture::{BrokerFixture, Fixture},
    in_time,
};

/// Longer than any test machine takes to drop an action.
const WAIT: Duration = Duration::from_mins(1);

async fn cancel<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>, id: &str) -> Cancelled {
    let client = Client::new(stage.store());
    let id: MessageId = id.parse().expect("an id");
    let cancel = async { client.message(&id).by(By::user("anna")).wait(WAIT).cancel().await };
    in_time("it is cancelled or over", cancel).await.expect("an answer")
}

/// All ways to hold a row, by a mutex and from the inbox. What runs from an inbox has its transaction open: where one at a time writes, nobody can
/// cancel anything then.
async fn stages<F: Fixture, B: BrokerFixture>() -> Vec<Stage<F, B>> {
    let mut stages = Vec::new();
    for way in ways::<F>() {
        stages.push(Stage::new(way).await);
    }
    if F::LOCKS {
        stages.push(Stage::new(ClaimBy::Lock).await.inbox());
    }
    stages
}

pub async fn a_message_is_cancelled_before_it_is_published<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let ids = stage.send(3).await;
        assert_eq!(cancel(&stage, &ids[0]).await, Cancelled::Cancelled);
        let process = stage.process(Work::plain());
        stage.until_effects(2).await;
        stage.ends_empty().await;
        process.end().await;
        stage.exactly_once(&ids[1..]).await;
        assert_eq!(cancel(&stage, &ids[0]).await, Cancelled::Already);
    }
}

/// Its copy is at the broker, and nobody has received it: it is a copy of something done.
pub async fn a_message_is_cancelled_while_it_waits_at_the_broker<F: Fixture, B: BrokerFixture>() {
    for stage in stages::<F, B>().await {
        let script = Script::new(0, true);
        let process =
            stage.process_with(stage.broker(), Work::of(script.clone()), |pool| pool.concurrency(1), |process| process);
        let ids = stage.send(6).await;
        script.entered().await;
        let runs = script.runs();
        let waiting: Vec<_> = ids.iter().filter(|id| **id != runs[0].0).collect();
        stage
            .until("all are published", async || stage.count("ichido_outbox where published_at is null").await == 0)
            .await;
        assert_eq!(cancel(&stage, waiting[0]).await, Cancelled::Cancelled);
        script.open(100);
        stage.until_effects(5).await;
        stage.ends_empty().await;
        process.end().await;
        let rest: Vec<_> = ids.iter().filter(|id| *id != waiting[0]).cloned().collect();
        stage.exactly_once(&rest).await;
    }
}

pub async fn what_runs_is_dropped_when_it_is_cancelled<F: Fixture, B: BrokerFixture>() {
    for stage in stages::<F, B>().await {
        let script = Script::new(0, true);
        let process = stage.process(Work::of(script.clone()));
        let ids = stage.send(3).await;
        for _ in 0..3 {
            script.entered().await;
        }
        assert_eq!(cancel(&stage, &ids[1]).await, Cancelled::Cancelled);
        script.open(100);
        stage.until_effects(2).await;
        stage.ends_empty().await;
        process.end().await;
        stage.exactly_once(&[ids[0].clone(), ids[2].clone()]).await;
        assert_eq!(cancel(&stage, &ids[1]).await, Cancelled::Already);
        assert_eq!(stage.count("ichido_cancel").await, 0, "who has seen it takes it away");
        let (tally, audit) = (stage.tally().await, stage.count("ichido_audit where by_user = 'anna'").await);
        assert_eq!((tally.done, tally.failed, tally.retried, audit), (2, 0, 0, 1));
        assert_eq!(stage.dead().await, (0, 0));
    }
}

/// A foreign message that runs from the inbox has no row but its own, which is not committed: its process is asked.
pub async fn a_foreign_message_that_runs_is_cancelled<F: Fixture, B: BrokerFixture>() {
    if !F::LOCKS {
        return; // its transaction ends first
    }
    let stage = inbox::stage::<F, B>().await;
    let script = Script::new(0, true);
    let process = stage.process(Work::of(script.clone()));
    stage.publish_foreign(&[(Some("a"), "{}"), (Some("b"), "{}")]).await;
    for _ in 0..2 {
        script.entered().await;
    }
    let ids: Vec<_> = script.runs().into_iter().map(|(id, _)| id).collect();
    assert_eq!(cancel(&stage, &ids[0]).await, Cancelled::Cancelled, "{}", ids[0]);
    script.open(100);
    stage.until_effects(1).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&ids[1..]).await;
    assert_eq!(cancel(&stage, &ids[0]).await, Cancelled::Already);
}
