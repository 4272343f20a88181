//! What people see. Every page is rendered here and readable without a script; handlers ask for their role like those of the API, read through
//! [`As::look`](crate::access::As::look), and change something only in a POST whose form is a [`CheckedForm`](crate::access::CheckedForm).

use axum::{
    http::{HeaderValue, StatusCode, Uri, header, request::Parts},
    response::{Html, IntoResponse, Response},
};

use crate::{
    Console, Problem,
    access::{self, As, Public, Read},
    fields::Fields,
    routes::Routes,
};

/// All pages.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .get("/", overview)
        .get("/login", login)
        .post("/login", access::log_in)
        .post("/logout", access::log_out)
}

async fn overview(who: As<Read>) -> Result<Html<String>, PageProblem> {
    let standing = who.look().standing().await.map_err(|problem| PageProblem(who.console().clone(), problem))?;
    Ok(Html(format!("<!doctype html><title>ichido</title><p>{} queues", standing.overview.queues.len())))
}

async fn login(_: Public, axum::extract::State(console): axum::extract::State<Console>, query: Fields) -> Response {
    login_page(&console, None, access::inside(query.get("to")))
}

/// The page to log in again, after a token that was refused.
pub(crate) fn login_again(console: &Console, problem: &Problem, to: &str) -> Response {
    let mut page = login_page(console, Some(&problem.detail), to);
    *page.status_mut() = problem.status;
    page
}

fn login_page(console: &Console, why: Option<&str>, to: &str) -> Response {
    let page = format!(
        "<!doctype html><title>ichido: log in</title><p>{}<form method=post action=\"{}/login\">\
         <input type=hidden name=to value=\"{}\"><label>Token <input type=password name=token></label><button>Log in</button></form>",
        escaped(why.unwrap_or_default()),
        console.base(),
        escaped(to)
    );
    Html(page).into_response()
}

/// Whoever may not see a page gets the one to log in, if that would help; else why.
pub(crate) fn refused(console: &Console, parts: &Parts, problem: &Problem) -> Response {
    if problem.status != StatusCode::UNAUTHORIZED {
        return self::problem(console, problem);
    }
    let asked = parts.uri.path_and_query().map_or("/", |asked| asked.as_str());
    let asked: String = form_urlencoded::byte_serialize(asked.as_bytes()).collect();
    let mut response = StatusCode::SEE_OTHER.into_response();
    let to = HeaderValue::from_str(&format!("{}/login?to={asked}", console.base()));
    response.headers_mut().insert(header::LOCATION, to.unwrap_or(HeaderValue::from_static("/login")));
    response
}

/// A page that says why there is no other.
pub(crate) fn problem(_: &Console, problem: &Problem) -> Response {
    let text = format!("<!doctype html><title>{}</title><h1>{0}</h1><p>{}", problem.title(), escaped(&problem.detail));
    (problem.status, Html(text)).into_response()
}

/// What is not there.
pub(crate) async fn nowhere(axum::extract::State(console): axum::extract::State<Console>, uri: Uri) -> Response {
    let why = match uri.path() {
        "/api/v1/schedules" => "schedules are not built yet",
        "/docs" => "the documentation is not served by this version",
        _ => "there is no such page",
    };
    let found = Problem::nowhere(why);
    if access::is_for_programs(uri.path()) { found.into_response() } else { problem(&console, &found) }
}

/// Why a page cannot be shown, as a page.
struct PageProblem(Console, Problem);

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        problem(&self.0, &self.1)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
