//! What takes too long, is too much, or cannot be kept by any database: refused with what is wrong, before it reaches one.

use std::{convert::Infallible, pin::Pin, task};

use axum::{
    body::{Body, Bytes},
    http::{Request, StatusCode, header},
};
use futures_core::Stream;
use ichido_console::Role;

use super::desk::{Desk, read, secret};

/// Some bytes, and then nothing more.
struct Endless(Option<Bytes>);

impl Stream for Endless {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut task::Context<'_>) -> task::Poll<Option<Self::Item>> {
        self.0.take().map_or(task::Poll::Pending, |bytes| task::Poll::Ready(Some(Ok(bytes))))
    }
}

pub(super) async fn sent(desk: &Desk, path: &str, cookie: &str, body: Body) -> (StatusCode, String) {
    let asked = Request::builder().method("POST").uri(path).header(header::HOST, "localhost");
    let asked = asked.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").header(header::COOKIE, cookie);
    read(desk.ask(asked.body(body).unwrap()).await).await
}

/// Logs in; the cookie.
async fn cookie(desk: &Desk) -> String {
    let asked = Request::builder().method("POST").uri("/login").header(header::HOST, "localhost");
    let answer = desk.ask(asked.body(Body::from(format!("token={}", secret(Role::Admin)))).unwrap()).await;
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// The hidden field of a page's forms.
pub(super) async fn form_token(desk: &Desk, cookie: &str) -> String {
    let asked = Request::builder().uri("/send").header(header::HOST, "localhost").header(header::COOKIE, cookie);
    let (_, page) = read(desk.ask(asked.body(Body::empty()).unwrap()).await).await;
    page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_form_that_never_ends_is_given_up() {
    let desk = Desk::with_tokens().await;
    let cookie = cookie(&desk).await;
    // From here on nothing asks the database, so time passes as soon as nothing else happens.
    tokio::time::pause();
    for path in ["/login", "/logout", "/send", "/messages/retry", "/doctor/fix"] {
        let endless = Body::from_stream(Endless(Some(Bytes::from_static(b"t"))));
        let (status, page) = sent(&desk, path, &cookie, endless).await;
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "{path}: {page}");
        assert!(page.contains("did not arrive within 30s"), "{path}: {page}");
    }
}

#[tokio::test]
async fn whoever_is_not_known_sends_no_more_than_a_token() {
    let desk = Desk::with_tokens().await;
    let long = format!("token={}", "x".repeat(5000));
    assert_eq!(sent(&desk, "/login", "", Body::from(long)).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let right = format!("token={}&to={}", secret(Role::Read), "%2F".repeat(1000));
    assert_eq!(sent(&desk, "/login", "", Body::from(right)).await.0, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn what_no_database_can_keep_is_refused_on_pages_too() {
    let desk = Desk::new(&[]).await;
    for (path, why) in [
        ("/message?id=hello/%00", "`id` must not contain NUL"),
        ("/message?id=hello/a%2500", "must not contain NUL"),
        ("/queue?name=hello&after=hello/ready,=%2500", "must be what the last page said"),
        ("/failed?after=hello/a%2500", "must not contain NUL"),
        ("/failed?error=%00", "`error` must not contain NUL"),
        ("/failed?older=4294967295d", "of at most a century"),
        ("/failed/all?verb=retry&older=-1d", "must be a time span"),
        ("/audit?queue=%00", "`queue` must not contain NUL"),
        ("/api/v1/messages/hello%2Fa%2500b", "must not contain NUL"),
    ] {
        let (status, text) = desk.api(None, "GET", path, "").await;
        assert!(status == StatusCode::BAD_REQUEST && text.contains(why), "{path}: {status} {text}");
    }
    let longest = format!("/failed?error={}", "x".repeat(251));
    assert_eq!(desk.api(None, "GET", &longest, "").await.0, StatusCode::BAD_REQUEST);
    let csrf = form_token(&desk, "").await;
    for (path, field, why) in [
        ("/messages/cancel", "id=hello/1&reason=a%00".to_owned(), "`reason` must not contain NUL"),
        ("/messages/run-now", "id=hello/a%2500".into(), "must not contain NUL"),
        ("/messages/discard", format!("id=hello/1&reason={}", "x".repeat(251)), "at most 250 characters"),
        ("/processes/stop", format!("request_id={}", "x".repeat(2000)), "a request id has 1 to"),
        ("/send", "to=hello&payload=1&group=%00".into(), "`group` must not contain NUL"),
    ] {
        let (status, page) = sent(&desk, path, "", Body::from(format!("csrf={csrf}&{field}"))).await;
        assert!(status == StatusCode::BAD_REQUEST && page.contains(why), "{path}: {status} {page}");
    }
}

#[tokio::test]
async fn a_form_that_was_refused_says_once_that_nothing_was_sent() {
    let desk = Desk::new(&[]).await;
    let csrf = form_token(&desk, "").await;
    let (status, page) =
        sent(&desk, "/send", "", Body::from(format!("csrf={csrf}&to=site&level=none&payload=1"))).await;
    assert!(status.is_client_error() && page.contains("Nothing was sent: "), "{status} {page}");
    assert!(!page.contains("; nothing was sent"), "{page}");
}

#[tokio::test]
async fn a_page_that_says_why_there_is_no_other_knows_who_asks() {
    let desk = Desk::with_tokens().await;
    let cookie = cookie(&desk).await;
    for path in ["/message?id=rubbish", "/nowhere", "/queue?name=nowhere", "/messages/retry"] {
        let asked = Request::builder().uri(path).header(header::HOST, "localhost").header(header::COOKIE, &cookie);
        let (status, page) = read(desk.ask(asked.body(Body::empty()).unwrap()).await).await;
        assert!(status.is_client_error(), "{path}: {status}");
        for there in ["Signed in as <strong>admin</strong>", "Sign out", "/settings"] {
            assert!(page.contains(there), "{path} has {there}: {page}");
        }
    }
    let (_, page) = desk.api(None, "GET", "/nowhere", "").await;
    assert!(!page.contains("Sign out") && !page.contains("/settings"), "nobody is signed in: {page}");
}
