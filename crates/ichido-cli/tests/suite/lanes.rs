//! Lanes through the binary: sending to a level, serving one level or all, and `lanes simulate`.

use crate::testenv::{Env, Kind};

on_all!(a_message_goes_to_its_level_and_all_levels_are_served, one_level_is_served_alone, unknown_levels_are_refused);

/// Members wait in a table, everybody else in a managed queue.
async fn world(kind: Kind) -> Env {
    let env = Env::new(kind).await;
    env.configure(|config| {
        let lanes = r#"
[lanes.site]
policy = "strict"
levels = [{ level = "member", queue = "orders" }, { level = "free", queue = "everybody" }]
level_by = { field = "name", map = { gold = "member" }, default = "free" }
"#;
        let config = config.replace(r#"from        = "orders""#, r#"from        = "site""#);
        format!("{}{lanes}", config.replace(":process_id)", "'lanes')"))
    });
    env
}

async fn a_message_goes_to_its_level_and_all_levels_are_served(kind: Kind) {
    let env = world(kind).await;
    let ids = |text: String| text.lines().map(|id| id.split('/').next().unwrap().to_owned()).collect::<Vec<_>>();
    let sent = env.ok(&["send", "site", r#"{"id":1,"name":"x"}"#, "--level", "member"]).await;
    assert_eq!(sent.trim(), "orders/1");
    assert_eq!(ids(env.ok(&["send", "site", r#"{"id":2,"name":"gold"}"#, "--level", "free"]).await), ["everybody"]);
    let lines = [(3, "gold"), (4, "tin"), (5, "gold")].map(|(id, name)| format!(r#"{{"id":{id},"name":"{name}"}}"#));
    let bulk = env.run_with_input(&["send", "site", "--file", "-"], lines.join("\n").as_bytes()).await;
    assert_eq!(ids(bulk.stdout), ["orders", "everybody", "orders"], "{}", bulk.stderr);
    env.ok(&["check"]).await;
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from project where made_by = 'lanes'").await, 5);
    assert_eq!(env.number("select count(*) from received_order where status = '1'").await, 3);
    assert_eq!(env.number("select count(*) from ichido_message").await, 0);
}

async fn one_level_is_served_alone(kind: Kind) {
    let env = world(kind).await;
    env.send_orders(1..=5).await;
    env.ok(&["send", "site", r#"{"id":9,"name":"tin"}"#]).await;
    env.ok(&["run", "ProjectCreation/R1", "--level", "free", "--drain"]).await;
    assert_eq!(env.number("select count(*) from project").await, 1);
    assert_eq!(env.number("select count(*) from received_order where status = '0'").await, 5);
    env.ok(&["run", "--level", "member", "--drain"]).await;
    assert_eq!(env.number("select count(*) from project").await, 6);
}

async fn unknown_levels_are_refused(kind: Kind) {
    let env = world(kind).await;
    let refused = async |args: &[&str], parts: &[&str]| env.run(args).await.assert_refused(127, parts);
    let levels = "it has: member, free";
    refused(&["send", "site", "{}", "--level", "membr"], &["no level `membr`", "did you mean `member`?", levels]).await;
    refused(&["send", "orders", "{}", "--level", "member"], &["`orders` is not a lane set", "known: site"]).await;
    refused(&["run", "ProjectCreation", "--level", "gold"], &["no level `gold`", levels]).await;
    refused(&["run", "--level", "gold"], &["no action works on this level", "levels: free, member"]).await;
    env.reconfigure(|config| config.replace("level_by", "# level_by"));
    refused(&["send", "site", "{}"], &["`site` needs a level", levels]).await;
    assert_eq!(env.number("select count(*) from ichido_message").await, 0);
    env.reconfigure(|config| config.replace(r#"from        = "site""#, r#"from        = "mail""#));
    refused(&["run", "ProjectCreation", "--level", "free"], &["works on the queue `mail`, which has no levels"]).await;
}

const LANES: &str = r#"
[lanes.site]
policy = "weighted"
levels = [{ level = "member", queue = "m", weight = 4 }, { level = "free", queue = "f" }]
"#;

async fn env() -> Env {
    let env = Env::bare(Kind::Sqlite).await;
    env.reconfigure(|config| format!("{config}{LANES}"));
    env
}

const LOAD: [&str; 8] = ["lanes", "simulate", "--rate", "member=30/s", "--rate", "free=600/m", "--service", "100ms"];

#[tokio::test]
async fn a_prediction_is_a_table_json_and_a_plot() {
    let env = env().await;
    let printed = env.ok(&[&LOAD[..], &["--svg", "waits.svg"]].concat()).await;
    let lines: Vec<_> = printed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(lines, ["LEVEL", "member", "free"], "{printed}");
    let plot = std::fs::read_to_string(env.folder().join("waits.svg")).unwrap();
    for part in ["<svg", "prefers-color-scheme: dark", ">free, p95", "</svg>"] {
        assert!(plot.contains(part), "{part} is not in {plot}");
    }
    assert_eq!(plot.matches("<polyline").count(), 2);
    let json = env.ok(&[&LOAD[..], &["--json"]].concat()).await;
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["lanes"], &report["concurrency"]), (&"site".into(), &4.into()));
    let (member, free) = (&report["levels"][0], &report["levels"][1]);
    assert!(member["wait_mean_ms"].as_f64() < free["wait_mean_ms"].as_f64(), "{report}");
    assert!(member["arrived"].as_u64().is_some_and(|count| (17_000..19_000).contains(&count)), "{report}");
    assert_eq!(json, env.ok(&[&LOAD[..], &["--json"]].concat()).await, "the same seed, the same messages");
    assert_ne!(json, env.ok(&[&LOAD[..], &["--json", "--seed", "2"]].concat()).await);
}

#[tokio::test]
async fn a_policy_is_compared_with_another() {
    let env = env().await;
    let wait = async |policy: &str| {
        let json = env.ok(&[&LOAD[..], &["--json", "--policy", policy]].concat()).await;
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        report["levels"][0]["wait_p99_ms"].as_f64().unwrap()
    };
    assert!(wait("strict").await < wait("weighted").await);
}

#[tokio::test]
async fn what_cannot_be_simulated_is_refused_with_a_way_out() {
    let env = env().await;
    let refused = async |args: &[&str], parts: &[&str]| {
        let args = [&["lanes", "simulate"], args].concat();
        env.run(&args).await.assert_refused(127, parts);
    };
    refused(&["--service", "40ms"], &["nothing arrives", "--rate LEVEL=50/s"]).await;
    refused(&["--service", "40", "--rate", "5/s"], &["--service 40", "write it like"]).await;
    refused(
        &["--service", "40ms", "--rate", "membr=5/s"],
        &["no level `membr`", "did you mean `member`?", "member, free"],
    )
    .await;
    refused(&["--service", "40ms", "--rate", "5"], &["--rate 5", "50/s"]).await;
    refused(&["--service", "40ms", "--rate", "1000000/s"], &["20 million"]).await;
    refused(&["sites", "--service", "40ms"], &["no lane set `sites`", "did you mean `site`?"]).await;
    refused(&["--service", "1s", "--rate", "1/s", "--policy", "dedicated"], &["has no `concurrency`"]).await;
    refused(&["--service", "1s", "--rate", "1/s", "--svg", "no/where.svg"], &["no/where.svg"]).await;
}
