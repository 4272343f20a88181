//! Unique keys: one message at a time that is neither done nor failed.

use std::time::Duration;

use ichido::{
    Error, MessageId, NewMessage, Operate, Result,
    store::{Database, Failure, Queues, Transactions},
};

use crate::fixture::{Fixture, Player, queues};

async fn try_send<F: Fixture>(store: &F::Store, queue: &str, message: NewMessage) -> Result<MessageId, Error> {
    let mut tx = store.begin().await?;
    let sent = store.send(F::Store::connection(&mut tx), queue, &[message]).await;
    match sent {
        Ok(mut ids) => {
            store.commit(tx).await?;
            Ok(ids.remove(0))
        }
        Err(error) => {
            store.rollback(tx).await?;
            Err(error)
        }
    }
}

async fn send<F: Fixture>(store: &F::Store, unique: &str) -> MessageId {
    try_send::<F>(store, "mail", NewMessage::new("1").unique(unique)).await.unwrap()
}

pub async fn a_second_message_with_the_same_key_is_the_first_one<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let first = send::<F>(&player.store, "k").await;
    assert_eq!(send::<F>(&player.store, "k").await, first);
    assert_ne!(send::<F>(&player.store, "other").await, first);
    let claimed = player.claim_one("mail").await;
    assert_eq!(claimed.message.id(), first);
    assert_eq!(send::<F>(&player.store, "k").await, first, "it is being processed");
    let waiting = Failure::waiting("later", 1, Duration::from_hours(1));
    assert!(player.store.park(&claimed, &waiting).await.unwrap());
    assert_eq!(send::<F>(&player.store, "k").await, first, "it waits for a retry");
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 2);
}

pub async fn a_key_is_free_when_its_message_is_done<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let first = send::<F>(&player.store, "k").await;
    player.finish(&player.claim_one("mail").await).await.unwrap();
    assert_ne!(send::<F>(&player.store, "k").await, first);
}

pub async fn a_failed_message_frees_its_key_and_takes_it_again_if_free<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let first = send::<F>(&player.store, "k").await;
    let claimed = player.claim_one("mail").await;
    assert!(player.store.park(&claimed, &Failure::dead("no", 1)).await.unwrap());
    let second = send::<F>(&player.store, "k").await;
    assert_ne!(second, first);
    let refused = player.store.retry(&first).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("unique key")), "another one has its key");
    player.finish(&player.claim_one("mail").await).await.unwrap();
    assert!(player.store.retry(&first).await.unwrap());
    assert_eq!(send::<F>(&player.store, "k").await, first, "it is back in circulation, with its key");
}

pub async fn a_key_belongs_to_its_queue_and_is_compared_as_bytes<F: Fixture>() {
    let fixture = F::fresh().await;
    let mut queues = queues();
    queues.push(ichido::Queue::managed("letters"));
    let store = fixture.store_with(queues);
    let mut ids = vec![try_send::<F>(&store, "letters", NewMessage::new("1").unique("k")).await.unwrap().key];
    for key in ["k", "K", "k ", "ｋ", "'; drop table ledger; --"] {
        ids.push(send::<F>(&store, key).await.key);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

pub async fn a_second_send_changes_nothing_about_the_first<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let first = send::<F>(&player.store, "k").await;
    let later = NewMessage::new("2").unique("k").delay(Duration::from_hours(1));
    assert_eq!(try_send::<F>(&player.store, "mail", later).await.unwrap(), first);
    assert_eq!(&*player.claim_one("mail").await.message.payload, b"1", "it does not wait either");
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn of_many_at_once_one_is_sent<F: Fixture>() {
    let fixture = F::fresh().await;
    let each = crate::size(2, 20);
    let stores: Vec<_> = (0..5).map(|_| fixture.store()).collect();
    let senders: Vec<_> = (0..50)
        .map(|at| {
            let store = stores[at % 5].clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..each {
                    ids.push(loop {
                        match try_send::<F>(&store, "mail", NewMessage::new("1").unique("k")).await {
                            Ok(id) => break id,
                            // Two senders of the same key can be each other's deadlock; one of them tries again.
                            Err(error) => assert!(error.is_fault::<F::Store>(), "{error}"),
                        }
                    });
                }
                ids
            })
        })
        .collect();
    let mut ids = Vec::new();
    for sender in senders {
        ids.extend(sender.await.unwrap());
    }
    assert!(ids.len() == 50 * each as usize && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 1);
}

pub async fn a_rolled_back_send_frees_its_key<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let mut tx = store.begin().await.unwrap();
    let message = NewMessage::new("1").unique("k");
    let gone = store.send(F::Store::connection(&mut tx), "mail", &[message]).await.unwrap();
    store.rollback(tx).await.unwrap();
    send::<F>(&store, "k").await;
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 1, "{gone:?}");
}
