//! The commands, used as a newcomer would use them, and the demo.

use crate::{
    handler_queue::STANDARD,
    testenv::{Env, Kind},
};

on_all!(
    from_nothing_to_done_in_four_commands,
    a_managed_queue_needs_only_a_name,
    check_prints_the_handler_queue_and_the_statements,
    check_warns_of_what_can_cost_work,
    migrate_tells_what_it_did
);

async fn from_nothing_to_done_in_four_commands(kind: Kind) {
    let env = Env::bare(kind).await;
    env.ok(&["migrate"]).await;
    assert_eq!(env.ok(&["send", "orders", r#"{"id":42,"name":"it's \"日本\""}"#]).await, "orders/42\n");
    let status: serde_json::Value = serde_json::from_str(&env.ok(&["status", "--json"]).await).unwrap();
    let orders = &status["queues"].as_array().unwrap().iter().find(|queue| queue["queue"] == "orders").unwrap();
    assert_eq!((orders["ready"].as_i64(), orders["failed"].as_i64()), (Some(1), Some(0)));
    env.ok(&["run", "ProjectCreation/R1", "--user-id", "ito", "--drain"]).await;
    env.assert_exact(1).await;
    assert_eq!(env.number("select count(*) from project where name = 'it''s \"日本\"'").await, 1);
    assert!(env.ok(&["status"]).await.starts_with("QUEUE"));
}

async fn a_managed_queue_needs_only_a_name(kind: Kind) {
    let env = Env::new(kind).await;
    env.configure(|config| {
        config + "\n[actions.Mail]\nfrom = \"mail\"\nretry = { attempts = 1 }\nsql = [\"insert into project (id, name, made_by) values (:n, :to, 'mail')\"]\n"
    });
    let sent = env
        .run_with_input(
            &["send", "mail", "--file", "-"],
            b"{\"n\":1,\"to\":\"a\"}\n{\"n\":2,\"to\":\"b\"}\n{\"n\":3}\n7\n",
        )
        .await;
    assert_eq!(sent.stdout, "mail/1\nmail/2\nmail/3\nmail/4\n");
    env.ok(&["run", "--request-path", "Mail/M1", "--drain"]).await;
    assert_eq!(env.number("select count(*) from project where made_by = 'mail'").await, 2);
    let list: serde_json::Value =
        serde_json::from_str(&env.ok(&["failed", "list", "--queue", "mail", "--json"]).await).unwrap();
    let mut errors: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|parked| (parked["id"].as_str().unwrap(), parked["error"].as_str().unwrap()))
        .collect();
    errors.sort_unstable();
    assert!(errors[0].0 == "mail/3" && errors[0].1.contains("no field `to`"), "{errors:?}");
    assert!(errors[1].0 == "mail/4" && errors[1].1.contains("not a JSON object"), "{errors:?}");
    let shown = env.ok(&["failed", "show", "mail/3"]).await;
    assert!(shown.contains(r#"{"n":3}"#), "{shown}");
}

async fn check_prints_the_handler_queue_and_the_statements(kind: Kind) {
    let env = Env::new(kind).await;
    let table = env.ok(&["check"]).await;
    let names: Vec<_> = table
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line[4..].split("  ").next().unwrap().trim())
        .collect();
    let expected = [&STANDARD[..], &["action"]].concat();
    assert_eq!(names, expected);
    let report: serde_json::Value = serde_json::from_str(&env.ok(&["check", "--json"]).await).unwrap();
    assert_eq!(report["handlers"].as_array().map(Vec::len), Some(14));
    assert_eq!(
        (report["handlers"][8]["scope"].as_str(), report["handlers"][9]["scope"].as_str()),
        (Some("process"), Some("worker"))
    );
    let connections = |of: &str| report["connections"][of].as_u64().unwrap();
    let beside_business = match kind {
        Kind::Sqlite => 2 + 3 * 3,
        Kind::Postgres => 2 + 3 + 1 + 1,
        Kind::MariaDb => 2 + 3 + 1,
    };
    let total = connections("total");
    assert_eq!(total, connections("business") + beside_business);
    let told = |line: &str| line.starts_with(&format!("{total} ")) && line.contains("in all, for each process");
    assert!(table.lines().any(told), "{table}");
    let sql = env.ok(&["check", "--sql"]).await;
    assert!(sql.contains("-- orders: claim") && sql.contains("received_order"), "{sql}");
    let table = if kind == Kind::MariaDb { " on received_order" } else { "" };
    env.sql(&format!("drop index received_order_claim{table}")).await;
    let warned = env.run(&["check"]).await;
    assert!(warned.code == Some(0) && warned.stderr.contains("no index on its claimable rows"), "{warned:?}");
    assert!(!warned.stderr.contains("no index by owner"), "{warned:?}");
    if kind != Kind::MariaDb {
        env.sql("drop index received_order_owner").await;
        let warned = env.run(&["check"]).await;
        assert!(warned.code == Some(0) && warned.stderr.contains("no index by owner"), "{warned:?}");
    }
}

async fn check_warns_of_what_can_cost_work(kind: Kind) {
    let env = Env::new(kind).await;
    let warnings = async || {
        let report: serde_json::Value = serde_json::from_str(&env.ok(&["check", "--json"]).await).unwrap();
        let texts = report["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>().join("\n")
    };
    let before = warnings().await;
    match kind {
        Kind::Sqlite => assert_eq!(before, ""),
        Kind::Postgres => assert!(before.contains("fsync is off"), "{before}"),
        Kind::MariaDb => assert!(before.contains("innodb_flush_log_at_trx_commit is not 1"), "{before}"),
    }
    // What SQLite is slowed down with takes less time on a faster machine: then again, and more of it.
    let mut after = String::new();
    for (order, milliseconds) in [(1, 1200), (2, 2400), (3, 4800), (4, 9600)] {
        env.slow_down(milliseconds);
        env.send_orders([order]).await;
        env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
        after = warnings().await;
        if after.contains("queue `orders` took") {
            break;
        }
    }
    assert!(after.contains("queue `orders` took") && after.contains("longer than the lease of 1s"), "{after}");
    env.configure(|config| config.replace("concurrency = 4", "concurrency = 50"));
    assert_eq!(warnings().await.contains("50 workers share 14 connections"), kind != Kind::Sqlite);
}

async fn migrate_tells_what_it_did(kind: Kind) {
    let env = Env::bare(kind).await;
    let dry = env.ok(&["migrate", "--dry-run"]).await;
    assert!(dry.contains("ichido_message ("), "{dry}");
    env.run(&["status"]).await.assert_refused(127, &["ichido migrate"]);
    let report: serde_json::Value = serde_json::from_str(&env.ok(&["migrate", "--json"]).await).unwrap();
    assert_eq!((report["from"].as_i64(), report["to"].as_i64()), (Some(0), Some(ichido_sqlite::VERSION.into())));
    let again = env.run(&["migrate"]).await;
    assert!(again.stderr.contains("up to date"), "{again:?}");
    assert!(env.ok(&["migrate", "--dry-run"]).await.is_empty());
}

#[tokio::test]
async fn the_demo_is_exact() {
    let env = Env::bare(Kind::Sqlite).await;
    let line = env.ok(&["demo", "--json"]).await;
    assert_eq!(line.lines().count(), 1);
    let result: serde_json::Value = serde_json::from_str(&line).unwrap();
    for (key, expected) in [("sent", 2000), ("done", 2000), ("lost", 0), ("double", 0), ("killed", 1)] {
        assert_eq!(result[key].as_i64(), Some(expected), "{key}: {line}");
    }
    assert!(result["rescued"].as_i64().is_some_and(|rescued| rescued > 0), "{line}");
    env.ok(&["demo", "--orders", "200", "--keep", "kept"]).await;
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(
        shown,
        Some(&*std::fs::read_to_string(env.folder().join("kept/ichido.toml")).unwrap()),
        "the README shows it"
    );
    let kept = env.run(&["--config", "kept/ichido.toml", "--database-url", "sqlite://kept/demo.db", "status"]).await;
    assert!(kept.stdout.contains("orders"), "{kept:?}");
    env.run(&["demo", "--keep", "kept"]).await.assert_refused(127, &["kept"]);
}
