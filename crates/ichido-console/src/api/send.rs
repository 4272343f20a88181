//! `POST /api/v1/queues/{queue}/messages`: one message or many, all or none. With an `Idempotency-Key`, the same request is answered with what was
//! sent the first time, for a day, whatever kind of queue it is.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::Path,
    http::{HeaderMap, StatusCode},
};
use ichido::{NewMessage, message::MOST_ATTEMPTS};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Body, messages::due};
use crate::{
    Problem,
    access::{As, Operate},
    desk::{Idempotency, SendOrder, SentAnswer},
    known,
};

/// So many messages are sent at a time.
pub(crate) const MOST_MESSAGES: usize = 1000;

/// No longer key is remembered.
const LONGEST_KEY: usize = 255;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Messages {
    messages: Vec<One>,
}

/// One message, and how it is to be treated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    /// As it was written: nothing of it is taken for a number.
    payload: Box<RawValue>,
    level: Option<String>,
    group: Option<String>,
    unique: Option<String>,
    attempts: Option<u32>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    delay_seconds: Option<u64>,
    at: Option<String>,
}

pub(super) async fn send(
    who: As<Operate>,
    Path(to): Path<String>,
    headers: HeaderMap,
    body: Body<Messages>,
) -> Result<(StatusCode, Json<SentAnswer>), Problem> {
    known::destination(who.console(), &to)?;
    let idempotency = idempotency(&headers, &to, &body.bytes)?;
    let messages = body.value.messages;
    if messages.is_empty() || messages.len() > MOST_MESSAGES {
        return Err(Problem::bad(format!("`messages` must have 1 to {MOST_MESSAGES} messages")));
    }
    let messages = messages.into_iter().map(new).collect::<Result<Vec<_>, _>>()?;
    let sent = who.act(None).send(SendOrder { to, messages, idempotency }).await?;
    Ok((if sent.replayed { StatusCode::OK } else { StatusCode::CREATED }, Json(sent)))
}

fn new(one: One) -> Result<NewMessage, Problem> {
    if one.attempts.is_some_and(|attempts| !(1..=MOST_ATTEMPTS).contains(&attempts)) {
        return Err(Problem::bad(format!("`attempts` must be a number from 1 to {MOST_ATTEMPTS}")));
    }
    let payload: Box<str> = one.payload.into();
    let mut message = NewMessage::new(String::from(payload));
    message.due = due(one.delay_seconds, one.at.as_deref())?;
    (message.level, message.group, message.unique) = (one.level, one.group, one.unique);
    message.attempts = one.attempts;
    message.headers = one.headers.into_iter().collect();
    Ok(message)
}

fn idempotency(headers: &HeaderMap, to: &str, body: &[u8]) -> Result<Option<Idempotency>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let wrong = || Problem::bad(format!("`Idempotency-Key` must have 1 to {LONGEST_KEY} visible characters"));
    let key = key.to_str().map_err(|_| wrong())?;
    if key.trim().is_empty() || key.len() > LONGEST_KEY {
        return Err(wrong());
    }
    Ok(Some(Idempotency::new(to, key, body)))
}
