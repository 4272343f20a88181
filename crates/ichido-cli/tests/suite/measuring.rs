//! What `ichido status` tells about the last minutes: counted by real processes, also by one that is killed, and read by others.

use std::process::Stdio;

use crate::testenv::{Env, Kind};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

on_all!(
    status_tells_what_processes_have_done,
    what_a_killed_process_had_told_is_kept,
    a_backlog_that_nobody_works_on_is_told,
    a_monitor_is_told_by_the_exit_code_which_conditions_hold,
    a_strict_check_fails_after_a_warning,
    status_looks_again_until_nobody_reads
);

async fn status(env: &Env) -> Value {
    serde_json::from_str(&env.ok(&["status", "--json"]).await).unwrap()
}

fn of<'a>(status: &'a Value, queue: &str) -> &'a Value {
    status["measured"].as_array().unwrap().iter().find(|measured| measured["queue"] == queue).unwrap()
}

fn with_mail(env: &Env) {
    env.configure(|config| config + "\n[actions.Mail]\nfrom = \"mail\"\nconcurrency = 2\nsql = [\"select 1\"]\n");
}

async fn status_tells_what_processes_have_done(kind: Kind) {
    let env = Env::new(kind).await;
    with_mail(&env);
    env.send_orders(1..=20).await;
    let mail = "{}\n".repeat(30);
    env.run_with_input(&["send", "mail", "--file", "-"], mail.as_bytes()).await;
    env.ok(&["run", "--drain"]).await;
    let status = status(&env).await;
    let (orders, mail) = (of(&status, "orders"), of(&status, "mail"));
    assert_eq!((orders["done"].as_u64(), orders["started"].as_u64()), (Some(20), Some(20)));
    assert_eq!((mail["done"].as_u64(), mail["failed"].as_u64()), (Some(30), Some(0)));
    assert!(mail["waiting_ms"]["p99"].as_f64().is_some_and(|wait| wait < 300_000.0), "{mail}");
    assert!(mail["running_ms"]["p50"].as_f64().is_some_and(|time| time > 0.0), "{mail}");
    assert!(mail["in_per_minute"].as_f64().is_some_and(|rate| rate > 0.0), "{mail}");
    assert!(orders["waiting_ms"].is_null() && orders["in_per_minute"].is_null(), "nothing tells when they were sent");
    let text = env.ok(&["status"]).await;
    let line = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).nth(1).unwrap().to_owned();
    assert!(line("orders").contains("unknown"), "{text}");
    assert!(!line("mail").contains("unknown"), "{text}");
}

async fn what_a_killed_process_had_told_is_kept(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=20).await;
    let process = env.start("one", &["run"]);
    env.until("select count(*) from received_order where status = '1'", 20).await;
    // A third of a lease later, what it has counted is there.
    env.until("select count(*) from (select sum(done) as d from ichido_stat) s where d >= 20", 1).await;
    process.kill().await;
    assert_eq!(of(&status(&env).await, "orders")["done"], 20);
}

async fn a_backlog_that_nobody_works_on_is_told(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=3).await;
    let text = env.ok(&["status"]).await;
    assert!(text.contains("advice: orders: 3 wait, and no live process has run any of them"), "{text}");
    assert_eq!(status(&env).await["advice"][0]["about"], "orders");
}

async fn status_looks_again_until_nobody_reads(kind: Kind) {
    let env = Env::new(kind).await;
    let mut watch = env.command(&["status", "--watch", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next_line().await.unwrap().unwrap();
        assert!(serde_json::from_str::<Value>(&line).unwrap()["measured"].is_array(), "{line}");
    }
    drop(lines);
    assert!(watch.wait().await.unwrap().success());
}

async fn a_monitor_is_told_by_the_exit_code_which_conditions_hold(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=3).await;
    let within = ["status", "--fail-if", "failed>0,backlog>3,oldest>5m,processes<0"];
    assert_eq!(env.run(&within).await.code, Some(0));
    let beyond = env.run(&["status", "--fail-if", "failed>0,backlog>2,processes<1"]).await;
    assert_eq!(beyond.code, Some(1), "{}", beyond.stderr);
    assert_eq!(beyond.stderr.trim(), "backlog>2: 3 in the queue `orders`\nprocesses<1: 0");
    let json: Value =
        serde_json::from_str(&env.run(&["status", "--json", "--fail-if", "backlog>2"]).await.stdout).unwrap();
    let expected = serde_json::json!([{ "limit": "backlog>2", "queue": "orders", "value": 3 }]);
    assert_eq!(json["exceeded"], expected);
    let wrong = env.run(&["status", "--fail-if", "faild>0"]).await;
    assert!(wrong.code == Some(127) && wrong.stderr.contains("failed"), "{}", wrong.stderr);
}

async fn a_strict_check_fails_after_a_warning(kind: Kind) {
    let env = Env::new(kind).await;
    assert_eq!(env.run(&["check"]).await.code, Some(0));
    env.configure(|config| config + "\n[log]\nmask = [\"id\"]\n");
    let loose = env.run(&["check"]).await;
    assert!(loose.code == Some(0) && loose.stderr.contains("warning:"), "{}", loose.stderr);
    let strict = env.run(&["check", "--strict"]).await;
    assert!(strict.code == Some(1) && !strict.stderr.contains("check passed"), "{}", strict.stderr);
}
