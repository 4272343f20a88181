//! A broker whose kind is known only when the program runs: the command line has one for each queue of its configuration, whatever
//! keeps it.

use std::sync::Arc;

use super::{Broker, Depths, DynBroker, DynSource, Outgoing, Received, Settlement, Source, Unpublished};

/// A broker of any kind. Cheap to clone.
#[derive(Clone)]
pub struct AnyBroker(Arc<dyn DynBroker>);

/// A source of any kind.
pub struct AnySource(Arc<dyn DynSource>);

impl AnyBroker {
    /// This one.
    pub fn new(broker: impl Broker) -> Self {
        AnyBroker(Arc::new(broker))
    }
}

impl Broker for AnyBroker {
    type Source = AnySource;

    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        self.0.publish(messages).await
    }

    fn at_a_time(&self) -> usize {
        self.0.at_a_time()
    }

    fn receive(&self, prefetch: u16) -> AnySource {
        AnySource(self.0.receive(prefetch))
    }

    async fn depths(&self) -> Result<Depths, String> {
        self.0.depths().await
    }
}

impl Source for AnySource {
    fn try_next(&self) -> Option<Received> {
        self.0.try_next()
    }

    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    fn prefetch(&self) -> u16 {
        self.0.prefetch()
    }

    fn has_more(&self) -> Option<bool> {
        self.0.has_more()
    }

    async fn changed(&self) {
        self.0.changed().await;
    }

    fn is_current(&self, tag: u64) -> bool {
        self.0.is_current(tag)
    }

    async fn settle(&self, tag: u64, settlement: Settlement) -> Result<(), Unpublished> {
        self.0.settle(tag, settlement).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
