//! How many statements a route costs. In a program of its own: they are counted as the driver logs them, for the whole process.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{body::Body, http::Request};
use ichido::{Operate, Queue};
use ichido_console::{Console, access::Peer};
use ichido_sqlite::Sqlite;
use tower_service::Service;
use tracing::{Event, Metadata, Subscriber, span};

/// From this host.
const HERE: Peer = Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));

static STATEMENTS: AtomicUsize = AtomicUsize::new(0);

/// Counts what the driver says about statements.
struct Counting;

impl Subscriber for Counting {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {
        STATEMENTS.fetch_add(1, Ordering::SeqCst);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Routes that ask the database, and how many statements each may cost with these three queues.
const BUDGETS: [(&str, usize); 27] = [
    ("/livez", 0),
    ("/api/v1/lanes", 0),
    ("/api/v1/status", 12),
    ("/api/v1/queues", 12),
    ("/api/v1/queues/a", 12),
    ("/api/v1/processes", 12),
    ("/api/v1/stats", 1),
    ("/api/v1/audit", 1),
    ("/api/v1/messages?queue=a&state=ready", 3),
    ("/api/v1/messages/a%2F1", 4),
    ("/api/v1/failed", 4),
    ("/metrics", 13),
    ("/", 13),
    ("/queues", 13),
    ("/queue?name=a&state=ready", 16),
    ("/queue/cancel?name=a&state=ready", 16),
    ("/send", 13),
    ("/message?id=a%2F1", 17),
    ("/failed", 17),
    ("/failed/all?verb=retry", 17),
    ("/processes", 13),
    ("/lanes", 13),
    ("/handlers", 13),
    ("/settings", 13),
    ("/audit", 14),
    ("/doctor", 30),
    ("/api/v1/doctor", 17),
];

#[tokio::test]
async fn no_route_costs_more_statements_than_it_may() {
    tracing::subscriber::set_global_default(Counting).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("x.db").display());
    let store = Sqlite::new(&url, ["a", "b", "c"].map(Queue::managed).to_vec()).unwrap();
    store.migrate().await.unwrap();
    let mut over = Vec::new();
    for (path, most) in BUDGETS {
        let mut cost = 0;
        // The first look learns what the tables are. Each has a console of its own: counts that are shared cost a page nothing.
        for _ in 0..2 {
            let mut router = Console::builder(store.clone()).queues(["a", "b", "c"]).build().router();
            let before = STATEMENTS.load(Ordering::SeqCst);
            let request = Request::builder().uri(path).header("host", "localhost").extension(HERE);
            let request = request.body(Body::empty()).unwrap();
            router.call(request).await.unwrap();
            cost = STATEMENTS.load(Ordering::SeqCst) - before;
        }
        println!("{path}: {cost} of {most}");
        if cost > most {
            over.push(format!("{path}: {cost}, allowed {most}"));
        }
        assert!(cost > 0 || most == 0, "{path}: nothing was counted");
    }
    assert!(over.is_empty(), "{over:#?}");
}
