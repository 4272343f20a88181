//! `/api/v1`: everything that the command line can do to messages and processes, for programs. Errors are problems (RFC 9457), lists have pages,
//! bodies and queries are read strictly. `openapi.json` beside this file says it all; a test compares both.

mod body;
mod doctor;
mod failed;
mod lanes;
mod messages;
mod processes;
mod queues;
mod send;

use axum::{Json, http::header, response::IntoResponse};
use ichido::by_hand::Standing;

use self::body::Body;
pub(crate) use self::{
    body::{MOST_BYTES, read},
    failed::filter,
    messages::{LONGEST_DELAY, reason},
    send::MOST_MESSAGES,
};
use crate::{
    Problem,
    access::{As, Read},
    desk::AuditPage,
    fields::Fields,
    routes::Routes,
};

/// What this version of the API is.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// What it says of a console that is mounted nowhere.
const ROOT: &str = r#"[{"url": "/"}]"#;

/// So many things are in a page at most.
const MOST_LISTED: u32 = 200;

/// And so many unless somebody says otherwise.
const LISTED: u32 = 100;

/// All of the API.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .get("/api/v1/openapi.json", openapi)
        .get("/api/v1/status", status)
        .get("/api/v1/stats", queues::stats)
        .get("/api/v1/audit", audit)
        .get("/api/v1/queues", queues::list)
        .get("/api/v1/queues/{queue}", queues::one)
        .post("/api/v1/queues/{queue}/messages", send::send)
        .get("/api/v1/messages", messages::list)
        .get("/api/v1/messages/{id}", messages::one)
        .post("/api/v1/messages/cancel", messages::cancel)
        .post("/api/v1/messages/reschedule", messages::reschedule)
        .post("/api/v1/messages/run-now", messages::run_now)
        .get("/api/v1/failed", failed::list)
        .get("/api/v1/failed/{id}", failed::one)
        .post("/api/v1/failed/retry", failed::retry)
        .post("/api/v1/failed/discard", failed::discard)
        .get("/api/v1/processes", processes::list)
        .get("/api/v1/processes/{request_id}", processes::one)
        .post("/api/v1/processes/{request_id}/{verb}", processes::set_flag)
        .get("/api/v1/lanes", lanes::list)
        .post("/api/v1/lanes/{lanes}/simulate", lanes::simulate)
        .get("/api/v1/doctor", doctor::examine)
        .post("/api/v1/doctor/fix", doctor::fix)
}

/// What a handler answers.
type Answered<T> = Result<Json<T>, Problem>;

/// With the place where the console is mounted: its paths begin there.
async fn openapi(who: As<Read>) -> impl IntoResponse {
    let place = serde_json::json!([{ "url": format!("{}/", who.console().base()) }]);
    let text = OPENAPI.replacen(ROOT, &place.to_string(), 1);
    ([(header::CONTENT_TYPE, "application/json")], text)
}

async fn status(who: As<Read>, query: Fields) -> Answered<Standing> {
    query.only(&[])?;
    Ok(Json(who.look().standing().await?))
}

/// What was changed by hand.
async fn audit(who: As<Read>, query: Fields) -> Answered<AuditPage> {
    let query = query.only(&["queue", "limit", "after"])?;
    // Not only queues of the configuration: what was done stays true when a queue is gone.
    let queue = query.name("queue")?;
    let after = query.parsed("after", "what the last page said")?;
    Ok(Json(who.look().audit(queue, after, query.limit(LISTED, MOST_LISTED)?).await?))
}
