//! Files that are right, and what becomes of them; the kinds of queues are in `queues.rs`.

use ichido::{
    action::Isolation,
    handlers::{Limit, Placement},
    message::OnDone,
};
use std::time::Duration;

use super::super::{ActionKind, ExecAction, LogFormat, LogLevel, QueueKind};
use super::{EXAMPLE, accepted, parse};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_empty_file_has_every_default() {
    let config = parse("").unwrap();
    assert_eq!(config.database.url.as_str(), "sqlite://ichido.db");
    assert_eq!(config.database.url.scheme(), "sqlite");
    assert_eq!(config.database.schema, None);
    assert!(!config.database.single_writer);
    assert_eq!(config.database.timeout, 15 * SECOND);
    assert!(config.queues.is_empty() && config.lanes.is_empty() && config.actions.is_empty());

    let process = &config.process;
    assert_eq!(process.lease, 30 * SECOND);
    assert_eq!(process.poll, SECOND);
    assert_eq!(process.grace, 25 * SECOND);
    assert_eq!(process.check, SECOND);
    assert_eq!(process.check_every, 1);
    assert!(process.notify && !process.single);
    assert_eq!((process.exit_duplicate, process.retry.exit), (14, 180));
    assert_eq!(process.retry.limit, Limit::Count(10));
    assert_eq!(process.retry.interval, 5 * SECOND);
    assert_eq!(process.retry.window, 900 * SECOND);
    assert!(process.handlers.is_none() && process.exempt.is_empty());
    assert_eq!((config.log.format, config.log.level), (LogFormat::Text, LogLevel::Info));
    assert_eq!(config.log.level.as_str(), "info");
    assert_eq!(config.log.progress, 10 * SECOND);
    assert_eq!(config.retention.audit, 90 * 86400 * SECOND);
    assert_eq!(config.retention.inbox, 30 * 86400 * SECOND);
    assert_eq!(config.retention.stats, 7 * 86400 * SECOND);
    assert_eq!(config.dispatch.base, "");
}

#[test]
fn the_example_of_the_manual_is_read_with_its_defaults() {
    let config = parse(EXAMPLE).unwrap();
    assert_eq!(config.queues.keys().collect::<Vec<_>>(), ["mail", "orders"]);
    assert_eq!(config.queues["mail"].kind, QueueKind::Managed);
    assert_eq!(config.queues["mail"].payload_limit, 256 * 1024);
    let QueueKind::Table(orders) = &config.queues["orders"].kind else {
        panic!("{:?}", config.queues["orders"]);
    };
    assert_eq!((orders.schema.as_deref(), orders.name.as_str()), (None, "received_order"));
    assert_eq!(orders.key, ["id"]);
    assert_eq!(orders.status.column, "status");
    assert_eq!(orders.status.new, "0");
    assert_eq!(orders.status.done, Some("1".into()));
    assert_eq!(orders.status.failed, Some("2".into()));
    assert_eq!(orders.owner, "process_id");
    assert_eq!(orders.on_done, OnDone::Status);
    assert!(orders.order_by.is_empty() && orders.only.is_empty());

    let action = &config.actions["ProjectCreation"];
    assert_eq!((action.from.as_str(), action.concurrency), ("orders", 8));
    assert_eq!((action.retry.attempts, action.retry.factor), (5, 2.0));
    assert_eq!((action.retry.first, action.retry.max), (SECOND, 300 * SECOND));
    assert_eq!(action.isolation, Isolation::ReadCommitted);
    assert_eq!((action.commit_interval, action.timeout), (1, None));
    let statement = "insert into project (id, name) values (:id, :name)".to_owned();
    assert_eq!(action.kind, ActionKind::Sql(vec![statement]));
}

#[test]
fn the_pool_follows_the_highest_concurrency_up_to_sixteen() {
    let pool = |database: &str, concurrency: u32| {
        let text = super::with_action(&format!("concurrency = {concurrency}\n{database}"));
        accepted(&text).pool()
    };
    assert_eq!(pool("", 8), 10);
    assert_eq!(pool("", 1), 3);
    assert_eq!(pool("", 1024), 16);
    assert_eq!(pool("[database]\npool = 3", 8), 3);
    assert_eq!(pool("[database]\npool = 1000", 8), 1000);
    assert_eq!(accepted("").pool(), 3);
}

#[test]
fn read_ahead_follows_the_concurrency_up_to_sixty_four() {
    assert_eq!(accepted("").read_ahead(8), 8);
    assert_eq!(accepted("").read_ahead(1024), 64);
    assert_eq!(accepted("[process]\nread_ahead = 0").read_ahead(8), 0);
    assert_eq!(accepted("[process]\nread_ahead = 64").read_ahead(8), 64);
}

#[test]
fn every_key_of_an_action_is_read() {
    let text = super::with_action(
        r#"
concurrency = 1
retry = { attempts = 1, first = 0, max = "1h30m", factor = 1.5 }
timeout = "90s"
isolation = "serializable"
commit_interval = 50
commit_on = ["park"]
handlers = ["loop", { name = "process stop", after = "loop", options = { every = 5 } }]
http = { url = "https://example.org/hook", headers = { X-Key = "k" }, timeout = "5s" }
"#,
    );
    let action = accepted(&text).actions.remove("A").unwrap();
    assert_eq!((action.retry.first, action.retry.max), (Duration::ZERO, 5400 * SECOND));
    assert_eq!((action.retry.attempts, action.retry.factor), (1, 1.5));
    assert_eq!((action.timeout, action.isolation), (Some(90 * SECOND), Isolation::Serializable));
    assert_eq!((action.commit_interval, action.commit_on.len()), (50, 1));
    let handlers = action.handlers.unwrap();
    assert_eq!((handlers[0].name.as_str(), &handlers[0].place), ("loop", &None));
    assert_eq!(handlers[1].place, Some(Placement::After("loop".into())));
    assert_eq!(handlers[1].options["every"], "5");
    let ActionKind::Http(http) = action.kind else { panic!("no HTTP action") };
    assert_eq!((http.headers["X-Key"].as_str(), http.timeout), ("k", 5 * SECOND));
}

#[test]
fn an_action_without_sql_http_or_exec_is_one_in_rust() {
    assert_eq!(accepted(&super::with_action("")).actions["A"].kind, ActionKind::Rust);
    let exec = accepted(&super::with_action("exec = [\"mail\", \"\"]\nenv = [\"SMTP\"]")).actions.remove("A").unwrap();
    let expected = ExecAction { argv: vec!["mail".into(), String::new()], env: vec!["SMTP".into()] };
    assert_eq!(exec.kind, ActionKind::Exec(expected));
}

#[test]
fn every_other_section_is_read_in_full() {
    let config = accepted(
        r#"
[database]
url = "postgresql://app@db/shop"
pool = 20
schema = "work"
single_writer = true
[process]
lease = "10s"
poll = "10ms"
grace = "0s"
check = "2s"
check_every = 100
read_ahead = 16
notify = false
retry = { time = "10m", interval = "2s", window = "20m", exit = 199 }
handlers = ["status code"]
single = true
exempt = ["nightly"]
exit_duplicate = 199
[log]
format = "json"
level = "debug"
progress = "1m"
mask = ["card"]
[retention]
audit = "1d"
inbox = "2d"
stats = "0s"
[dispatch]
base = "a"
prefix = "b"
suffix = "Service"
patterns = [{ pattern = "admin//", base = "x" }]
"#,
    );
    assert_eq!((config.pool(), config.database.schema.as_deref()), (20, Some("work")));
    assert_eq!(config.process.retry.limit, Limit::Time(600 * SECOND));
    assert_eq!((config.process.retry.exit, config.process.exit_duplicate), (199, 199));
    assert_eq!((config.process.poll, config.process.grace), (SECOND / 100, Duration::ZERO));
    assert_eq!((config.log.format, config.log.level), (LogFormat::Json, LogLevel::Debug));
    assert_eq!((config.log.mask.len(), config.retention.stats), (1, Duration::ZERO));
    assert_eq!((config.dispatch.suffix.as_str(), config.dispatch.patterns.len()), ("Service", 1));
}
