//! The number of attempts that a message brings along, through a broker and back.

use ichido::{
    Client,
    broker::Broker as _,
    message::{ATTEMPTS, ClaimBy},
    store::{Database, Transactions},
};

use super::stage::{Script, Stage, Work, outgoing, ways};
use crate::fixture::{BrokerFixture, Fixture, failed_in};

/// What has failed for good, by attempts.
async fn attempts<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>) -> Vec<i64> {
    let mut attempts: Vec<_> = failed_in(&stage.store()).await.into_iter().map(|(_, attempts, _)| attempts).collect();
    attempts.sort_unstable();
    attempts
}

pub async fn a_message_has_its_own_attempts_behind_a_mutex<F: Fixture, B: BrokerFixture>() {
    for claim in ways::<F>() {
        let stage = Stage::<F, B>::new(claim).await;
        let store = stage.store();
        let client = Client::new(store.clone());
        for own in [1, 4] {
            let mut tx = store.begin().await.expect("a transaction");
            let tx_of = F::Store::connection(&mut tx);
            client.queue("orders").attempts(own).header("colour", "blue").send(tx_of, &own).await.expect("sent");
            store.commit(tx).await.expect("committed");
        }
        let process = stage.process(Work::of(Script::new(u32::MAX, false)));
        stage.until("both have failed", async || attempts(&stage).await == [1, 4]).await;
        process.end().await;
        assert_eq!(stage.effects().await, 0);
    }
}

/// Whoever publishes can write anything there: what is no number says nothing.
pub async fn a_message_of_elsewhere_has_its_own_attempts<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(*ways::<F>().last().unwrap_or(&ClaimBy::Lease)).await.inbox();
    stage.at.declare("orders").await;
    let values = ["1", "4", "0", "-7", "many", "99999999999999999999 ", ""];
    let messages = values.iter().zip(0..).map(|(value, n)| {
        let mut message = outgoing(&format!("m{n}"), "elsewhere", None);
        message.headers.insert(ATTEMPTS.to_owned(), (*value).to_owned());
        message
    });
    let messages: Vec<_> = messages.collect();
    for fate in stage.broker().publish(&messages).await {
        fate.expect("confirmed");
    }
    let process = stage.process(Work::of(Script::new(u32::MAX, false)));
    stage.until("all have failed", async || attempts(&stage).await == [1, 3, 3, 3, 3, 3, 4]).await;
    process.end().await;
    assert_eq!(stage.effects().await, 0);
}
