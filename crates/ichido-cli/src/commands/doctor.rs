//! `ichido doctor`: what is wrong with messages, and what to do about it. For queues at brokers it lays mutex rows, dead letters and
//! the queue's depths beside each other (`exam`); for tables it looks for rows that belong to nobody.

mod dead_letters;
mod exam;
mod report;
mod sight;

use ichido::by_hand;

use self::exam::Exam;
pub(crate) use self::{dead_letters::forget, report::Report};
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
        let examined = examine_brokers(&store, config, self.fix, &mut report).await;
        for queue in config.queues.keys() {
            let found = by_hand::orphans(&store, queue, self.fix).await.map_err(|error| Failure::of::<S>(&error))?;
            found.iter().try_for_each(|finding| report.finding(finding))?;
        }
        examined?;
        if report.found.found == 0 && !self.json {
            output::print("no problems found")?;
        }
        Ok(if report.found.left > 0 { FOUND } else { 0 })
    }
}

/// Examines every queue that a broker keeps. One that cannot be examined does not hide what is wrong with the others.
pub(crate) async fn examine_brokers<S: Backend>(
    store: &S,
    config: &Config,
    fix: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let (brokers, mut all) = (Brokers::of(config)?, Ok(()));
    for kept in brokers.iter() {
        let only = || brokers.clone().only(|name| name == kept.name());
        let fix = fix.then(|| only().publishing(store, config));
        let examined = match Exam::of(store, kept, fix, report).await {
            Ok(exam) => Box::pin(exam.run()).await,
            Err(failure) => Err(failure),
        };
        all = all.and(examined);
    }
    all
}
