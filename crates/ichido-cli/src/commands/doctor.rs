//! `ichido doctor`: what is wrong with messages, and what to do about it. For queues at brokers it lays mutex rows, dead letters and
//! the queue's depths beside each other (`exam`); for tables it looks for rows that belong to nobody.

#[cfg(feature = "rabbitmq")]
mod dead_letters;
#[cfg(feature = "rabbitmq")]
mod exam;
#[cfg(not(feature = "rabbitmq"))]
#[path = "doctor/no_exam.rs"]
mod exam;
mod report;
#[cfg(feature = "rabbitmq")]
mod sight;

use ichido::by_hand;

#[cfg(feature = "rabbitmq")]
pub(crate) use self::dead_letters::forget;
use self::exam::Exam;
#[cfg(not(feature = "rabbitmq"))]
pub(crate) use self::exam::forget;
pub(crate) use self::report::Report;
use super::by;
use crate::{
    args::Doctor,
    brokers::Brokers,
    config::Config,
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
    output,
};

impl OnStore for Doctor {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let store = by(&store, self.why.reason.clone());
        store.prepare().await.map_err(|error| Failure::of::<S>(&error))?;
        let mut report = Report::new(self.json);
        examine_brokers(&store, config, self.fix, &mut report).await?;
        for queue in config.queues.keys() {
            let found = by_hand::orphans(&store, queue, self.fix).await.map_err(|error| Failure::of::<S>(&error))?;
            found.iter().try_for_each(|finding| report.finding(finding))?;
        }
        if report.found.found == 0 && !self.json {
            output::print("no problems found")?;
        }
        Ok(if report.found.left > 0 { FOUND } else { 0 })
    }
}

/// Examines every queue that a broker keeps.
pub(crate) async fn examine_brokers<S: Backend>(
    store: &S,
    config: &Config,
    fix: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let brokers = Brokers::of(config)?;
    for kept in brokers.iter() {
        let only = || brokers.clone().only(|name| name == kept.name());
        let fix = fix.then(|| only().publishing(store, config));
        let exam = Exam::of(store, kept, fix, report).await?;
        Box::pin(exam.run()).await?;
    }
    Ok(())
}
