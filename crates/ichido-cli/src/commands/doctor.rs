//! `ichido doctor`: what is wrong with messages, and what to do about it. For queues at brokers it lays mutex rows, dead letters and
//! the queue's depths beside each other (`exam`); for tables it looks for rows that belong to nobody.

#[cfg(feature = "rabbitmq")]
mod exam;
#[cfg(not(feature = "rabbitmq"))]
#[path = "doctor/no_exam.rs"]
mod exam;
mod report;

use std::time::Duration;

use ichido::{
    MessageId,
    broker::{Orphan, Verdict},
};

use self::{
    exam::Exam,
    report::{Finding, Report},
};
use crate::{
    args::Doctor,
    brokers::Brokers,
    config::Config,
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
};

/// How long after `publish_deadline` nobody waits any more.
const LATE: Duration = Duration::from_secs(5);

impl OnStore for Doctor {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        store.prepare().await.map_err(|error| Failure::of::<S>(&error))?;
        let mut report = Report::new(self.json);
        let brokers = Brokers::of(config)?;
        for kept in brokers.iter() {
            let published = Exam::of(&store, kept, self.fix, &mut report).await?.run().await?;
            if published {
                publish(&store, brokers.clone().only(|name| name == kept.name()), config).await;
            }
        }
        for queue in config.queues.keys() {
            orphans(&store, queue, self.fix, &mut report).await?;
        }
        report.end()?;
        Ok(if report.left > 0 { FOUND } else { 0 })
    }
}

/// Rows that are new and owned by no process.
async fn orphans<S: Backend>(store: &S, queue: &str, fix: bool, report: &mut Report) -> Result<(), Failure> {
    let failure = |error| Failure::of::<S>(&error);
    let mut freed = false;
    for orphan in store.orphans(queue).await.map_err(failure)? {
        let done = match fix {
            true if store.release_orphan(queue, &orphan).await.map_err(failure)? => Some("released"),
            true => Some("left alone"),
            false => None,
        };
        freed |= done == Some("released");
        report.finding(&of_orphan(queue, &orphan, done))?;
    }
    if freed {
        store.wake_ups().tell(store, queue).await;
    }
    Ok(())
}

fn of_orphan(queue: &str, orphan: &Orphan, done: Option<&'static str>) -> Finding {
    let meaning = match &orphan.owner {
        _ if orphan.is_aside() => "parked, but there is no record of it".to_owned(),
        owner => format!("new, but owned by {owner}, which is not a known process"),
    };
    let message = MessageId { queue: queue.into(), key: orphan.key.clone() }.to_string();
    Finding {
        mutex: "owned",
        verdict: Verdict::Retry,
        action: Some("release"),
        done,
        ..Finding::of(queue, message, meaning)
    }
}

/// What was made due is published here and now; if that fails, a running process does it.
async fn publish<S: Backend>(store: &S, brokers: Brokers, config: &Config) {
    let deadline = config.rabbitmq().map(|(_, queue)| queue.mutex.publish_deadline).max().unwrap_or_default();
    let relay = brokers.relay(store.clone(), config);
    let left = match tokio::time::timeout(deadline + LATE, relay.flush()).await {
        Ok(Ok(flushed)) => flushed.left,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the broker did not confirm within publish_deadline".to_owned()),
    };
    if let Some(why) = left {
        eprintln!(
            "ichido: not all messages are published yet: {why}; a running process or `ichido relay` will publish them"
        );
    }
}
