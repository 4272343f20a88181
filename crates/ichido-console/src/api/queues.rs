//! Queues and what was counted of them.

use std::time::Duration;

use axum::{Json, extract::Path};
use ichido::{inspect::QueueCounts, stat::Summary};
use serde::Serialize;

use super::Answered;
use crate::{
    access::{As, Read},
    fields::Fields,
    known,
};

/// A queue: what is in it, and what was measured in the last minutes.
#[derive(Serialize)]
pub(super) struct Queue {
    #[serde(flatten)]
    counts: QueueCounts,
    measured: Option<Summary>,
}

#[derive(Serialize)]
pub(super) struct Queues {
    queues: Vec<Queue>,
}

pub(super) async fn list(who: As<Read>, query: Fields) -> Answered<Queues> {
    query.only(&[])?;
    Ok(Json(Queues { queues: all(&who).await? }))
}

pub(super) async fn one(who: As<Read>, Path(queue): Path<String>, query: Fields) -> Answered<Queue> {
    query.only(&[])?;
    known::queue(who.console(), &queue)?;
    let found = all(&who).await?.into_iter().find(|found| found.counts.queue == queue);
    found.map(Json).ok_or_else(|| crate::Problem::nowhere(format!("no queue `{queue}` in the database")))
}

async fn all(who: &As<Read>) -> Result<Vec<Queue>, crate::Problem> {
    let standing = who.look().standing().await?;
    let mut measured = standing.measured;
    let queue = |counts: QueueCounts| {
        let at = measured.iter().position(|summary| summary.queue == counts.queue);
        Queue { measured: at.map(|at| measured.swap_remove(at)), counts }
    };
    Ok(standing.overview.queues.into_iter().map(queue).collect())
}

/// What processes have counted of a queue in one minute, together.
#[derive(Serialize)]
pub(super) struct Minute {
    queue: String,
    level: Option<String>,
    /// How long ago the minute began.
    seconds_ago: u64,
    slots: u32,
    started: u64,
    done: u64,
    failed: u64,
    retried: u64,
    snoozed: u64,
    duplicates: u64,
    busy_seconds: f64,
    waiting_p50_ms: Option<f64>,
    waiting_p95_ms: Option<f64>,
    running_p50_ms: Option<f64>,
    running_p95_ms: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Stats {
    minutes: Vec<Minute>,
}

pub(super) async fn stats(who: As<Read>, query: Fields) -> Answered<Stats> {
    let query = query.only(&["seconds"])?;
    let seconds = query.number("seconds", 1..=3600)?.unwrap_or(600);
    let mut minutes: Vec<(ichido::stat::Stat, u64)> = Vec::new();
    for row in who.look().stats(Duration::from_secs(seconds)).await? {
        let ago = row.age.as_secs();
        let same = |(stat, at): &&mut (ichido::stat::Stat, u64)| stat.queue == row.stat.queue && *at / 60 == ago / 60;
        match minutes.iter_mut().find(same) {
            Some((stat, _)) => {
                stat.tally.merge(&row.stat.tally);
                stat.slots += row.stat.slots;
            }
            None => minutes.push((row.stat, ago)),
        }
    }
    Ok(Json(Stats { minutes: minutes.into_iter().map(minute).collect() }))
}

fn minute((stat, seconds_ago): (ichido::stat::Stat, u64)) -> Minute {
    let tally = stat.tally;
    let at = |histogram: &ichido::stat::Histogram, per_mille| {
        histogram.quantile(per_mille).map(|time| time.as_secs_f64() * 1000.0)
    };
    Minute {
        queue: stat.queue.to_string(),
        level: stat.lane.map(|lane| lane.level.to_string()),
        seconds_ago,
        slots: stat.slots,
        started: tally.started,
        done: tally.done,
        failed: tally.failed,
        retried: tally.retried,
        snoozed: tally.snoozed,
        duplicates: tally.duplicates,
        busy_seconds: tally.busy.as_secs_f64(),
        waiting_p50_ms: at(&tally.waiting, 500),
        waiting_p95_ms: at(&tally.waiting, 950),
        running_p50_ms: at(&tally.running, 500),
        running_p95_ms: at(&tally.running, 950),
    }
}
