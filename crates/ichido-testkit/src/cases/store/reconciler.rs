//! The reconciler: what a broker has lost is published again, by whichever relay has the lease, and whatever lies among the dead
//! letters.

use std::{collections::BTreeSet, time::Duration};

use ichido::{
    CancellationToken, Guarded, NewMessage, Queue, Relay,
    broker::Depths,
    store::{Failure, Queues},
};
use tokio::sync::mpsc;

use super::publications::Told;
use crate::{
    LIMIT,
    cases::broker_rows::{BODY, publish_all, send_all},
    fixture::{Fixture, Player},
};

/// A relay looks after twice that time.
const RELAY_AFTER: Duration = Duration::from_millis(300);

fn paid() -> Vec<Queue> {
    let mut rules = Guarded::new("", "paid").lease();
    rules.relay_after = RELAY_AFTER;
    vec![Queue::broker("paid", rules)]
}

/// The ids of what relays publish at a broker with these depths; each relay starts some time after the one before it.
async fn published<F: Fixture>(fixture: &F, depths: Depths, relays: u32, ids: usize) -> BTreeSet<String> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let mut running = Vec::new();
    for _ in 0..relays {
        let broker = Told { tell: tell.clone(), depths: Some(depths) };
        let relay = Relay::new(fixture.store_with(paid())).broker("paid", broker).poll(Duration::from_millis(20));
        running.push(tokio::spawn(relay.run(stop.clone())));
        // Time itself: the relays look at different moments.
        tokio::time::sleep(2 * RELAY_AFTER / relays).await;
    }
    let mut all = BTreeSet::new();
    let heard = async {
        while all.len() < ids {
            all.insert(told.recv().await.expect("relays run").id);
        }
    };
    let heard = tokio::time::timeout(LIMIT, heard).await;
    stop.cancel();
    for relay in running {
        relay.await.unwrap();
    }
    assert!(heard.is_ok(), "nobody publishes it again");
    all
}

/// Of three relays each has the lease at every other of its looks, at most.
pub async fn of_several_relays_one_notices_what_the_broker_has_lost<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(paid());
    let sent = send_all(&store, "paid", &vec![NewMessage::new("{}"); 5]).await;
    publish_all(&store, "paid").await;
    let nothing = Depths { unacknowledged: Some(0), ..Depths::default() };
    let again = published(&fixture, nothing, 3, 5).await;
    assert_eq!(again, sent.iter().map(|key| key.columns()[0].clone()).collect());
}

pub async fn dead_letters_of_what_has_failed_hide_nothing_that_is_lost<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::<F>::join_with(fixture.store_with(paid()), &["paid"]).await;
    let sent = send_all(&player.store, "paid", &vec![NewMessage::new(BODY); 6]).await;
    publish_all(&player.store, "paid").await;
    let (failed, lost) = sent.split_at(4);
    for key in failed {
        let delivery = player.take("paid", key).await;
        assert!(player.store.park(&delivery, &Failure::dead("no", 1)).await.unwrap());
    }
    let dead = Depths { unacknowledged: Some(0), dead: 4, ..Depths::default() };
    let again = published(&fixture, dead, 1, 2).await;
    assert_eq!(again, lost.iter().map(|key| key.columns()[0].clone()).collect());
}

/// What a broker has counted before a message was published knows nothing of it.
pub async fn counts_that_are_older_than_a_message_do_not_miss_it<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(paid());
    send_all(&store, "paid", &vec![NewMessage::new("{}"); 3]).await;
    publish_all(&store, "paid").await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let stale = Depths { unacknowledged: Some(0), stale: Duration::from_hours(1), ..Depths::default() };
    let relay = Relay::new(store).broker("paid", Told { tell, depths: Some(stale) }).poll(Duration::from_millis(20));
    let stop = CancellationToken::new();
    let running = tokio::spawn(relay.run(stop.clone()));
    // Time itself: so long that it has looked twice.
    tokio::time::sleep(8 * RELAY_AFTER).await;
    stop.cancel();
    running.await.unwrap();
    assert!(told.try_recv().is_err(), "nothing is published again");
}
