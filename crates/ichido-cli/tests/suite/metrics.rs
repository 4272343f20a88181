//! `/metrics` of `ichido run --health`, from outside: what a process tells, that the documentation has the same names, and that a real
//! Prometheus understands it, the dashboard and the alerts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use ichido_test_servers::Prometheus;
use ichido_testkit::eventually;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::task::block_in_place;

use crate::{
    probes::{HEALTH, address, ask},
    rabbitmq::world::World,
    testenv::{Env, Kind, Process},
};

async fn scrape(address: &str) -> String {
    let (status, body) = ask(address, "GET /metrics").await;
    assert_eq!(status, 200, "{body}");
    body
}

/// Waits until all of these lines are in the text.
async fn until_told(address: &str, lines: &[&str]) {
    eventually(format!("metrics: {lines:?}"), async || {
        let text = scrape(address).await;
        let missing = lines.iter().find(|line| !text.lines().any(|told| told == **line));
        missing.map_or(Ok(()), |line| Err(format!("no {line} in {text}")))
    })
    .await;
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

on_all!(a_process_tells_what_it_did);

async fn a_process_tells_what_it_did(kind: Kind) {
    let env = Env::new(kind).await;
    let failing = "\n[actions.Fail]\nfrom = \"mail\"\nconcurrency = 2\nretry = { attempts = 2, first = \"10ms\", max = \"10ms\" }\n\
                   sql = [\"insert into project (id, name, made_by) values (null, null, null)\"]\n";
    env.configure(|config| config.replace("concurrency = 4", "concurrency = 3") + failing);
    env.send_orders(1..=3).await;
    env.ok(&["send", "mail", "{}"]).await;
    let mut process = env.start("process", &HEALTH);
    let address = address(&process).await;
    until_told(
        &address,
        &[
            r#"ichido_messages_total{queue="orders",level="",event="started"} 3"#,
            r#"ichido_messages_total{queue="orders",level="",event="done"} 3"#,
            r#"ichido_messages_total{queue="orders",level="",event="failed"} 0"#,
            r#"ichido_messages_total{queue="mail",level="",event="started"} 2"#,
            r#"ichido_messages_total{queue="mail",level="",event="retried"} 1"#,
            r#"ichido_messages_total{queue="mail",level="",event="failed"} 1"#,
            r#"ichido_messages_total{queue="mail",level="",event="parked"} 2"#,
            r#"ichido_running_seconds_count{queue="orders",level=""} 3"#,
            r#"ichido_running_seconds_bucket{le="+Inf",queue="mail",level=""} 2"#,
            r#"ichido_waiting_seconds_count{queue="mail",level=""} 1"#,
            r#"ichido_backlog{queue="orders",level=""} 0"#,
            r#"ichido_oldest_seconds{queue="mail",level=""} 0.0"#,
            r#"ichido_slots{action="ProjectCreation"} 3"#,
            r#"ichido_slots_busy{action="Fail"} 0"#,
        ],
    )
    .await;
    // What waits is counted every ten seconds; nobody may claim it.
    env.ok(&["pause", "ProjectCreation"]).await;
    process.until_logged("is paused").await;
    env.send_orders(4..=7).await;
    until_told(&address, &[r#"ichido_backlog{queue="orders",level=""} 4"#]).await;
    process.stop().await;
}

on_servers!(a_scrape_makes_no_query);

/// Every statement goes through a proxy, which counts them; a process that has nothing to do makes a few a second by itself.
async fn a_scrape_makes_no_query(kind: Kind) {
    const SCRAPES: u64 = 1_000;
    let env = Env::new(kind).await;
    env.configure(|config| {
        config.replace("lease = \"1s\"", "lease = \"30s\"").replace("poll  = \"200ms\"", "poll = \"10s\"")
    });
    let proxy = env.behind_a_proxy();
    let mut process = env.start("process", &HEALTH);
    let address = address(&process).await;
    until_told(&address, &[r#"ichido_slots{action="ProjectCreation"} 4"#]).await;
    let before = proxy.statements();
    assert!(before > 0, "it registers");
    for _ in 0..SCRAPES {
        scrape(&address).await;
    }
    let asked = proxy.statements() - before;
    assert!(asked < SCRAPES / 2, "{asked} statements beside {SCRAPES} scrapes");
    // And it needs no answer of the database.
    proxy.hold();
    assert!(scrape(&address).await.contains("ichido_heartbeat_age_seconds"));
    proxy.resume();
    process.stop().await;
}

/// The families with their types.
type Families = BTreeSet<(String, String)>;

/// The labels of each family.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// What is scraped; the labels are of those that have a sample.
fn told(text: &str) -> (Families, Labels) {
    let (mut families, mut labels) = (BTreeSet::new(), Labels::new());
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let total = if kind == "counter" { "_total" } else { "" };
            families.insert((format!("{name}{total}"), kind.to_owned()));
        } else if let Some((name, rest)) = line.split_once('{') {
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let (pairs, _) = rest.rsplit_once('}').unwrap();
            let names = pairs.split(',').map(|pair| pair.split_once('=').unwrap().0).filter(|name| *name != "le");
            labels.entry(name.to_owned()).or_default().extend(names.map(str::to_owned));
        }
    }
    (families, labels)
}

/// The same from the tables of the documentation; and the events.
fn documented() -> (Families, Labels, BTreeSet<String>) {
    let (mut families, mut labels, mut events) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    let page = read("docs/observing.md");
    let metrics = page.split("## Traces").next().unwrap();
    let ticked = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    for row in metrics.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let name = ticked(cells[1]).pop_first().unwrap();
        if name.starts_with("ichido_") {
            families.insert((name.clone(), cells[2].to_owned()));
            labels.insert(name, ticked(cells[3]));
        } else {
            events.insert(name);
        }
    }
    (families, labels, events)
}

/// A process with a broker's queue has all of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_documentation_has_every_metric_and_no_other() {
    let world = World::new(Kind::Sqlite).await;
    let mut process = world.env.start("process", &HEALTH);
    let address = address(&process).await;
    until_told(&address, &[r#"ichido_outbox_unpublished{queue="orders",level=""} 0"#]).await;
    let text = scrape(&address).await;
    let ((families, labels), (known_families, mut known_labels, known_events)) = (told(&text), documented());
    assert_eq!(families, known_families);
    assert_eq!(known_labels.remove("ichido_heartbeat_age_seconds"), Some(BTreeSet::new()));
    assert_eq!(labels, known_labels);
    let events = text.lines().filter_map(|line| line.split_once("event=\"")).map(|(_, rest)| rest.split('"').next());
    assert_eq!(events.flatten().map(str::to_owned).collect::<BTreeSet<_>>(), known_events);
    process.stop().await;
}

/// What a query finds: labels and values.
async fn query(prometheus: &Prometheus, expression: &str) -> Vec<Value> {
    let expression = utf8_percent_encode(expression, NON_ALPHANUMERIC);
    let request = format!("GET /api/v1/query?query={expression}");
    let (status, body) = ask(&prometheus.address().to_string(), &request).await;
    assert_eq!(status, 200, "{expression}: {body}");
    let mut answer: Value = serde_json::from_str(&body).unwrap();
    match answer["data"]["result"].take() {
        Value::Array(found) => found,
        other => panic!("{expression}: {other}"),
    }
}

async fn until_found(prometheus: &Prometheus, expression: &str) {
    eventually(format!("something for {expression}"), async || !query(prometheus, expression).await.is_empty()).await;
}

async fn firing(prometheus: &Prometheus, alert: &str) -> bool {
    !query(prometheus, &format!(r#"ALERTS{{alertname="{alert}",alertstate="firing"}}"#)).await.is_empty()
}

/// A process, and a Prometheus that has scraped it before anything happens.
async fn watched(world: &World<'_>) -> (Process, Prometheus) {
    let process = world.env.start("process", &HEALTH);
    let target = address(&process).await;
    let rules = read("deploy/prometheus/alerts.yml");
    let prometheus = block_in_place(|| Prometheus::start(&[&target], &rules));
    // An increase is seen only from something that was there before.
    until_found(&prometheus, r#"count_over_time(ichido_messages_total{event="failed"}[1m]) > 2"#).await;
    (process, prometheus)
}

/// The variables of a dashboard, as Grafana would fill them in; a window that has samples soon.
fn filled_in(expression: &str) -> String {
    expression.replace("$__rate_interval", "1m").replace("$queue", ".*")
}

fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/ichido.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| filled_in(target["expr"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_dashboard_finds_something() {
    let world = World::new(Kind::Sqlite).await;
    let (mut process, prometheus) = watched(&world).await;
    world.send(1..=5).await;
    let expressions = expressions();
    assert!(expressions.len() >= 12, "{expressions:?}");
    for expression in expressions {
        until_found(&prometheus, &expression).await;
    }
    // A histogram that counts nothing has no quantiles that are numbers: these messages ran and waited.
    let p95 = "histogram_quantile(0.95, sum by (le) (rate(ichido_running_seconds_bucket[5m]))) > 0";
    until_found(&prometheus, p95).await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_fires_when_a_message_fails_and_not_before() {
    let world = World::new(Kind::Sqlite).await;
    world.env.reconfigure(|config| config.replace("attempts = 3", "attempts = 1"));
    let (mut process, prometheus) = watched(&world).await;
    assert!(!firing(&prometheus, "IchidoMessagesFailed").await);
    world.env.ok(&["send", "orders", r#"{"id":"not a number"}"#]).await;
    until_found(&prometheus, r#"ichido_messages_total{event="failed"} == 1"#).await;
    eventually("the alert fires", async || firing(&prometheus, "IchidoMessagesFailed").await).await;
    assert!(!firing(&prometheus, "IchidoHeartbeatOld").await, "nothing else is wrong");
    process.stop().await;
}

/// The times of every alert, by Prometheus' own program; and each of them is told of, tested and explained.
#[test]
fn each_alert_fires_after_its_time_and_not_before() {
    let (rules, tests) = ("deploy/prometheus/alerts.yml", "deploy/prometheus/alerts.test.yml");
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let mut promtool = Command::new(Prometheus::promtool());
        let ran = promtool.args(arguments).current_dir(repository("deploy/prometheus")).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "promtool {arguments:?}: {said}");
    }
    let names = |text: &str, before: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(before));
        lines.map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).collect()).collect()
    };
    let alerts = names(&read(rules), "- alert: ");
    assert_eq!(names(&read("docs/observing.md"), "| `Ichido").len(), alerts.len(), "the documentation has all of them");
    for alert in alerts {
        assert!(read("docs/observing.md").contains(&format!("| `{alert}` |")), "{alert} is not explained");
        let tested = names(&read(tests), "- alertname: ").into_iter().filter(|tested| *tested == alert);
        assert_eq!(tested.count(), 2, "{alert}: once before it fires, once when it does");
    }
}
