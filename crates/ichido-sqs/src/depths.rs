//! How full the queues of a topology are, for status, doctor and reconciler. SQS counts approximately, and some time after it was so; and it counts
//! what comes back after a delay among what is out.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::types::QueueAttributeName as Name;
use ichido::broker::Depths;

use crate::{Result, Server, Topology};

const COUNTS: [Name; 3] = [
    Name::ApproximateNumberOfMessages,
    Name::ApproximateNumberOfMessagesNotVisible,
    Name::ApproximateNumberOfMessagesDelayed,
];

impl Topology {
    /// How full its queues are; the counts may be so old.
    ///
    /// # Errors
    /// If the service is away, or one of the queues is.
    pub async fn depths(&self, server: &Server, stale: Duration) -> Result<Depths> {
        let [ready, out, delayed] = counts(server, &self.queue).await?;
        let [dead, held, _] = counts(server, &self.dead_letter).await?;
        Ok(Depths { ready: ready + delayed, unacknowledged: Some(out), busy: 0, dead: dead + held, stale })
    }
}

/// What is visible, what is out, and what is delayed by the sender.
pub(crate) async fn counts(server: &Server, queue: &str) -> Result<[u64; 3]> {
    let set: HashMap<Name, String> = server.attributes(queue, &COUNTS).await?;
    Ok(COUNTS.map(|name| set.get(&name).and_then(|text| text.parse().ok()).unwrap_or_default()))
}
