//! What a browser on another site, or somebody who guesses, gets: nothing. And what is sent once is sent once.

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use ichido_console::Role;

use super::desk::{Desk, read, secret};

const SEND: &str = "/api/v1/queues/hello/messages";
const ONE: &str = r#"{"messages":[{"payload":{"name":"x"}}]}"#;

/// A request that changes something, with these headers.
fn post(path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let request = Request::builder().method("POST").uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Body::from(body.to_owned())).unwrap()
}

#[tokio::test]
async fn without_tokens_only_this_host_is_answered() {
    let desk = Desk::new(&[]).await;
    assert_eq!(desk.api(None, "GET", "/api/v1/status", "").await.0, StatusCode::OK);
    for host in ["evil.example", "192.0.2.7:7070", ""] {
        let asked = Request::builder().uri("/api/v1/status").header(header::HOST, host).body(Body::empty()).unwrap();
        assert_eq!(desk.ask(asked).await.status(), StatusCode::FORBIDDEN, "{host}");
    }
}

#[tokio::test]
async fn another_site_cannot_change_anything() {
    let desk = Desk::new(&[]).await;
    let json = ("content-type", "application/json");
    let elsewhere: [&[(&str, &str)]; 4] = [
        &[("host", "localhost"), json, ("origin", "https://evil.example")],
        &[("host", "localhost"), json, ("sec-fetch-site", "cross-site")],
        &[("host", "localhost"), json, ("sec-fetch-site", "same-site")],
        &[("host", "localhost"), json, ("origin", "null")],
    ];
    for headers in elsewhere {
        let (status, text) = read(desk.ask(post(SEND, headers, ONE)).await).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{headers:?}: {text}");
    }
    // What a form of another site can send without asking is not read.
    let plain = [("host", "localhost"), ("content-type", "text/plain")];
    assert_eq!(desk.ask(post(SEND, &plain, ONE)).await.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let own = [("host", "localhost"), json, ("origin", "http://localhost"), ("sec-fetch-site", "same-origin")];
    assert_eq!(desk.ask(post(SEND, &own, ONE)).await.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_session_is_for_browsers_and_forms_need_its_token() {
    let desk = Desk::with_tokens().await;
    let form = [("host", "h"), ("content-type", "application/x-www-form-urlencoded")];
    let wrong = desk.ask(post("/login", &form, "token=wrong")).await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    assert!(wrong.headers().get(header::SET_COOKIE).is_none());
    let body = format!("token={}&to=%2F%2Fevil.example", secret(Role::Operate));
    let right = desk.ask(post("/login", &form, &body)).await;
    assert_eq!((right.status(), &right.headers()[header::LOCATION]), (StatusCode::SEE_OTHER, &"/".parse().unwrap()));
    let cookie = right.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let page = Request::builder().uri("/").header("host", "h").header("cookie", cookie).body(Body::empty()).unwrap();
    assert_eq!(desk.ask(page).await.status(), StatusCode::OK);
    for given in ["", "csrf=", "csrf=guess"] {
        let headers = [form[0], form[1], ("cookie", cookie)];
        let (status, text) = read(desk.ask(post("/logout", &headers, given)).await).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    }
}

#[tokio::test]
async fn every_answer_tells_browsers_what_not_to_do() {
    let desk = Desk::with_tokens().await;
    for path in ["/", "/login", "/api/v1/status", "/nowhere", "/livez"] {
        let asked = Request::builder().uri(path).header("host", "h").body(Body::empty()).unwrap();
        let answer = desk.ask(asked).await;
        let csp = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(csp.contains("default-src 'none'") && csp.contains("frame-ancestors 'none'"), "{path}: {csp}");
        assert!(!csp.contains("unsafe"), "{path}: {csp}");
        assert_eq!(answer.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
}

#[tokio::test]
async fn hostile_text_is_answered_as_json() {
    let desk = Desk::with_tokens().await;
    let hostile = r#"\"><svg onload=alert(1)>"#;
    let body =
        format!(r#"{{"messages":[{{"payload":"{hostile}","headers":{{"x-a":"{hostile}"}},"group":"{hostile}"}}]}}"#);
    let (status, text) = desk.api(Some(Role::Operate), "POST", SEND, &body).await;
    assert_eq!(status, StatusCode::CREATED, "{text}");
    let asked = [
        "/api/v1/messages",
        "/api/v1/messages/hello%2F1",
        "/api/v1/messages/%3Csvg%20onload%3Dx%3E",
        "/api/v1/%3Csvg%3E",
    ];
    for path in asked {
        let token = format!("Bearer {}", secret(Role::Read));
        let asked = Request::builder().uri(path).header("host", "h").header("authorization", token);
        let answer = desk.ask(asked.body(Body::empty()).unwrap()).await;
        let kind = answer.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        assert!(kind == "application/json" || kind == "application/problem+json", "{path}: {kind}");
        let (_, text) = read(answer).await;
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{path}: {error} {text}"));
    }
}

#[tokio::test]
async fn what_is_sent_again_with_its_key_is_sent_once() {
    let desk = Desk::with_tokens().await;
    let token = format!("Bearer {}", secret(Role::Operate));
    let headers =
        [("host", "h"), ("authorization", &*token), ("content-type", "application/json"), ("idempotency-key", "k-1")];
    let (first, sent) = read(desk.ask(post(SEND, &headers, ONE)).await).await;
    let (again, same) = read(desk.ask(post(SEND, &headers, ONE)).await).await;
    assert_eq!((first, again), (StatusCode::CREATED, StatusCode::OK), "{sent} {same}");
    let ids = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["ids"].clone();
    assert_eq!(ids(&sent), ids(&same));
    let other = ONE.replace('x', "y");
    assert_eq!(desk.ask(post(SEND, &headers, &other)).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let elsewhere = post("/api/v1/queues/members/messages", &headers, ONE);
    assert_eq!(desk.ask(elsewhere).await.status(), StatusCode::CREATED, "a key is the queue's");
    let (_, listed) = desk.api(Some(Role::Read), "GET", "/api/v1/messages?queue=hello", "").await;
    assert_eq!(listed.matches("\"id\"").count(), 1, "{listed}");
}

#[tokio::test]
async fn what_is_done_is_in_the_audit_with_who() {
    let desk = Desk::with_tokens().await;
    let admin = Some(Role::Admin);
    desk.api(admin, "POST", SEND, ONE).await;
    let (status, text) =
        desk.api(admin, "POST", "/api/v1/messages/cancel", r#"{"ids":["hello/1"],"reason":"a test"}"#).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    desk.api(Some(Role::Operate), "POST", "/api/v1/processes/R1/stop", "{}").await;
    let (_, audit) = desk.api(admin, "GET", "/api/v1/audit", "").await;
    let entries: serde_json::Value = serde_json::from_str(&audit).unwrap();
    let told =
        |at: usize| ["verb", "what", "user"].map(|name| entries["entries"][at][name].as_str().unwrap().to_owned());
    assert_eq!(told(0), ["stop", "R1", "operate"], "{audit}");
    assert_eq!(told(1), ["cancel", "hello/1", "admin"], "{audit}");
    assert_eq!(told(2), ["send", "hello/1", "admin"], "{audit}");
}

#[tokio::test]
async fn so_many_are_changed_at_a_time_as_was_asked() {
    let desk = Desk::with_tokens().await;
    let operator = Some(Role::Operate);
    for _ in 0..3 {
        desk.api(operator, "POST", SEND, ONE).await;
    }
    for (cancelled, more) in [(2, true), (1, false)] {
        let (_, text) = desk.api(operator, "POST", "/api/v1/messages/cancel", r#"{"queue":"hello","limit":2}"#).await;
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((told["messages"].as_array().unwrap().len(), &told["more"]), (cancelled, &more.into()), "{text}");
    }
    let ids = (0..11).map(|number| format!("\"hello/{number}\"")).collect::<Vec<_>>().join(",");
    for (body, why) in [
        (r#"{"queue":"hello","rate":0}"#.to_owned(), "`rate` must be a number from 1 to 1000"),
        (format!(r#"{{"ids":[{ids}],"rate":1}}"#), "at most 10 `ids` at a time"),
    ] {
        let (status, text) = desk.api(operator, "POST", "/api/v1/failed/retry", &body).await;
        assert!(status == StatusCode::BAD_REQUEST && text.contains(why), "{status} {text}");
    }
}

/// What the next versions have is refused with a reason, for people and for programs.
#[tokio::test]
async fn paths_that_are_not_built_yet_say_so() {
    let desk = Desk::new(&[]).await;
    for (path, why) in [
        ("/api/v1/schedules", "schedules are not built yet"),
        ("/api/v1/schedules/7", "schedules are not built yet"),
        ("/schedules", "schedules are not built yet"),
        ("/docs", "the documentation is not served"),
        ("/docs/console.md", "the documentation is not served"),
        ("/api/v1/nothing", "/api/v1/openapi.json lists"),
        ("/nothing", "there is no such page"),
    ] {
        let (status, text) = desk.api(None, "GET", path, "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(text.contains(why), "{path}: {text}");
        assert_eq!(
            text.starts_with('{'),
            path.starts_with("/api/"),
            "{path}: a problem for programs, a page for people"
        );
    }
}

/// What the router itself refuses is a problem too, and no bare status.
#[tokio::test]
async fn wrong_methods_and_paths_are_problems() {
    let desk = Desk::new(&[]).await;
    for (method, path, expected) in [
        ("PUT", "/api/v1/queues", StatusCode::METHOD_NOT_ALLOWED),
        ("GET", "/api/v1/processes/R1/stop", StatusCode::METHOD_NOT_ALLOWED),
        ("GET", "/api/v1/queues/%FF", StatusCode::BAD_REQUEST),
        ("GET", "/api/v1/messages/hello%2F%FF", StatusCode::BAD_REQUEST),
    ] {
        let asked = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let answer = desk.ask(asked.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status(), expected, "{method} {path}");
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json", "{method} {path}");
        let allowed = answer.headers().contains_key(header::ALLOW);
        assert_eq!(allowed, expected == StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
    }
    let (status, page) = desk.api(None, "GET", "/messages/retry", "").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(page.contains("GET is not allowed here"), "people get a page: {page}");
}
