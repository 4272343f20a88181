//! Asks SQS for deliveries: only for as many as the subscription has room for, in batches where that is possible, and by long polls that nobody
//! waits for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use aws_sdk_sqs::types::MessageSystemAttributeName as System;
use tokio::time::sleep;

use crate::{Delivery, Error, Result, publisher::BATCH, server::TIMEOUT, settling::seconds, subscription::Shared};

/// While workers have enough to do, it waits so long for room for a whole batch.
const LINGER: Duration = Duration::from_millis(500);

/// So many receives at a time, while each of them brings all that it asked for.
const MOST_RECEIVES: usize = 4;

/// The longest time between two attempts while SQS is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Shared {
    pub(crate) async fn run(self: Arc<Self>) {
        let mut closed = self.closed.subscribe();
        loop {
            let pause = self.pause();
            tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => return,
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => self.ask(),
                () = self.freed.notified() => {}
            }
        }
    }

    /// How long until SQS is asked again; none: when there is room.
    fn pause(&self) -> Option<Duration> {
        let room = self.room();
        let asking = self.asking();
        if room == 0 {
            return None;
        }
        if asking.failures > 0 {
            let most = Duration::from_millis(100) * 2u32.pow(asking.failures.min(6));
            return (asking.receives == 0).then(|| most.min(LONGEST_PAUSE));
        }
        let together = together(self.prefetch);
        match asking.receives {
            // While every receive is full, and there is room for a batch.
            1..MOST_RECEIVES if asking.full && room >= together => Some(Duration::ZERO),
            0 if room >= together || room * 2 > usize::from(self.prefetch) => Some(Duration::ZERO),
            0 => Some(LINGER),
            _ => None,
        }
    }

    /// Asks for as many as there is room for, in a task of its own.
    fn ask(self: &Arc<Self>) {
        let most = self.room().min(BATCH);
        if most == 0 {
            return;
        }
        let mut asking = self.asking();
        // One long poll is enough; what comes beside it is there at once, or not.
        let wait = if asking.receives == 0 { self.settings.wait } else { Duration::ZERO };
        asking.receives += 1;
        asking.messages += most;
        asking.since = Some(Instant::now());
        drop(asking);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let begun = Instant::now();
            let mut answer = shared.receive(most, wait).await;
            if shared.is_closed() {
                let late = answer.as_mut().map(std::mem::take).unwrap_or_default();
                let late: Vec<_> = late.into_iter().map(Arc::new).collect();
                shared.hide_all(&late, Duration::ZERO).await;
            }
            shared.take(most, begun, answer);
        });
    }

    async fn receive(&self, most: usize, wait: Duration) -> Result<Vec<Delivery>> {
        let queue = &self.topology.queue;
        if self.topology.declare && self.asking().some.is_none() {
            self.topology.declare(&self.server).await?;
        }
        let call = self.server.client().await?.receive_message().queue_url(self.server.url(queue).await?);
        let call = call
            .max_number_of_messages(i32::try_from(most).unwrap_or(1))
            .visibility_timeout(seconds(self.settings.visibility))
            .wait_time_seconds(seconds(wait))
            .message_system_attribute_names(System::ApproximateReceiveCount)
            .message_system_attribute_names(System::SentTimestamp)
            .message_system_attribute_names(System::MessageGroupId)
            .message_attribute_names("All");
        let doing = format!("receiving from queue {queue:?}");
        let answer = self.server.answer(&doing, wait + TIMEOUT, call.send()).await?;
        Ok(answer.messages.unwrap_or_default().into_iter().filter_map(Delivery::new).collect())
    }

    /// What a receive brought.
    fn take(self: &Arc<Self>, asked: usize, begun: Instant, answer: Result<Vec<Delivery>>) {
        let now = Instant::now();
        {
            let mut asking = self.asking();
            asking.receives -= 1;
            asking.messages -= asked;
            match &answer {
                Ok(brought) => {
                    asking.heard([brought.len(), asked], now - begun, self.settings.wait);
                }
                Err(error) => {
                    if asking.why_not.is_none() {
                        tracing::warn!(%error, queue = self.topology.queue, "cannot receive; retrying");
                    }
                    // The queue may have to be made again.
                    asking.some = asking.some.filter(|_| !matches!(error, Error::Missing(_)));
                    (asking.failures, asking.why_not) = (asking.failures + 1, Some(error.to_string()));
                }
            }
        }
        for delivery in answer.unwrap_or_default() {
            self.in_hand().put(delivery, now, self.settings.visibility);
        }
        self.changed.notify_waiters();
        self.freed.notify_one();
    }

    /// For so many there is room.
    pub(crate) fn room(&self) -> usize {
        let asked = self.asking().messages;
        usize::from(self.prefetch).saturating_sub(self.in_hand().len() + asked)
    }
}

/// So many are worth a call: a quarter of what may be in hand, so that workers need not wait for it.
pub(crate) fn together(prefetch: u16) -> usize {
    (usize::from(prefetch) / 4).clamp(1, BATCH)
}
