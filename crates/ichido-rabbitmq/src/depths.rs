//! How full the queues of a topology are, for status, doctor and reconciler. AMQP tells what is ready and who consumes; not what
//! is out and unacknowledged, nor what a queue keeps until its dead letter has arrived.

use lapin::{Connection, options::QueueDeclareOptions, types::FieldTable};

use crate::{Error, Result, Server, Topology, error::code, server::answered};

/// Messages that are ready, per queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depths {
    /// In the queue itself.
    pub queue: u32,
    /// In the queue where busy deliveries wait.
    pub busy: u32,
    /// Dead letters.
    pub dead: u32,
    /// Who consumes from the queue itself.
    pub consumers: u32,
}

impl Topology {
    /// Looks at the queues, over a connection of its own.
    ///
    /// # Errors
    /// If the broker is away, or one of the queues is.
    pub async fn depths(&self, broker: &Server) -> Result<Depths> {
        let connection = broker.connect("ichido status").await?;
        let (queue, consumers) = look(&connection, &self.queue).await?;
        let busy = match look(&connection, &self.busy_queue).await {
            Ok((busy, _)) => busy,
            // Of a delay that was changed a moment ago: whoever runs next declares it.
            Err(Error::Missing(_)) if self.declare => 0,
            Err(error) => return Err(error),
        };
        let (dead, _) = look(&connection, &self.dead_letter_queue).await?;
        Ok(Depths { queue, busy, dead, consumers })
    }
}

pub(crate) async fn look(connection: &Connection, queue: &str) -> Result<(u32, u32)> {
    let doing = format!("inspecting queue {queue:?}");
    let found = answered(&doing, async {
        let channel = connection.create_channel().await.map_err(Error::broker("opening a channel"))?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
        found.map_err(|error| match code(&error) {
            Some(404) => Error::Missing(format!("the queue {queue:?} does not exist")),
            _ => Error::Broker { doing: doing.clone(), source: error },
        })
    });
    let found = found.await?;
    Ok((found.message_count(), found.consumer_count()))
}
