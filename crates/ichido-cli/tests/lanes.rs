//! `ichido lanes simulate` through the binary: what it prints and writes, and what it refuses.

mod testenv;

use testenv::{Env, Kind};

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
        &["no level `membr`; did you mean `member`?", "member, free"],
    )
    .await;
    refused(&["--service", "40ms", "--rate", "5"], &["--rate 5", "50/s"]).await;
    refused(&["--service", "40ms", "--rate", "1000000/s"], &["20 million"]).await;
    refused(&["sites", "--service", "40ms"], &["no lane set `sites`", "did you mean `site`?"]).await;
    refused(&["--service", "1s", "--rate", "1/s", "--policy", "dedicated"], &["does not say its `concurrency`"]).await;
    refused(&["--service", "1s", "--rate", "1/s", "--svg", "no/where.svg"], &["no/where.svg"]).await;
}
