//! The metrics of the whole fleet, and the console's own probes. What waits is counted by the bounded counts of `status`; what was done is added up
//! from what processes have written for each minute, so nothing here reads a queue's table. The names are those of a process's own metrics
//! (`ichido run --health`), and two more; `docs/console.md` has them.

mod counters;
mod text;

use std::time::Instant;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

pub(crate) use self::counters::{Counters, LONGEST};
use crate::{
    Console, Problem,
    access::{As, Public, Read},
    routes::Routes,
};

pub(crate) fn routes() -> Routes {
    Routes::new().get("/metrics", metrics).get("/livez", live).get("/readyz", ready)
}

async fn metrics(who: As<Read>) -> Result<Response, Problem> {
    let (look, counters) = (who.look(), &who.console().0.counters);
    let standing = look.standing().await?;
    // Before the database is asked: what is written while it answers is read next time.
    let now = Instant::now();
    let back = counters.unread(now);
    let totals = counters.add(&look.stats(back).await?, back, now);
    let text = text::write(&standing, totals);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// It answers.
async fn live(_: Public) -> &'static str {
    "ok\n"
}

/// The database answers too.
async fn ready(_: Public, State(console): State<Console>) -> Response {
    match console.look().ping().await {
        Ok(()) => "ok\n".into_response(),
        // Who may ask this may not know where the database is.
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response(),
    }
}
