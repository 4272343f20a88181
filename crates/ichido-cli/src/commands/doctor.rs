//! `ichido doctor`: what is wrong with messages, and what to do about it. For queues at brokers it lays mutex rows, dead letters and
//! the queue's depths beside each other (`exam`); for tables it looks for rows that belong to nobody.

mod dead_letters;
mod exam;
mod report;
mod sight;

use ichido::{
    MessageId,
    broker::{Orphan, Verdict},
};

pub(super) use self::dead_letters::forget;
use self::{
    exam::Exam,
    report::{Done, Finding, Report},
};
use super::{by, publishing::Publishing};
use crate::{
    args::Doctor,
    brokers::Brokers,
    config::Config,
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
};

impl OnStore for Doctor {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let store = by(&store, self.why.reason.clone());
        store.prepare().await.map_err(|error| Failure::of::<S>(&error))?;
        let mut report = Report::new(self.json);
        let brokers = Brokers::of(config)?;
        for kept in brokers.iter() {
            let only = || brokers.clone().only(|name| name == kept.name());
            let fix = self.fix.then(|| Publishing::of(&store, &only(), config));
            let exam = Exam::of(&store, kept, fix, &mut report).await?;
            Box::pin(exam.run()).await?;
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
            true if store.release_orphan(queue, &orphan).await.map_err(failure)? => {
                freed = true;
                Some(Done::did("released"))
            }
            true => Some(Done::left_alone()),
            false => None,
        };
        report.finding(&of_orphan(queue, &orphan, done))?;
    }
    if freed {
        store.wake_ups().tell(store, queue).await;
    }
    Ok(())
}

fn of_orphan(queue: &str, orphan: &Orphan, done: Option<Done>) -> Finding {
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
