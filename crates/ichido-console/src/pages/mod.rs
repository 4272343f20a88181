//! What people see. Every page is rendered here and readable without a script; handlers ask for their role like those of the API, read through
//! [`As::look`](crate::access::As::look), and change something only in a POST whose form is a [`CheckedForm`](crate::access::CheckedForm).
//!
//! | file | what is in it |
//! | --- | --- |
//! | `visit`, `flash`, `live`, `snapshot` | who looks, what the next page says once, pages that refresh themselves, counts that all pages share |
//! | `overview`, `queue`, `message`, `failed`, `processes`, `lanes`, `simulate`, `doctor`, `reference` | the pages |
//! | `send`, `cancel` | the form that sends a message; all messages of a queue in a state, before they are cancelled |
//! | `acts` | what the buttons do |
//! | `concern`, `words` | what is wrong, in words; numbers and times as people read them |
//! | `hour`, `chart`, `scale` | charts |
//!
//! The templates are in `templates`, the stylesheet and the script in `assets`.

mod acts;
mod assets;
mod cancel;
mod chart;
mod concern;
mod doctor;
mod failed;
mod flash;
mod hour;
mod lanes;
mod live;
mod message;
mod overview;
mod processes;
mod queue;
mod reference;
mod scale;
mod send;
mod simulate;
mod snapshot;
mod visit;
mod words;

use askama::Template;
use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{Html, IntoResponse, Response},
};

pub(crate) use self::snapshot::Snapshots;
use self::visit::{Asked, Frame, Visit, rendered, show};
use crate::{
    Console, Problem, Who,
    access::{self, Admin, As, Operate, Public, Read},
    fields::Fields,
    routes::Routes,
};

/// Pages that whoever has this role may look at; they refresh themselves, unless they are `still`.
macro_rules! page {
    ($name:ident, $role:ty, $render:path) => {
        async fn $name(who: As<$role>, asked: Asked) -> Response {
            show(Visit::new(&who, asked), $render).await
        }
    };
    (still $name:ident, $role:ty, $render:path) => {
        async fn $name(who: As<$role>, asked: Asked) -> Response {
            show(Visit::new(&who, asked).still(), $render).await
        }
    };
}

page!(overview_page, Read, overview::overview);
page!(queues_page, Read, overview::queues);
page!(queue_page, Read, queue::queue);
page!(message_page, Read, message::message);
page!(failed_page, Read, failed::failed);
page!(still all_page, Operate, failed::all);
page!(processes_page, Read, processes::processes);
page!(lanes_page, Read, lanes::lanes);
page!(still doctor_page, Read, doctor::doctor);
page!(still handlers_page, Read, reference::handlers);
page!(still settings_page, Admin, reference::settings);
page!(still send_page, Operate, send::send);
page!(still cancel_page, Operate, cancel::cancel);
page!(still audit_page, Read, reference::audit);

/// All pages.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .get("/", overview_page)
        .get("/queues", queues_page)
        .get("/queue", queue_page)
        .get("/queue/cancel", cancel_page)
        .post("/queue/cancel", cancel::cancelled)
        .get("/send", send_page)
        .post("/send", send::sent)
        .get("/message", message_page)
        .get("/failed", failed_page)
        .get("/failed/all", all_page)
        .get("/processes", processes_page)
        .get("/lanes", lanes_page)
        .get("/doctor", doctor_page)
        .get("/handlers", handlers_page)
        .get("/settings", settings_page)
        .get("/audit", audit_page)
        .get("/login", login)
        .post("/login", access::log_in)
        .post("/logout", access::log_out)
        .merge(acts::routes())
        .merge(assets::routes())
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    base: &'a str,
    version: &'static str,
    error: Option<&'a str>,
    to: &'a str,
}

async fn login(_: Public, State(console): State<Console>, query: Fields) -> Response {
    login_page(&console, None, access::inside(query.get("to")))
}

/// The page to log in again, after a token that was refused.
pub(crate) fn login_again(console: &Console, problem: &Problem, to: &str) -> Response {
    let mut page = login_page(console, Some(&problem.detail), to);
    *page.status_mut() = problem.status;
    page
}

fn login_page(console: &Console, error: Option<&str>, to: &str) -> Response {
    let page = LoginPage { base: console.base(), version: env!("CARGO_PKG_VERSION"), error, to };
    Html(rendered(&page)).into_response()
}

/// Whoever may not see a page gets the one to log in, if that would help; else why.
pub(crate) fn refused(console: &Console, parts: &Parts, who: Option<&Who>, problem: &Problem) -> Response {
    if problem.status != StatusCode::UNAUTHORIZED {
        return self::problem(console, who, problem);
    }
    let asked = parts.uri.path_and_query().map_or("/", |asked| asked.as_str());
    let asked: String = form_urlencoded::byte_serialize(asked.as_bytes()).collect();
    let mut response = StatusCode::SEE_OTHER.into_response();
    let to = HeaderValue::from_str(&format!("{}/login?to={asked}", console.base()));
    response.headers_mut().insert(header::LOCATION, to.unwrap_or(HeaderValue::from_static("/login")));
    response
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    title: &'static str,
    text: &'a str,
}

/// A page that says why there is no other, to somebody, if it is known who they are.
pub(crate) fn problem(console: &Console, who: Option<&Who>, problem: &Problem) -> Response {
    let page = ProblemPage { frame: Frame::bare(console, who), title: problem.title(), text: &problem.detail };
    (problem.status, Html(rendered(&page))).into_response()
}

/// What is not there, and why: some paths are reserved for what is not built yet.
pub(crate) async fn nowhere(State(console): State<Console>, request: Request) -> Response {
    let path = request.uri().path();
    let is_in = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let why = if is_in("/api/v1/schedules") || is_in("/schedules") {
        "schedules are not built yet"
    } else if is_in("/docs") {
        "the documentation is not served by this version"
    } else if access::is_for_programs(path) {
        "there is no such path; /api/v1/openapi.json lists those that there are"
    } else {
        "there is no such page"
    };
    told(&console, &request, &Problem::nowhere(why))
}

/// What is there, and is asked for in another way. The router adds which ways there are.
pub(crate) async fn not_allowed(State(console): State<Console>, request: Request) -> Response {
    let why = format!("{} is not allowed here; the header `Allow` lists what is", request.method());
    told(&console, &request, &Problem::new(StatusCode::METHOD_NOT_ALLOWED, why))
}

/// For programs a problem, for people a page.
fn told(console: &Console, request: &Request, why: &Problem) -> Response {
    if access::is_for_programs(request.uri().path()) {
        return why.clone().into_response();
    }
    let who = console.0.access.who(request.headers(), access::peer(request.extensions())).ok();
    problem(console, who.as_ref(), why)
}
