//! The console in a server of somebody else's: below a path, with addresses that only axum knows, and with nobody's.

use std::{
    collections::{BTreeSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

use axum::{
    body::Body,
    extract::ConnectInfo,
    http::{Request, StatusCode, header},
};
use ichido_console::{Role, access::Peer};

use super::desk::{Desk, read, secret};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn get(path: &str) -> axum::http::request::Builder {
    Request::builder().uri(path).header(header::HOST, "localhost")
}

fn connected(last: u8) -> ConnectInfo<SocketAddr> {
    ConnectInfo((IpAddr::from([192, 0, 2, last]), 4711).into())
}

/// What a page leads to: the values of these attributes.
fn addresses<'a>(page: &'a str, attribute: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let plain = |text: &str| text.replace("&amp;", "&").replace("&#38;", "&");
    page.split(attribute).skip(1).filter_map(move |rest| rest.split('"').next()).map(plain)
}

#[tokio::test]
async fn every_link_of_every_page_leads_somewhere_below_its_path() {
    let desk = Desk::built(&[], |console| console.base("/ichido")).await;
    let one = r#"{"messages":[{"payload":{"name":"x"}}]}"#;
    assert_eq!(desk.api(None, "POST", "/ichido/api/v1/queues/hello/messages", one).await.0, StatusCode::CREATED);
    let mut todo = VecDeque::from(["/ichido".to_owned(), "/ichido/".into(), "/ichido/message?id=hello%2F1".into()]);
    let mut seen: BTreeSet<String> = todo.iter().cloned().collect();
    while let Some(path) = todo.pop_front() {
        let (status, page) = read(desk.ask(get(&path).body(Body::empty()).unwrap()).await).await;
        assert_eq!(status, StatusCode::OK, "{path}: {page}");
        let forms = addresses(&page, " action=\"").chain(addresses(&page, " formaction=\""));
        for form in forms {
            let status = desk.api(None, "POST", &form, "").await.0;
            assert_ne!(status, StatusCode::NOT_FOUND, "{path} posts to {form}");
        }
        for to in addresses(&page, " href=\"").chain(addresses(&page, " src=\"")).filter(|to| !to.starts_with('#')) {
            assert!(to.starts_with("/ichido/"), "{path} leads out to {to}");
            if seen.insert(to.clone()) {
                todo.push_back(to);
            }
        }
    }
    assert!(seen.len() > 25, "{seen:?}");
    assert_eq!(desk.api(None, "GET", "/", "").await.0, StatusCode::NOT_FOUND, "the rest of the server is not ours");
}

#[tokio::test]
async fn the_document_says_where_the_api_is_mounted() {
    for (base, place) in [("", "/"), ("/ichido", "/ichido/")] {
        let desk = Desk::built(&[], |console| console.base(base)).await;
        let (_, text) = desk.api(None, "GET", &format!("{base}/api/v1/openapi.json"), "").await;
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["servers"], serde_json::json!([{ "url": place }]));
    }
}

#[tokio::test]
async fn whoever_logs_in_below_a_path_gets_its_first_page() {
    let desk = Desk::built(&Role::ALL, |console| console.base("/ichido")).await;
    let body = Body::from(format!("token={}", secret(Role::Read)));
    let asked = get("/ichido/login").method("POST").header(FORM.0, FORM.1).body(body).unwrap();
    let answer = desk.ask(asked).await;
    let (to, cookie) = (answer.headers()[header::LOCATION].clone(), answer.headers()[header::SET_COOKIE].clone());
    let to = to.to_str().unwrap();
    let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
    let page = get(to).header("cookie", cookie).body(Body::empty()).unwrap();
    assert_eq!(desk.ask(page).await.status(), StatusCode::OK, "{to}");
}

#[tokio::test]
async fn without_tokens_nobody_elsewhere_is_answered_whatever_host_they_name() {
    let desk = Desk::new(&[]).await;
    let status = || get("/api/v1/status");
    let refused = [
        (status().extension(connected(7)), "this host itself; give it tokens, so that others"),
        (status().extension(Peer([192, 0, 2, 7].into())), "this host itself; give it tokens, so that others"),
        (status(), "into_make_service_with_connect_info"),
        (status().extension(Peer([127, 0, 0, 1].into())).header("x-forwarded-for", "192.0.2.7"), "serve.behind_proxy"),
        (status().extension(Peer([127, 0, 0, 1].into())).header("forwarded", "for=192.0.2.7"), "serve.behind_proxy"),
    ];
    for (asked, why) in refused {
        let (status, text) = read(desk.ask_as_it_is(asked.body(Body::empty()).unwrap()).await).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{why}");
        assert!(text.contains(why), "{why}: {text}");
    }
    for here in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
        let here: SocketAddr = here.parse().unwrap();
        let asked = status().extension(ConnectInfo(here)).body(Body::empty()).unwrap();
        assert_eq!(desk.ask_as_it_is(asked).await.status(), StatusCode::OK, "{here}");
    }
}

#[tokio::test]
async fn a_program_may_guard_the_console_itself() {
    let desk = Desk::built(&[], ichido_console::Builder::trust_everyone).await;
    let asked = Request::builder().uri("/api/v1/status").header(header::HOST, "intranet.example");
    assert_eq!(desk.ask_as_it_is(asked.body(Body::empty()).unwrap()).await.status(), StatusCode::OK);
    let elsewhere = get("/api/v1/processes/R1/stop").method("POST").header("origin", "https://evil.example");
    assert_eq!(desk.ask_as_it_is(elsewhere.body(Body::empty()).unwrap()).await.status(), StatusCode::FORBIDDEN);
    let guarded = Desk::built(&Role::ALL, ichido_console::Builder::trust_everyone).await;
    assert_eq!(
        guarded.api(None, "GET", "/api/v1/status", "").await.0,
        StatusCode::UNAUTHORIZED,
        "with tokens nobody is trusted"
    );
}

#[tokio::test]
async fn who_guesses_tokens_locks_out_their_own_address_alone() {
    let desk = Desk::with_tokens().await;
    let log_in = async |token: &str, from: u8| {
        let asked = get("/login").method("POST").header(FORM.0, FORM.1).extension(connected(from));
        desk.ask_as_it_is(asked.body(Body::from(format!("token={token}"))).unwrap()).await.status()
    };
    for _ in 0..10 {
        assert_eq!(log_in("wrong", 1).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(log_in(&secret(Role::Admin), 1).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(log_in(&secret(Role::Admin), 2).await, StatusCode::SEE_OTHER);
}
