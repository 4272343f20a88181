//! `ichido failed` with many messages, with queues of another application in the same database, and with values that can never be
//! processed.

use crate::testenv::{Env, Kind};

on_all!(
    all_failed_messages_are_retried_however_many,
    queues_of_another_configuration_are_named_and_left_alone,
    values_that_do_not_fit_fail_at_the_first_attempt,
);

/// So many orders fail: more than a list shows.
const FAILED: u32 = 250;

/// `project` refuses every order until the index is gone.
const REFUSING: &str = "insert into project values (0, 'order', 'x'); create unique index one on project (name)";

impl Env {
    /// Orders that have failed, all for the same reason.
    async fn with_failed_orders(kind: Kind, orders: u32) -> Self {
        let env = Env::new(kind).await;
        env.send_orders(1..=orders).await;
        env.sql("update received_order set name = 'order'").await;
        env.sql(REFUSING).await;
        env.reconfigure(|config| config.replace("attempts = 3", "attempts = 1"));
        env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
        let table = if kind == Kind::MariaDb { " on project" } else { "" };
        env.sql(&format!("delete from project; drop index one{table}")).await;
        env
    }

    async fn failed_orders(&self) -> i64 {
        self.number("select count(*) from received_order where status = '2'").await
    }
}

async fn all_failed_messages_are_retried_however_many(kind: Kind) {
    let env = Env::with_failed_orders(kind, FAILED).await;
    assert_eq!(env.failed_orders().await, i64::from(FAILED));
    let list = env.run(&["failed", "list"]).await;
    assert!(list.stdout.lines().nth(1).unwrap().starts_with("250 "), "the summary counts all: {list:?}");
    let listed: Vec<_> = list.stdout.lines().filter(|line| line.starts_with("orders/")).collect();
    assert_eq!((listed.len(), listed[0].split_whitespace().nth(1)), (100, Some("failed")), "{listed:?}");
    let json = env.ok(&["failed", "list", "--json", "--limit", "1"]).await;
    assert!(json.contains(r#""state":"failed""#), "{json}");
    assert!(list.stderr.contains("100 of 250 messages are shown"), "{list:?}");
    assert_eq!(env.ok(&["failed", "retry", "--all", "--limit", "3"]).await.lines().count(), 3);
    let dry = env.ok(&["failed", "retry", "--all", "--dry-run"]).await;
    assert_eq!(dry.lines().count(), 247, "{dry}");
    let discarded = env.run(&["failed", "discard", "--queue", "orders", "--limit", "2", "--rate", "1000"]).await;
    assert!(discarded.stderr.contains("2 discarded, 0 left alone"), "{discarded:?}");
    let retried = env.ok(&["failed", "retry", "--all"]).await;
    assert_eq!(retried.lines().count(), 245, "{retried}");
    assert_eq!(env.number("select count(*) from ichido_parked where state = 'dead'").await, 0);
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!((env.done().await, env.number("select count(*) from project").await), (248, 248));
}

async fn queues_of_another_configuration_are_named_and_left_alone(kind: Kind) {
    let env = Env::with_failed_orders(kind, 3).await;
    let note = "insert into ichido_parked (queue, KEY, state, attempts, suspect, parked_at, history) \
                select 'billing', 'b1', state, attempts, suspect, parked_at, history from ichido_parked limit 1";
    let key = if kind == Kind::MariaDb { "`key`" } else { "key" };
    env.sql(&note.replace("KEY", key)).await;
    for command in [&["failed", "retry", "--all", "--dry-run"][..], &["failed", "list"]] {
        let ended = env.run(command).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!ended.stdout.contains("billing") && ended.stderr.contains("billing (1)"), "{ended:?}");
    }
    env.run(&["failed", "show", "billing/b1"]).await.assert_refused(127, &["no queue `billing`"]);
    env.run(&["failed", "retry", "orders/1", "billing/b1"]).await.assert_refused(127, &["no queue `billing`"]);
    assert_eq!(env.failed_orders().await, 3, "nothing was retried");
    let retried = env.run(&["failed", "retry", "--all"]).await;
    assert_eq!((retried.code, retried.stdout.lines().count()), (Some(0), 3), "{retried:?}");
    assert!(retried.stderr.contains("billing (1)"), "{retried:?}");
    assert_eq!(
        (env.failed_orders().await, env.number("select count(*) from ichido_parked where state = 'dead'").await),
        (0, 1)
    );
    let quiet = env.run(&["-q", "failed", "discard", "--all"]).await;
    assert_eq!((quiet.code, &*quiet.stdout, &*quiet.stderr), (Some(0), "", ""), "{quiet:?}");
}

async fn values_that_do_not_fit_fail_at_the_first_attempt(kind: Kind) {
    let env = Env::new(kind).await;
    let strict = if kind == Kind::Sqlite { "strict" } else { "" };
    let text = if kind == Kind::Sqlite { "text" } else { "varchar(5)" };
    env.sql(&format!("create table booked (amount int, note {text}) {strict}")).await;
    env.reconfigure(|config| {
        config + "[actions.Booking]\nfrom = \"mail\"\nretry = { attempts = 5, first = \"1h\", max = \"1h\" }\nsql = [\"insert into booked (amount, note) values (:amount, :note)\"]\n"
    });
    let mut bad = vec![r#"{"amount":"many","note":"x"}"#];
    if kind != Kind::Sqlite {
        bad.extend([r#"{"amount":99999999999,"note":"x"}"#, r#"{"amount":1,"note":"much too long"}"#]);
    }
    if kind == Kind::Postgres {
        bad.push(r#"{"amount":1,"note":"\u0000"}"#);
    }
    let lines = [&bad[..], &[r#"{"amount":1,"note":"fits"}"#]].concat().join("\n");
    env.run_with_input(&["send", "mail", "--file", "-"], lines.as_bytes()).await;
    env.ok(&["run", "Booking/B1", "--drain"]).await;
    let list = env.ok(&["failed", "list", "--json"]).await;
    let list: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.len(), bad.len(), "{list:#?}");
    for failed in list {
        let error = failed["error"].as_str().unwrap();
        assert_eq!(failed["attempts"], 1, "{failed}");
        let server = ["PostgreSQL: ", "MySQL: ", "SQLite: "].iter().any(|server| error.starts_with(server));
        assert!(server && !error.contains(" at line "), "{failed}");
    }
    assert_eq!(env.number("select count(*) from booked where amount = 1 and note = 'fits'").await, 1);
}

#[tokio::test]
async fn a_summary_that_does_not_count_all_says_so() {
    let env = Env::new(Kind::Sqlite).await;
    let note = r#"insert into ichido_parked (queue, key, state, attempts, suspect, parked_at, history)
        with recursive c(n) as (select 1 union all select n + 1 from c where n < 10001)
        select 'mail', n, 'dead', 1, 0, '2026-01-01T00:00:00.000Z', '[{"attempt":1,"at":"","error":"boom"}]' from c"#;
    env.sql(note).await;
    let list = env.run(&["failed", "list", "--limit", "2"]).await;
    assert!(list.stdout.lines().nth(1).unwrap().starts_with("≥10000 "), "{list:?}");
    assert!(list.stderr.contains("2 of more than 10000"), "{list:?}");
    let pages = env.ok(&["failed", "list", "--json", "--limit", "10002", "--error", "boom"]).await;
    assert_eq!(pages.matches("\"id\"").count(), 10001, "every page is read, none twice");
}

#[tokio::test]
async fn a_key_of_another_type_is_no_failed_message() {
    let env = Env::new(Kind::Postgres).await;
    env.run(&["failed", "show", "orders/abc"]).await.assert_refused(1, &["orders/abc has not failed"]);
    env.run(&["failed", "retry", "orders/abc"]).await.assert_refused(1, &["orders/abc has not failed"]);
}
