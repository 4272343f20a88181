//! `ichido send`: one message, or one per line, all in one transaction. Ids are printed when it has committed.

use std::{
    fs::File,
    io::{BufRead, BufReader, stdin},
    path::Path,
    time::{Duration, SystemTime},
};

use ichido::{
    Due, Error, Headers, Masks, NewMessage,
    lanes::{Routes, Sent},
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::value::RawValue;

use super::publishing::Publishing;
use crate::{
    args::Send,
    brokers::Brokers,
    config::Config,
    failure::Failure,
    lanes::routes,
    open::{Backend, OnStore},
    output, program,
};

/// Messages per statement.
const BATCH: usize = 1000;

type Lines = Box<dyn Iterator<Item = std::io::Result<String>> + std::marker::Send>;

impl OnStore for Send {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        if !config.queues.contains_key(&self.queue) && !config.lanes.contains_key(&self.queue) {
            return Err(Failure::unknown_queue(&self.queue, config));
        }
        let lines: Lines = match (&self.file, self.message) {
            (Some(file), _) => lines_of(file)?,
            (None, message) => Box::new(message.into_iter().map(Ok)),
        };
        // Everything is read and looked at before the transaction begins: a slow producer must not hold up writers.
        let mut like = like(self.delay, self.at, self.unique, self.group);
        like.level = self.level;
        let (messages, routes) = (read_all(lines, &like)?, routes(config));
        let brokers = Brokers::of(config)?;
        brokers.refuse_fan_out(&queues(&self.queue, config)).await?;
        store.prepare().await.map_err(|error| Failure::of::<S>(&error))?;
        let mut tx = store.begin().await.map_err(|error| Failure::of::<S>(&error))?;
        let masks = program::masks(config);
        let sent = match send_all(&store, &mut tx, &self.queue, &routes, &messages, &masks).await {
            Ok(sent) => sent,
            Err(failure) => {
                store.rollback(tx).await.map_err(|error| Failure::of::<S>(&error))?;
                return Err(failure);
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
    if let Some(left) = Publishing::of(store, &brokers, config).publish(&ids).await {
        let (why, later) = (left.why, "a running process or `ichido relay` will publish them");
        eprintln!("ichido: committed, but not all messages are published yet: {why}; {later}");
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
fn like(delay: Option<Duration>, at: Option<SystemTime>, unique: Option<String>, group: Option<String>) -> NewMessage {
    let mut like = NewMessage::default();
    like.due = delay.map(Due::After).or(at.map(Due::At));
    (like.unique, like.group) = (unique, group);
    like
}

fn read_all(lines: Lines, template: &NewMessage) -> Result<Vec<NewMessage>, Failure> {
    let mut messages = Vec::new();
    for (number, line) in (1..).zip(lines) {
        let line = line.map_err(|error| bad_line(number, &error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        serde_json::from_str::<&RawValue>(&line).map_err(|error| bad_line(number, &format!("not JSON: {error}")))?;
        let mut message = template.clone();
        message.payload = line.into_bytes();
        messages.push(message);
    }
    Ok(messages)
}

async fn send_all<S: Backend>(
    store: &S,
    tx: &mut S::Tx,
    to: &str,
    routes: &Routes,
    messages: &[NewMessage],
    masks: &Masks,
) -> Result<Sent, Failure> {
    let mut all = Sent::default();
    let bar = progress(messages.len());
    for batch in messages.chunks(BATCH) {
        bar.inc(batch.len() as u64);
        let sent = routes.send(store, S::connection(tx), to, batch).await.map_err(|error| match &error {
            error if error.is_fault::<S>() => Failure::of::<S>(error),
            error => Failure::usage(format!("{}; nothing was sent", hidden(masks, batch, error))),
        })?;
        all.ids.extend(sent.ids);
        all.queues.extend(sent.queues);
    }
    bar.finish_and_clear();
    Ok(all)
}

/// What the database said about these messages, without what must not be seen of any of them.
fn hidden(masks: &Masks, messages: &[NewMessage], error: &Error) -> String {
    let hide = |text: String, message: &NewMessage| masks.text(&text, &message.payload, &Headers::new());
    messages.iter().fold(error.to_string(), hide)
}

/// A bar on a terminal, for what takes a while.
fn progress(messages: usize) -> ProgressBar {
    if messages <= BATCH {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} messages, {per_sec}");
    ProgressBar::new(messages as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn bad_line(number: usize, text: &str) -> Failure {
    Failure::usage(format!("message {number}: {text}; nothing was sent"))
}
