//! Publishing to an exchange: for other services, which have no row in this database. What is published waits in the outbox of a
//! broker's queue until its transaction has committed, and is handed to that broker by the relay.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    Client, Context, Error, Key, MessageId, NewMessage, Store, broker::Publication, error::Result, store, testing::Sent,
};

/// A broker to publish through.
pub struct Publisher<'a, S: Store> {
    store: &'a S,
    through: Option<&'a str>,
}

impl<S: Store> Publisher<'_, S> {
    /// Publishes a message in the caller's transaction: after it has committed, and never if it is rolled back. Returns its id.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, when it is not clear through which broker it goes, or the database fails.
    pub async fn publish(
        &self,
        tx: &mut S::Connection,
        exchange: &str,
        routing_key: &str,
        message: &(impl Serialize + Sync),
    ) -> Result<String> {
        let publication = publication(exchange, routing_key, message)?;
        let (queue, id) = publish(self.store, self.through, tx, publication).await?;
        self.store.wake_ups().sent(self.store, &queue, false);
        Ok(id)
    }
}

impl<S: Store> Client<S> {
    /// Publishes to an exchange through the broker of this queue, where there are several brokers.
    #[must_use]
    pub fn through<'a>(&'a self, queue: &'a str) -> Publisher<'a, S> {
        Publisher { store: &self.store, through: Some(queue) }
    }

    /// Publishes a message to an exchange, in the caller's transaction: after it has committed, and never if it is rolled back.
    /// Returns its id. What is sent to a queue of this database is [sent](Client::queue) instead, and runs exactly once.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, when it is not clear through which broker it goes, or the database fails.
    pub async fn publish(
        &self,
        tx: &mut S::Connection,
        exchange: &str,
        routing_key: &str,
        message: &(impl Serialize + Sync),
    ) -> Result<String> {
        Publisher { store: &self.store, through: None }.publish(tx, exchange, routing_key, message).await
    }
}

impl<S: Store> Context<S> {
    /// Publishes a message to an exchange in the action's transaction: it goes out only if the message is done. Returns its id.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, when it is not clear through which broker it goes, or the database fails.
    pub async fn publish(
        &mut self,
        exchange: &str,
        routing_key: &str,
        message: &(impl Serialize + Sync),
    ) -> Result<String> {
        self.publish_some(None, publication(exchange, routing_key, message)?).await
    }

    /// The same through the broker of this queue, where there are several brokers.
    ///
    /// # Errors
    /// As [`Context::publish`].
    pub async fn publish_through(
        &mut self,
        queue: &str,
        exchange: &str,
        routing_key: &str,
        message: &(impl Serialize + Sync),
    ) -> Result<String> {
        self.publish_some(Some(queue), publication(exchange, routing_key, message)?).await
    }

    async fn publish_some(&mut self, through: Option<&str>, publication: Publication) -> Result<String> {
        let store = self.store.clone();
        let to = format!("{}/{}", publication.exchange, publication.routing_key);
        let message = NewMessage::new(publication.payload.clone());
        let (queue, id) = publish(&store, through, self.tx().await?, publication).await?;
        if let Some(noted) = &mut self.noted {
            let id = MessageId { queue: queue.clone(), key: Key::new([id.clone()]) };
            noted.push(Sent::new(&to, id, message));
        }
        self.sent.entry(queue).or_default();
        Ok(id)
    }
}

fn publication(exchange: &str, routing_key: &str, message: &impl Serialize) -> Result<Publication> {
    let payload = serde_json::to_vec(message)?;
    Ok(Publication { exchange: exchange.into(), routing_key: routing_key.into(), payload, ..Publication::default() })
}

/// The queue whose broker it goes through, and its id.
async fn publish<S: Store>(
    store: &S,
    through: Option<&str>,
    tx: &mut S::Connection,
    publication: Publication,
) -> Result<(Arc<str>, String)> {
    let queue = broker_for(through, &store.broker_queues())?;
    let ids = store::publish(store, tx, &queue, &[publication]).await?;
    let id = ids.into_iter().next().ok_or("the store returned no message id")?;
    Ok((queue, id))
}

/// The queue through whose broker something is published: the one that was named, or the only one.
///
/// # Errors
/// [`Error::Setup`] if there is none, or if it is not clear which one.
fn broker_for(named: Option<&str>, queues: &[Arc<str>]) -> Result<Arc<str>> {
    let all = queues.join("`, `");
    match (named, queues) {
        (_, []) => Err(Error::Setup("cannot publish: no queue of this database is a broker queue".into())),
        (Some(named), queues) => queues
            .iter()
            .find(|queue| &***queue == named)
            .cloned()
            .ok_or_else(|| Error::Setup(format!("no broker queue `{named}`; publish through one of `{all}`"))),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Error::Setup(format!(
            "several brokers could publish this; choose one by naming its queue with `through`: `{all}`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_broker_or_the_one_that_was_named_publishes() {
        let both: [Arc<str>; 2] = ["paid".into(), "refund".into()];
        assert_eq!(&*broker_for(None, &both[..1]).unwrap(), "paid");
        assert_eq!(&*broker_for(Some("refund"), &both).unwrap(), "refund");
        let error = |named, queues| broker_for(named, queues).unwrap_err().to_string();
        assert!(error(None, &both[..]).contains("`through`: `paid`, `refund`"), "{}", error(None, &both));
        assert!(error(Some("mail"), &both).contains("`mail`; publish through one of `paid`, `refund`"));
        assert!(error(None, &[]).contains("no queue"));
    }
}
