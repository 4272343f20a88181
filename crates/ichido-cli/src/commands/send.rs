//! `ichido send`: one message, or one per line, all in one transaction. Ids are printed when it has committed.

use std::{
    fs::File,
    io::{BufRead, BufReader, stdin},
    path::Path,
};

use ichido::{Error, MessageId, NewMessage};
use serde_json::value::RawValue;

use crate::{
    args::Send,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output,
};

/// Messages per statement.
const BATCH: usize = 1000;

type Lines = Box<dyn Iterator<Item = std::io::Result<String>> + std::marker::Send>;

impl OnStore for Send {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        if !config.queues.contains_key(&self.queue) {
            let hint = ichido::suggestion(&self.queue, config.queues.keys().map(String::as_str));
            return Err(Failure::usage(format!("there is no queue `{}` in the configuration{hint}", self.queue)));
        }
        let lines: Lines = match (&self.file, self.message) {
            (Some(file), _) => lines_of(file)?,
            (None, message) => Box::new(message.into_iter().map(Ok)),
        };
        store.prepare().await.map_err(|error| Failure::of::<S>(&error))?;
        let mut tx = store.begin().await.map_err(|error| Failure::of::<S>(&error))?;
        let ids = match send_all(&store, &mut tx, &self.queue, lines).await {
            Ok(ids) => ids,
            Err(failure) => {
                store.rollback(tx).await.map_err(|error| Failure::of::<S>(&error))?;
                return Err(failure);
            }
        };
        store.commit(tx).await.map_err(|error| Failure::of::<S>(&error))?;
        ids.iter().try_for_each(|id| output::print(&id.to_string()))?;
        Ok(0)
    }
}

fn lines_of(file: &Path) -> Result<Lines, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(stdin()).lines()));
    }
    let opened = File::open(file).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(Box::new(BufReader::new(opened).lines()))
}

async fn send_all<S: Backend>(store: &S, tx: &mut S::Tx, queue: &str, lines: Lines) -> Result<Vec<MessageId>, Failure> {
    let mut ids = Vec::new();
    let mut batch = Vec::new();
    let mut first = 1;
    for (number, line) in (1..).zip(lines) {
        let line = line.map_err(|error| bad_line(number, &error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        serde_json::from_str::<&RawValue>(&line).map_err(|error| bad_line(number, &format!("not JSON: {error}")))?;
        batch.push(NewMessage::new(line));
        if batch.len() == BATCH {
            ids.extend(send_batch(store, tx, queue, &batch, first).await?);
            batch.clear();
            first = number + 1;
        }
    }
    ids.extend(send_batch(store, tx, queue, &batch, first).await?);
    Ok(ids)
}

async fn send_batch<S: Backend>(
    store: &S,
    tx: &mut S::Tx,
    queue: &str,
    batch: &[NewMessage],
    first: usize,
) -> Result<Vec<MessageId>, Failure> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    store.send(S::connection(tx), queue, batch).await.map_err(|error| match &error {
        Error::Setup(text) => Failure::usage(format!("{text}; nothing was sent")),
        error if error.is_fault::<S>() => Failure::of::<S>(error),
        error => bad_line(first, &error.to_string()),
    })
}

fn bad_line(number: usize, text: &str) -> Failure {
    Failure::usage(format!("message {number}: {text}; nothing was sent"))
}
