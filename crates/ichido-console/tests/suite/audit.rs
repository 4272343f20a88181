//! The audit, page by page.

use axum::http::StatusCode;
use ichido_console::Role;
use serde_json::Value;

use super::desk::Desk;

/// More than a page of the console has.
const CHANGES: usize = 105;

async fn changed() -> Desk {
    let desk = Desk::new(&[]).await;
    for number in 0..CHANGES {
        let (status, text) = desk.api(None, "POST", &format!("/api/v1/processes/R{number}/pause"), "{}").await;
        assert_eq!(status, StatusCode::OK, "{text}");
    }
    desk
}

async fn page(desk: &Desk, query: &str) -> (Vec<String>, Option<String>) {
    let (status, text) = desk.api(None, "GET", &format!("/api/v1/audit?{query}"), "").await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let entries = found["entries"].as_array().unwrap().iter();
    (
        entries.map(|entry| entry["what"].as_str().unwrap().to_owned()).collect(),
        found["next"].as_str().map(str::to_owned),
    )
}

#[tokio::test]
async fn programs_read_all_of_it_page_by_page() {
    let desk = changed().await;
    let (mut all, mut query) = (Vec::new(), "limit=35".to_owned());
    loop {
        let (entries, next) = page(&desk, &query).await;
        assert_eq!(entries.len(), 35);
        all.extend(entries);
        // What is done meanwhile is newer, and moves nothing.
        desk.api(None, "POST", &format!("/api/v1/processes/R{}/resume", all.len()), "{}").await;
        let Some(next) = next else { break };
        query = format!("limit=35&after={next}");
    }
    let expected: Vec<_> = (0..CHANGES).rev().map(|number| format!("R{number}")).collect();
    assert_eq!(all, expected, "the newest first, each once, and no page after the last");
    let (status, text) = desk.api(None, "GET", "/api/v1/audit?after=x", "").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
}

#[tokio::test]
async fn people_follow_a_link_to_what_is_older() {
    let desk = changed().await;
    let (_, first) = desk.api(None, "GET", "/audit", "").await;
    assert!(first.contains(">R104<") && !first.contains(">R4<"), "{first}");
    let (_, link) = first.split_once("class=\"pages\"").unwrap();
    let link = link.split('"').nth(1).unwrap().replace("&amp;", "&");
    let (status, second) = desk.api(None, "GET", &link, "").await;
    assert_eq!(status, StatusCode::OK, "{link}: {second}");
    assert!(second.contains(">R4<") && second.contains(">R0<") && !second.contains(">R5<"), "{second}");
    assert!(!second.contains("class=\"pages\"") && second.contains("Back to the newest"), "{second}");
    let (status, _) = desk.api(Some(Role::Read), "GET", "/audit?after=x", "").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
