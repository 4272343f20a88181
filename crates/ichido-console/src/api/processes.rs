//! Processes and their request ids: what they run, and the flags that stop and pause them.

use axum::{Json, extract::Path};
use ichido::{
    inspect::ProcessState,
    process::{Flag, RequestState},
};
use serde::{Deserialize, Serialize};

use super::{Answered, Body, messages::reason};
use crate::{
    Problem,
    access::{As, Operate, Read},
    fields::Fields,
    known,
};

#[derive(Serialize)]
pub(super) struct Processes {
    processes: Vec<ProcessState>,
    requests: Vec<RequestState>,
}

pub(super) async fn list(who: As<Read>, query: Fields) -> Answered<Processes> {
    query.only(&[])?;
    let overview = who.look().standing().await?.overview;
    Ok(Json(Processes { processes: overview.processes, requests: overview.requests }))
}

/// How a request id is doing: what `ichido health` asks.
pub(super) async fn one(who: As<Read>, Path(request_id): Path<String>, query: Fields) -> Answered<RequestState> {
    query.only(&[])?;
    known::request_id(&request_id)?;
    let found = who.look().requests().await?.into_iter().find(|state| state.request_id == request_id);
    Ok(Json(found.unwrap_or_else(|| RequestState::new(request_id))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    reason: Option<String>,
}

/// What holds after a flag was set or cleared.
#[derive(Serialize)]
pub(super) struct Flagged {
    changed: bool,
    #[serde(flatten)]
    state: RequestState,
}

pub(super) async fn set_flag(
    who: As<Operate>,
    Path((request_id, verb)): Path<(String, String)>,
    body: Body<Why>,
) -> Answered<Flagged> {
    let (flag, on) = match verb.as_str() {
        "stop" => (Flag::Stop, true),
        "unstop" => (Flag::Stop, false),
        "pause" => (Flag::Pause, true),
        "resume" => (Flag::Pause, false),
        _ => return Err(Problem::nowhere("there are stop, unstop, pause and resume")),
    };
    known::request_id(&request_id)?;
    let (changed, state) = who.act(reason(body.value.reason)?).set_flag(request_id, flag, on).await?;
    Ok(Json(Flagged { changed, state }))
}
