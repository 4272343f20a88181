//! Every route with every role: what is not allowed is refused, whatever else is wrong with the request.

use axum::http::StatusCode;
use ichido_console::{Console, Role};

use super::desk::Desk;

/// Something in place of each name.
fn filled(path: &str) -> String {
    path.replace("{id}", "hello%2F1")
        .replace("{queue}", "hello")
        .replace("{lanes}", "site")
        .replace("{request_id}", "R1")
        .replace("{verb}", "pause")
}

#[tokio::test]
async fn a_route_is_open_to_its_role_and_to_none_below() {
    let desk = Desk::with_tokens().await;
    let routes = Console::routes();
    assert!(routes.len() > 25, "{}", routes.len());
    for route in routes {
        // A stream of events never ends.
        if route.path.contains("events") {
            continue;
        }
        let path = filled(route.path);
        for who in [None, Some(Role::Read), Some(Role::Operate), Some(Role::Admin)] {
            let body = if route.method == "GET" { "" } else { "{}" };
            let (status, text) = desk.api(who, route.method, &path, body).await;
            let context = format!("{} {path} as {who:?}: {status} {text:.200}", route.method);
            match (who, route.role) {
                (_, None) => assert_ne!(status, StatusCode::FORBIDDEN, "{context}"),
                (None, Some(_)) if path.starts_with("/api") || path == "/metrics" => {
                    assert_eq!(status, StatusCode::UNAUTHORIZED, "{context}");
                }
                (None, Some(_)) => assert_eq!(status, StatusCode::SEE_OTHER, "{context}"),
                (Some(who), Some(needs)) if who < needs => assert_eq!(status, StatusCode::FORBIDDEN, "{context}"),
                (Some(_), Some(_)) => {
                    assert_ne!(status, StatusCode::UNAUTHORIZED, "{context}");
                    assert!(!text.contains("this needs the role"), "{context}");
                }
            }
            assert!(!status.is_server_error(), "{context}");
        }
    }
}

/// What changes something needs more than a reader, and another method than GET.
#[tokio::test]
async fn nothing_is_changed_by_get_or_by_a_reader() {
    for route in Console::routes() {
        let changes = route.method != "GET" && !route.path.ends_with("/simulate");
        if changes && !matches!(route.path, "/login" | "/logout") {
            assert!(route.role >= Some(Role::Operate), "{route:?}");
        }
    }
    let desk = Desk::with_tokens().await;
    for path in ["/api/v1/messages/cancel", "/api/v1/failed/retry", "/api/v1/doctor/fix", "/api/v1/processes/R1/stop"] {
        let (status, text) = desk.api(Some(Role::Admin), "GET", path, "").await;
        assert!(status.is_client_error(), "{path}: {status} {text}");
    }
    let (_, audit) = desk.api(Some(Role::Admin), "GET", "/api/v1/audit", "").await;
    assert_eq!(audit, r#"{"entries":[],"next":null}"#);
}

/// The document says of each route what the program does.
#[tokio::test]
async fn the_document_names_every_route_and_its_role() {
    let desk = Desk::with_tokens().await;
    let (_, text) = desk.api(Some(Role::Read), "GET", "/api/v1/openapi.json", "").await;
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let routes: Vec<_> = Console::routes().into_iter().filter(|route| route.path.starts_with("/api/")).collect();
    for route in &routes {
        let told = &paths[route.path][route.method.to_lowercase()];
        assert_eq!(told["x-ichido-role"].as_str(), route.role.map(Role::as_str), "{route:?}");
    }
    let told: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(told, routes.len());
}
