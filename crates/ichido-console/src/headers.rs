//! What every request passes and every response carries: no other site may have sent it, nobody may ask too often, and browsers are told to run no
//! script but ours, to show it in no frame, and to keep nothing.

use std::time::Duration;

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;

use crate::{
    Console, Problem,
    access::{is_for_programs, is_same_origin, peer, why_not_here},
    pages,
};

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                   form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Time over which requests of one address are counted, and how many there may be.
pub(crate) const RATE_WINDOW: Duration = Duration::from_secs(10);
pub(crate) const MOST_REQUESTS: u32 = 1000;

/// What is said of every response.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Around every route.
pub(crate) async fn guard(State(console): State<Console>, request: Request, next: Next) -> Response {
    let mut response = match refuse(&console, &request) {
        None => next.run(request).await,
        Some(problem) if is_for_programs(request.uri().path()) => problem.into_response(),
        Some(problem) => pages::problem(&console, None, &problem),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if console.0.access.secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

fn refuse(console: &Console, request: &Request) -> Option<Problem> {
    let (headers, uri, peer) = (request.headers(), request.uri(), peer(request.extensions()));
    if console.0.access.is_for_this_host()
        && let Some(why) = why_not_here(headers, uri, peer)
    {
        return Some(Problem::new(StatusCode::FORBIDDEN, why));
    }
    if percent_decode_str(uri.path()).decode_utf8().is_err() {
        return Some(Problem::bad("the path is not UTF-8"));
    }
    let changes = request.method() != Method::GET && request.method() != Method::HEAD;
    if changes && !is_same_origin(headers, uri) {
        return Some(Problem::new(StatusCode::FORBIDDEN, "this request comes from another site"));
    }
    (!console.0.access.may_ask(peer)).then(|| {
        let text = format!("too many requests from this address: at most {MOST_REQUESTS} in {RATE_WINDOW:?}");
        Problem::later(StatusCode::TOO_MANY_REQUESTS, RATE_WINDOW.as_secs(), text)
    })
}
