//! `ichido send`: one message, or one per line, all in one transaction. Ids are printed when it has committed. `bulk` reads the
//! messages and writes them; `plain` prints how other programs send.

mod bulk;
mod plain;

use std::{
    fs::File,
    io::{BufRead, BufReader, stdin},
    path::Path,
};

use ichido::{Due, NewMessage, lanes::Sent};

use self::bulk::Bulk;
use crate::{
    args::Send,
    brokers::Brokers,
    config::Config,
    failure::Failure,
    lanes::routes,
    open::{Backend, OnStore},
    output, program,
};

type Lines = Box<dyn Iterator<Item = std::io::Result<String>> + std::marker::Send>;

impl OnStore for Send {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        if !config.queues.contains_key(&self.queue) && !config.lanes.contains_key(&self.queue) {
            return Err(Failure::unknown_queue(&self.queue, config));
        }
        if self.sql {
            return plain::print(self, store, config).await;
        }
        // Everything is read and looked at before the transaction begins: a slow producer must not hold up writers.
        let like = like(&self);
        let lines: Lines = match (&self.file, self.message) {
            (Some(file), _) => lines_of(file)?,
            (None, message) => Box::new(message.into_iter().map(Ok)),
        };
        let brokers = Brokers::of(config)?;
        brokers.refuse_fan_out(&queues(&self.queue, config)).await?;
        let bulk = Bulk::read(lines, &like, self.queue, routes(config), program::masks(config))?;
        store.prepare().await.map_err(|error| Failure::of::<S>(&error))?;
        let mut tx = store.begin().await.map_err(|error| Failure::of::<S>(&error))?;
        let sent = match bulk.send(&store, &mut tx).await {
            Ok(sent) => sent,
            Err(unsent) => {
                store.rollback(tx).await.map_err(|error| Failure::of::<S>(&error))?;
                return Err(bulk.explain(&store, unsent).await);
            }
        };
        store.commit(tx).await.map_err(|error| Failure::of::<S>(&error))?;
        for queue in &sent.queues {
            store.wake_ups().tell(&store, queue).await;
        }
        sent.ids.iter().try_for_each(|id| output::print(&id.to_string()))?;
        publish(&store, sent, &brokers, config).await;
        Ok(0)
    }
}

/// Publishes what was sent to queues of brokers. Whatever comes of it, it is committed, and nothing is lost.
async fn publish<S: Backend>(store: &S, sent: Sent, brokers: &Brokers, config: &Config) {
    let brokers = brokers.clone().only(|name| sent.queues.contains(name));
    if brokers.is_empty() {
        return;
    }
    let ids: Vec<_> = sent.ids.into_iter().filter(|id| brokers.iter().any(|kept| *kept.name() == *id.queue)).collect();
    if let Some(left) = brokers.publishing(store, config).publish(&ids).await {
        let (ids, why, later) = (left.ids.len(), left.why, "a running process or `ichido relay` will publish them");
        let left = format!("committed, but not all messages are published yet ({ids} are left)");
        output::complain(&format!("ichido: {left}: {why}; {later}"));
    }
}

/// The queues that a name may mean.
fn queues<'a>(name: &'a str, config: &'a Config) -> Vec<&'a str> {
    match config.lanes.get(name) {
        Some(lanes) => lanes.set.levels.iter().map(|level| &*level.queue).collect(),
        None => vec![name],
    }
}

fn lines_of(file: &Path) -> Result<Lines, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(stdin()).lines()));
    }
    let opened = File::open(file).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(Box::new(BufReader::new(opened).lines()))
}

/// How every message of this call is to be treated.
fn like(send: &Send) -> NewMessage {
    let mut like = NewMessage::default();
    like.due = send.delay.map(Due::After).or(send.at.map(Due::At));
    (like.unique, like.group, like.level) = (send.unique.clone(), send.group.clone(), send.level.clone());
    like.attempts = send.attempts;
    like.headers = send.header.iter().cloned().collect();
    like
}
