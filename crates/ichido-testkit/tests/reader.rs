//! A reader of one's own and its tests, with nothing but ichido, this crate and tokio: its messages are in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use ichido::{Delivery, Key, Message, Pool, Reader, Result, readers::Turn};
use ichido_testkit::fixture::{NoDatabase, ReaderFixture};
use tokio::sync::Notify;

/// Where the messages are until they are settled.
#[derive(Clone, Default)]
struct Basket(Arc<Shared>);

#[derive(Default)]
struct Shared {
    messages: Mutex<BTreeMap<i64, Message>>,
    changed: Notify,
}

/// Hands out what is in the basket, as far as it is not handed out already.
struct BasketReader {
    basket: Basket,
    in_hand: Mutex<BTreeSet<String>>,
    closed: AtomicBool,
}

impl Reader for BasketReader {
    fn try_next(&self) -> Result<Turn> {
        if self.closed.load(Ordering::SeqCst) {
            return Ok(Turn::Finished);
        }
        let (messages, mut in_hand) = (self.basket.0.messages.lock().unwrap(), self.in_hand.lock().unwrap());
        let next = messages.values().find(|message| in_hand.insert(message.key.to_string()));
        Ok(next.map_or(Turn::Empty, |message| Turn::Delivery(Box::new(Delivery::unclaimed(message.clone())))))
    }

    async fn changed(&self) {
        self.basket.0.changed.notified().await;
    }

    async fn settle(&self, delivery: Delivery) -> Result<()> {
        let key = delivery.message.key.to_string();
        if delivery.mark.is_some() {
            // Done, or failed for good.
            self.basket.0.messages.lock().unwrap().remove(&key.parse().unwrap());
        }
        self.in_hand.lock().unwrap().remove(&key);
        self.basket.0.changed.notify_one();
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

impl ReaderFixture for Basket {
    type Store = NoDatabase;

    async fn fresh() -> Self {
        Basket::default()
    }

    fn store(&self) -> NoDatabase {
        NoDatabase::default()
    }

    async fn put(&self, ids: RangeInclusive<i64>) {
        for id in ids {
            let payload = format!(r#"{{"id":{id}}}"#);
            let message = Message::new("basket", Key::new([id.to_string()]), payload.into_bytes());
            self.0.messages.lock().unwrap().insert(id, message);
            self.0.changed.notify_one();
        }
    }

    fn pool(&self, pool: Pool) -> Pool {
        pool.reader(BasketReader { basket: self.clone(), in_hand: Mutex::default(), closed: AtomicBool::default() })
    }
}

ichido_testkit::reading!(Basket);
