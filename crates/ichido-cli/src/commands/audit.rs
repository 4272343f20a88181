//! `ichido audit`: what was changed by hand, by whom, from where and why.

use crate::{
    args::Audit,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output,
};

impl OnStore for Audit {
    async fn run<S: Backend>(self, store: S, _: &Config) -> Result<u8, Failure> {
        // Not only queues of the configuration: what was done stays true when a queue is gone.
        let entries = store.audit(self.queue.as_deref(), None, self.limit).await;
        let entries = entries.map_err(|error| Failure::of::<S>(&error))?;
        if self.json {
            output::json(&entries)?;
            return Ok(0);
        }
        let rows = entries.into_iter().map(|entry| {
            let who = match (entry.by.user, entry.by.host) {
                (Some(user), Some(host)) => format!("{user}@{host}"),
                (user, host) => user.or(host).unwrap_or_default(),
            };
            [entry.at, entry.verb, entry.what, who, output::shortened(&entry.by.reason.unwrap_or_default(), 100)]
        });
        output::table(["AT", "VERB", "WHAT", "BY", "REASON"], &rows.collect::<Vec<_>>())?;
        Ok(0)
    }
}
