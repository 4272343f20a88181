//! The metrics of the fleet.

use axum::http::StatusCode;

use super::desk::Desk;

/// Those that a monitor may rely on, also before a process has run; what only a process knows is in docs/observing.md.
#[tokio::test]
async fn every_metric_of_the_fleet_is_told_from_the_beginning() {
    let desk = Desk::new(&[]).await;
    let (status, text) = desk.api(None, "GET", "/metrics", "").await;
    assert_eq!(status, StatusCode::OK, "{text}");
    for (name, kind) in [
        ("messages_total", "counter"),
        ("waiting_seconds", "histogram"),
        ("running_seconds", "histogram"),
        ("backlog", "gauge"),
        ("oldest_seconds", "gauge"),
        ("outbox_unpublished", "gauge"),
        ("slots", "gauge"),
        ("processes", "gauge"),
        ("heartbeat_age_seconds", "gauge"),
    ] {
        assert!(text.contains(&format!("# TYPE ichido_{name} {kind}\n")), "{name}: {text}");
    }
    assert!(text.contains("event=\"done\"} 0\n") && !text.contains("event=\"sent\""), "{text}");
}
