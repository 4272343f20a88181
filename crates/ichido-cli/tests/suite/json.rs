//! `--json`: every key that a command prints is promised in docs/reference/json.md, and what is promised there is printed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::testenv::{Env, Kind};

const PROMISED: &str = include_str!("../../../../docs/reference/json.md");

/// Maps from names that users choose.
const BY_NAME: [&str; 2] = ["action_handlers", "per_process"];

/// What `adopt` leaves out where it cannot propose any.
const UNKNOWN_VALUES: [&str; 3] = ["status.new", "status.done", "status.failed"];

/// The keys in the section of this command.
fn promised(command: &str) -> BTreeSet<String> {
    let section = PROMISED.split("\n## ").find(|section| section.starts_with(&format!("`ichido {command} --json`")));
    let section = section.unwrap_or_else(|| panic!("no section for {command}"));
    let rows = section.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split(" | ").next());
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(ToOwned::to_owned).collect()
}

/// The keys of a value, as the page writes them, and the paths that lead to nothing.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>, empty: &mut BTreeSet<String>) {
    let is_empty = match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if is_empty {
        empty.insert(path.to_owned());
    }
    match value {
        Value::Array(values) => values.iter().for_each(|value| keys(value, &format!("{path}[]"), found, empty)),
        Value::Object(_) if BY_NAME.contains(&path) => {}
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                found.insert(path.clone());
                keys(value, &path, found, empty);
            }
        }
        _ => {}
    }
}

fn assert_promised(command: &str, printed: &str) {
    let (mut found, mut empty) = (BTreeSet::new(), BTreeSet::new());
    let value: Value =
        serde_json::from_str(printed.trim()).unwrap_or_else(|error| panic!("{command}: {error}: {printed}"));
    match &value {
        Value::Array(values) => values.iter().for_each(|value| keys(value, "", &mut found, &mut empty)),
        value => keys(value, "", &mut found, &mut empty),
    }
    let promised = promised(command);
    let is_parent = |path: &str| {
        promised.iter().any(|known| known.starts_with(&format!("{path}.")) || known.starts_with(&format!("{path}[]")))
    };
    let unknown: Vec<_> = found.iter().filter(|path| !promised.contains(*path) && !is_parent(path)).collect();
    assert!(unknown.is_empty(), "{command}: not in docs/reference/json.md: {unknown:?}");
    let lies_in =
        |path: &str, place: &String| path.starts_with(&format!("{place}.")) || path.starts_with(&format!("{place}[]"));
    let missing: Vec<_> = promised
        .iter()
        .filter(|path| !UNKNOWN_VALUES.iter().any(|values| path.starts_with(values)))
        .filter(|path| !found.contains(*path) && !empty.iter().any(|place| lies_in(path, place)) && *path != "payload")
        .collect();
    assert!(missing.is_empty(), "{command}: promised and not printed: {missing:?}");
}

#[tokio::test]
async fn every_key_of_json_output_is_promised_and_printed() {
    let env = Env::bare(Kind::Sqlite).await;
    assert_promised("migrate", &env.ok(&["migrate", "--json"]).await);
    env.send_orders(1..=3).await;
    env.sql("update received_order set name = 'x'; create unique index one on project (name)").await;
    let lanes = "\n[lanes.vip]\npolicy = \"strict\"\n[[lanes.vip.levels]]\nlevel = \"gold\"\nqueue = \"g\"\n[[lanes.vip.levels]]\nlevel = \"plain\"\nqueue = \"p\"\n";
    let mail = "\n[actions.Mail]\nfrom = \"mail\"\nhandlers = [{ name = \"elapsed\", before = \"read\" }]\nsql = [\"select 1\"]\n";
    env.reconfigure(|config| config.replace("attempts = 3", "attempts = 1") + lanes + mail);
    let mut process = env.start("process", &["run", "ProjectCreation/R1"]);
    env.until("select count(*) from ichido_parked where state = 'dead'", 2).await;
    env.until("select count(*) from ichido_stat", 1).await;
    assert_promised("status", &env.run(&["status", "--json", "--fail-if", "failed>0"]).await.stdout);
    env.ok(&["send", "mail", "1", "--delay", "1h"]).await;
    assert_promised("messages list", &env.ok(&["messages", "list", "--limit", "1", "--json"]).await);
    assert_promised("messages list", &env.ok(&["messages", "list", "--queue", "mail", "--json"]).await);
    assert_promised("messages show", &env.ok(&["messages", "show", "mail/1", "--json"]).await);
    let later = env.ok(&["messages", "reschedule", "mail/1", "--delay", "2h", "--json"]).await;
    assert_promised("messages run-now", &later);
    assert_promised("messages run-now", &env.ok(&["messages", "run-now", "mail/1", "--json"]).await);
    assert_promised("health", &env.ok(&["health", "R1", "--json"]).await);
    process.stop().await;
    assert_promised("failed list", &env.ok(&["failed", "list", "--json"]).await);
    let id = env.ok(&["failed", "list"]).await;
    let id = id.split_whitespace().find(|word| word.starts_with("orders/")).unwrap();
    let shown = env.ok(&["failed", "show", id, "--json"]).await;
    assert!(shown.contains("\"payload\":"), "{shown}");
    assert_promised("failed list", &shown);
    assert_promised("messages cancel", &env.ok(&["messages", "cancel", id, "--json", "--reason", "no"]).await);
    assert_promised("audit", &env.ok(&["audit", "--json"]).await);
    assert_promised("send --sql", &env.ok(&["send", "--sql", "mail", "--json"]).await);
    assert_promised("check", &env.ok(&["check", "--sql", "--json"]).await);
    assert_promised("adopt", &env.ok(&["adopt", "--table", "received_order", "--queue", "orders", "--json"]).await);
    let simulated = ["lanes", "simulate", "vip", "--rate", "1/s", "--service", "1s", "--concurrency", "2", "--json"];
    assert_promised("lanes simulate", &env.ok(&simulated).await);
    assert_promised("demo", &env.ok(&["demo", "--orders", "100", "--json"]).await);
}
