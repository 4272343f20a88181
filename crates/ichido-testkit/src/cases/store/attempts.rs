//! The number of attempts that a message brings along: it takes the place of its action's, for failures and for deaths.

use std::time::Duration;

use ichido::{
    Client, Context, Inspect, Key, MessageId, NewMessage, Operate, Outcome, Pool, Process, Result, RetryPolicy,
    inspect::{DIED_RUNNING, ParkedFilter},
    message::Whole,
    store::{Outbox, Processes},
};

use crate::{
    cases::broker_rows::{BODY, join, publish_all, send_all},
    fixture::{Fixture, Player, failed},
};

/// Runs what is in `mail` until it has failed; its action allows three attempts.
async fn drain<F: Fixture>(fixture: &F) {
    async fn fail<S: ichido::Store>(cx: &mut Context<S>, _: Whole) -> Result<Outcome> {
        assert!(cx.headers()?.keys().all(|name| name == "tenant"), "what is ichido's own is not shown");
        Err("no".into())
    }
    let retry = RetryPolicy { attempts: 3, first: Duration::ZERO, max: Duration::ZERO, factor: 1.0 };
    let process = Process::new(fixture.store()).poll(Duration::from_millis(20)).drain();
    let code = process.action_fn(Pool::new("Fail").from("mail").retry(retry), fail::<F::Store>).run().await.unwrap();
    assert_eq!(code, 0);
}

async fn attempts<F: Fixture>(fixture: &F) -> Vec<i64> {
    failed(fixture).await.into_iter().map(|(_, attempts, _)| attempts).collect()
}

pub async fn a_message_has_as_many_attempts_as_it_was_sent_with<F: Fixture>() {
    let fixture = F::fresh().await;
    let client = Client::new(fixture.store());
    client.queue("mail").attempts(1).send_and_commit(&1).await.unwrap();
    client.queue("mail").attempts(5).header("tenant", "x").send_and_commit(&2).await.unwrap();
    client.queue("mail").send_and_commit(&3).await.unwrap();
    drain(&fixture).await;
    assert_eq!(attempts(&fixture).await, [1, 5, 3]);
}

pub async fn a_retried_message_gets_them_again<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let id = Client::new(store.clone()).queue("mail").attempts(2).send_and_commit(&1).await.unwrap();
    drain(&fixture).await;
    assert!(store.retry(&id).await.unwrap());
    drain(&fixture).await;
    assert_eq!(attempts(&fixture).await, [2]);
    let history = store.parked(&ParkedFilter::default()).await.unwrap().remove(0).history;
    assert_eq!(history.len(), 4, "twice two");
}

/// As plain SQL can write them; the action's number counts then.
pub async fn a_number_that_is_none_says_nothing<F: Fixture>() {
    let fixture = F::fresh().await;
    for value in ["\"0\"", "\"-1\"", "\"many\"", "7", "null"] {
        let insert = format!(
            "insert into ichido_message (queue, payload, headers) values ('mail', '1', '{{\"x-ichido-attempts\":{value}}}')"
        );
        fixture.sql(&insert).await;
    }
    drain(&fixture).await;
    assert_eq!(attempts(&fixture).await, [3; 5]);
}

/// Lets processes die of the message until it is parked; how many.
async fn deaths<F: Fixture>(fixture: &F, medic: &Player<F>, id: &MessageId) -> u32 {
    for deaths in 1.. {
        let broker = &*id.queue == "paid";
        let victim = if broker { join(fixture).await } else { Player::join(fixture).await };
        let delivery = if broker { victim.take(&id.queue, &id.key).await } else { victim.claim_one(&id.queue).await };
        if delivery.is_suspect() {
            victim.store.mark_running(victim.registration.id, Some(id)).await.unwrap();
        }
        victim.die(fixture).await;
        if medic.store.rescue(&medic.registration).await.unwrap().parked > 0 {
            return deaths;
        }
    }
    unreachable!("it is parked in the end")
}

pub async fn a_message_that_kills_its_process_is_parked_after_its_own<F: Fixture>() {
    for own in [1, 5] {
        let fixture = F::fresh().await;
        let medic = Player::join(&fixture).await;
        let client = Client::new(fixture.store());
        let id = client.queue("mail").attempts(own).send_and_commit(&1).await.unwrap();
        assert_eq!(deaths(&fixture, &medic, &id).await, own + 1, "once as a bystander");
        assert_eq!(failed(&fixture).await, [(id.to_string(), own.into(), DIED_RUNNING.to_owned())]);
    }
}

pub async fn so_is_one_that_a_broker_carries<F: Fixture>() {
    for own in [1, 5] {
        let fixture = F::fresh().await;
        let medic = join(&fixture).await;
        let key: Key = send_all(&medic.store, "paid", &[NewMessage::new(BODY).attempts(own)]).await.remove(0);
        let unsent = medic.store.unsent("paid", 1).await.unwrap().remove(0);
        assert_eq!(unsent.message.headers[ichido::message::ATTEMPTS], own.to_string(), "it travels with the message");
        publish_all(&medic.store, "paid").await;
        let id = MessageId { queue: "paid".into(), key };
        assert_eq!(deaths(&fixture, &medic, &id).await, own + 1, "once as a bystander");
    }
}
