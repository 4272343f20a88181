//! The handler queue as `ichido.toml` changes it: what can work and what is refused, which action a path means, and that one bad
//! message in ten stops nobody.

use crate::testenv::{Env, Kind};

on_all!(
    one_message_in_ten_fails_and_the_pool_never_restarts,
    after_so_many_messages_a_process_ends_and_the_rest_is_free,
    handlers_by_name_run_where_they_are_put
);

pub(crate) const STANDARD: [&str; 14] = [
    "status code",
    "context clear",
    "global error",
    "context",
    "retry",
    "connection",
    "transaction",
    "dispatch",
    "concurrency",
    "connection",
    "loop",
    "process stop",
    "read",
    "transaction",
];

/// Puts `handlers` into `[process]`.
fn set_handlers(env: &Env, handlers: &str) {
    env.configure(|config| config.replacen("[process]\n", &format!("[process]\nhandlers = {handlers}\n"), 1));
}

/// The standard queue with changes.
fn changed(change: impl FnOnce(&mut Vec<&str>)) -> String {
    let mut names = STANDARD.to_vec();
    change(&mut names);
    format!("{names:?}")
}

async fn one_message_in_ten_fails_and_the_pool_never_restarts(kind: Kind) {
    let env = Env::new(kind).await;
    env.sql("create table picky (id integer not null, check (id % 10 <> 0))").await;
    set_handlers(&env, r#"[{ name = "elapsed", after = "dispatch" }]"#);
    env.reconfigure(|config| {
        config
            .replace("attempts = 3", "attempts = 1")
            .replace("sql         = [", "sql         = [\"insert into picky (id) values (:id)\", ")
    });
    let orders = ichido_testkit::size(300, 10_000);
    let (bad, good) = (i64::from(orders / 10), i64::from(orders - orders / 10));
    env.send_orders(1..=orders).await;
    let mut process = env.start("log", &["run", "ProjectCreation/R1", "--drain"]);
    assert_eq!(process.exit_code().await, 0);
    assert_eq!(env.done().await, good);
    assert_eq!(env.number("select count(*) from received_order where status = '2' and id % 10 = 0").await, bad);
    assert_eq!(env.number("select count(*) from project").await, good);
    assert_eq!(env.number("select count(distinct id) from project").await, good);
    assert_eq!(env.number("select count(*) from ichido_parked where state = 'dead'").await, bad);
    let log = process.log();
    assert_eq!(log.matches(" elapsed ").count(), 1, "the pool was started once");
    assert!(log.contains(&format!("done={good} failed={bad}")), "{}", log.lines().last().unwrap_or_default());
}

async fn after_so_many_messages_a_process_ends_and_the_rest_is_free(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=100).await;
    env.ok(&["run", "ProjectCreation/R1", "--max-messages", "30"]).await;
    assert_eq!(env.done().await, 30);
    let free = "select count(*) from received_order where status = '0' and process_id is null";
    assert_eq!(env.number(free).await, 70);
    env.ok(&["run", "ProjectCreation/R1", "--max-messages", "1000", "--drain"]).await;
    env.assert_exact(100).await;
    env.run(&["run", "--max-messages", "0"]).await.assert_refused(127, &["--max-messages"]);
}

async fn handlers_by_name_run_where_they_are_put(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=5).await;
    let limit = r#"{ name = "rate limit", before = "read", options = { per_second = 1000 } }"#;
    set_handlers(&env, &format!(r#"[{{ name = "elapsed", before = "worker transaction" }}, {limit}]"#));
    let report: serde_json::Value = serde_json::from_str(&env.ok(&["check", "--json"]).await).unwrap();
    let handlers = report["handlers"].as_array().unwrap();
    let names: Vec<_> = handlers.iter().map(|line| line["handler"].as_str().unwrap()).collect();
    assert_eq!(names[12..], ["rate limit", "read", "elapsed", "transaction"]);
    assert_eq!(handlers[14]["scope"], "worker");
    assert_eq!(
        (handlers[14]["out"].as_str(), handlers[14]["on_error"].as_str()),
        (Some("log the elapsed time"), Some("the same"))
    );
    let mut process = env.start("log", &["run", "ProjectCreation/R1", "--drain"]);
    assert_eq!(process.exit_code().await, 0);
    assert_eq!(process.log().matches(" elapsed ").count(), 5, "{}", process.log());
    env.assert_exact(5).await;
}

#[tokio::test]
async fn the_standard_queue_written_out_is_the_standard_queue() {
    let env = Env::new(Kind::Sqlite).await;
    let before = env.ok(&["check"]).await;
    for written in
        [changed(|_| {}), changed(|names| (names[5], names[13]) = ("process connection", "worker transaction"))]
    {
        set_handlers(&env, &written);
        assert_eq!(env.ok(&["check"]).await, before);
    }
    env.send_orders(1..=5).await;
    env.ok(&["run", "--drain"]).await;
    env.assert_exact(5).await;
    // What is not needed can be left out.
    set_handlers(
        &env,
        &changed(|names| names.retain(|name| !["context clear", "retry", "process stop"].contains(name))),
    );
    env.send_orders(6..=9).await;
    env.ok(&["run", "--drain"]).await;
    env.assert_exact(9).await;
}

#[tokio::test]
async fn an_order_that_cannot_work_is_refused_with_the_reason_and_what_to_move() {
    let env = Env::new(Kind::Sqlite).await;
    set_handlers(&env, &changed(|names| names[9] = "process connection"));
    let parts = ["ichido.toml: process.handlers", "`process connection` must stand before `concurrency`"];
    env.run(&["check"]).await.assert_refused(127, &parts);
    let refused: [(String, &[&str]); 14] = [
        (
            changed(|names| names.swap(12, 13)),
            &[
                "`transaction` (13, worker scope) comes before `read` (14",
                "no message to complete",
                "move `read` before",
            ],
        ),
        (
            changed(|names| names.swap(10, 12)),
            &["`read` (11, worker scope) comes before `loop` (13", "would read only one message"],
        ),
        (
            changed(|names| names.swap(8, 10)),
            &["`loop` (9, process scope) works in worker scope only; move it after `concurrency`"],
        ),
        (changed(|names| names.insert(8, "dispatch")), &["`dispatch` (9, process scope) repeats number 8"]),
        (
            changed(|names| {
                names.remove(9);
                names.push("connection");
            }),
            &[
                "`transaction` (13, worker scope) comes before `connection` (14",
                "move `connection` before `transaction`",
            ],
        ),
        (
            changed(|names| {
                names.remove(9);
            }),
            &["`transaction` (13, worker scope) needs `connection` before it, in worker scope"],
        ),
        (
            changed(|names| {
                names.remove(0);
            }),
            &["`global error` (2, process scope) needs `status code` before it"],
        ),
        (
            changed(|names| {
                names.pop();
            }),
            &["`action` (14, worker scope) needs `transaction` before it", "nothing would ever be completed"],
        ),
        (changed(|names| names.swap(4, 7)), &["`dispatch` (5, process scope) comes before `retry` (8", "move `retry`"]),
        (changed(|names| names.swap(1, 2)), &["`global error` (2", "`context clear` (3", "ids are removed"]),
        (
            changed(|names| {
                names.remove(8);
            }),
            &["`loop` (10, process scope) works in worker scope only"],
        ),
        (
            changed(|names| {
                names.remove(7);
            }),
            &["`concurrency` (8, process scope) needs `dispatch` before it"],
        ),
        (changed(|names| names.push("transaction")), &["`transaction` (15, worker scope) repeats number 14"]),
        (changed(|names| names.swap(7, 8)), &["`concurrency` (8, process scope) comes before `dispatch` (9", "move"]),
    ];
    for (handlers, parts) in refused {
        set_handlers(&env, &handlers);
        for command in [&["check"][..], &["run", "--drain"]] {
            env.run(command).await.assert_refused(127, &[&["invalid handler queue"][..], parts].concat());
        }
    }
}

#[tokio::test]
async fn a_name_a_place_or_an_option_that_nobody_knows_is_refused_with_what_was_meant() {
    let env = Env::new(Kind::Sqlite).await;
    let refused: [(&str, &[&str]); 9] = [
        (r#"[{ name = "elapsde", before = "read" }]"#, &["process.handlers", "`elapsde`", "did you mean `elapsed`"]),
        (r#"[{ name = "elapsed", before = "raed" }]"#, &["no handler `raed`", "did you mean `read`", "known: "]),
        (r#"[{ name = "elapsed", before = "transaction" }]"#, &["`process transaction` or `worker transaction`"]),
        (
            r#"[{ name = "rate limit", before = "read", options = { per_secnod = 5 } }]"#,
            &["handler `rate limit`", "option `per_second` is missing"],
        ),
        (
            r#"[{ name = "elapsed", before = "read", options = { least = 5 } }]"#,
            &["no option `least`", "known: least_ms"],
        ),
        (
            r#"[{ name = "rate limit", before = "read", options = { per_second = 0 } }]"#,
            &["0 is out of range; use 1 to"],
        ),
        (
            r#"[{ name = "rate limit", before = "read", options = { per_second = "x" } }]"#,
            &["option `per_second`", "\"x\""],
        ),
        (r#"["elapsed"]"#, &["a list of names replaces the whole queue", "before = \"read\""]),
        (
            r#"[{ name = "rate limit", after = "dispatch", options = { per_second = 5 } }]"#,
            &["works in worker scope only"],
        ),
    ];
    for (handlers, parts) in refused {
        set_handlers(&env, handlers);
        env.run(&["check"]).await.assert_refused(127, parts);
        env.run(&["run", "--drain"]).await.assert_refused(127, parts);
    }
}

#[tokio::test]
async fn an_action_has_a_queue_of_its_own_also_beside_others() {
    let env = Env::new(Kind::Sqlite).await;
    let mail = "\n[actions.Mail]\nfrom = \"mail\"\nsql = [\"insert into project (id, name, made_by) values (:id, 'm', 'm')\"]\n";
    let with = |handlers: &str| {
        env.configure(|config| format!("{config}{mail}handlers = [{{ name = \"elapsed\", {handlers} }}]\n"));
    };
    with(r#"before = "worker transaction""#);
    let report: serde_json::Value = serde_json::from_str(&env.ok(&["check", "--json"]).await).unwrap();
    assert_eq!(report["handlers"].as_array().map(Vec::len), Some(14));
    assert_eq!(report["action_handlers"]["Mail"][13]["handler"], "elapsed");
    assert!(env.ok(&["check"]).await.contains("\nactions.Mail\n"));
    for (all, elapsed) in [(true, 3), (false, 3)] {
        env.sql("delete from received_order; delete from project").await;
        env.send_orders(1..=4).await;
        env.run_with_input(&["send", "mail", "--file", "-"], b"{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n").await;
        let args: &[&str] = if all { &["run", "--drain"] } else { &["run", "Mail/M1", "--drain"] };
        let mut process = env.start("log", args);
        assert_eq!(process.exit_code().await, 0, "{}", process.log());
        assert_eq!(process.log().matches(" elapsed ").count(), elapsed, "{}", process.log());
        assert_eq!(env.number("select count(*) from project where made_by = 'm'").await, 3);
        assert_eq!(env.done().await, if all { 4 } else { 0 });
    }
    with(r#"before = "dispatch""#);
    env.run(&["run", "--drain"]).await.assert_refused(127, &["action Mail", "a separate process"]);
    env.ok(&["run", "Mail/M1", "--drain"]).await;
    with(r#"before = "raed""#);
    env.run(&["check"]).await.assert_refused(127, &["actions.Mail.handlers", "did you mean `read`"]);
}

#[tokio::test]
async fn a_path_means_an_action_by_the_rules_of_dispatch() {
    let env = Env::new(Kind::Sqlite).await;
    let rules =
        "\n[dispatch]\nbase = \"sales\"\nsuffix = \"Action\"\npatterns = [{ pattern = \"jp//\", base = \"tokyo\" }]\n";
    env.configure(|config| {
        config.replace("[actions.ProjectCreation]", "[actions.\"sales.ProjectCreationAction\"]") + rules
    });
    env.send_orders(1..=2).await;
    env.ok(&["run", "ProjectCreation/R1", "--max-messages", "1"]).await;
    env.run(&["run", "Projectcreation/R1"]).await.assert_refused(
        13,
        &["no action `sales.ProjectcreationAction`", "did you mean", "known: sales.ProjectCreationAction"],
    );
    env.reconfigure(|config| config.replace("\"sales.ProjectCreationAction\"", "\"tokyo.jp.ProjectCreationAction\""));
    let ended = env.run(&["run", "--request-path", "jp/ProjectCreation/R1/a", "--drain"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("request_id=R1/a"), "{ended:?}");
    env.assert_exact(2).await;
    env.configure(|config| config);
    let ended = env.run(&["run", "ProjectCreation/R1/a", "--drain"]).await;
    assert!(ended.stderr.contains("request_id=R1/a"), "the same without rules: {ended:?}");
    env.reconfigure(|config| config + rules);
    env.run(&["run", "ProjectCreation/R1"]).await.assert_refused(13, &["no action `sales.ProjectCreationAction`"]);
}
