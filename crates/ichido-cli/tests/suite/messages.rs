//! `ichido messages`: what is where, page by page, and what is moved in time.

use ichido_testkit::eventually;
use serde_json::Value;

use crate::testenv::{Env, Kind};

on_all!(
    messages_are_listed_and_shown_in_every_state,
    a_message_is_shown_with_what_it_was_sent_with,
    a_message_is_moved_in_time,
    what_is_to_run_now_starts_without_a_poll,
    who_runs_a_message_is_shown_and_keeps_it,
);

impl Env {
    async fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat()).await).unwrap()
    }

    /// The ids that a list has, page by page.
    async fn listed(&self, args: &[&str], limit: &str) -> Vec<String> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let mut args = [&["messages", "list", "--limit", limit], args].concat();
            if !after.is_empty() {
                args.extend(["--after", &after]);
            }
            let page = self.json(&args).await;
            let messages = page["messages"].as_array().unwrap();
            assert!(messages.len() <= limit.parse().unwrap(), "{page}");
            found.extend(messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()));
            match &page["next"] {
                Value::String(next) => after.clone_from(next),
                _ => return found,
            }
            assert!(found.len() < 100, "the list has no end: {found:?}");
        }
    }

    async fn state(&self, id: &str) -> String {
        let shown = self.json(&["messages", "show", id]).await;
        shown["state"].as_str().unwrap().to_owned()
    }
}

async fn a_message_is_shown_with_what_it_was_sent_with(kind: Kind) {
    let env = Env::new(kind).await;
    let with = ["--header", "shop=Ghent", "--unique", "tram 4", "--attempts", "7"];
    let id = env.ok(&[&["send", "mail", "1"], &with[..]].concat()).await;
    let shown = env.ok(&["messages", "show", id.trim()]).await;
    for line in ["header    shop: Ghent", "unique    tram 4", "at most   7 attempts", "payload   1"] {
        assert!(shown.lines().any(|there| there == line), "{line}: {shown}");
    }
    let shown = env.json(&["messages", "show", id.trim()]).await;
    assert_eq!((&shown["headers"]["shop"], &shown["unique"]), (&"Ghent".into(), &"tram 4".into()));
    assert_eq!(shown["most_attempts"], 7);
}

async fn messages_are_listed_and_shown_in_every_state(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=7).await;
    env.ok(&["send", "mail", r#"{"to":"anna"}"#]).await;
    let later = env.ok(&["send", "mail", r#"{"to":"otto"}"#, "--delay", "1h"]).await;
    let mut orders: Vec<_> = (1..=7).map(|id| format!("orders/{id}")).collect();
    for limit in ["1", "3", "100"] {
        assert_eq!(env.listed(&["--queue", "orders", "--state", "ready"], limit).await, orders);
    }
    assert_eq!(env.listed(&["--state", "waiting"], "1").await, [later.trim()]);
    let all = env.listed(&[], "2").await;
    assert_eq!(all.len(), 9, "{all:?}");
    let page = env.run(&["messages", "list", "--queue", "orders", "--limit", "3"]).await;
    assert_eq!(page.stdout.lines().count(), 4, "{page:?}");
    let after = page.stderr.split("--after ").nth(1).unwrap().trim();
    let page = env.ok(&["messages", "list", "--queue", "orders", "--limit", "3", "--after", after]).await;
    assert!(page.lines().nth(1).unwrap().starts_with("orders/4  ready"), "{page}");
    env.sql("insert into project values (0, 'order 3', 'x'); create unique index one on project (name)").await;
    env.reconfigure(|config| config.replace("attempts = 3", "attempts = 1"));
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!(env.listed(&["--state", "failed"], "1").await, ["orders/3"]);
    orders.clear();
    assert_eq!(env.listed(&["--queue", "orders", "--state", "ready"], "1").await, orders);
    let shown = env.ok(&["messages", "show", "orders/3"]).await;
    for part in ["message   orders/3", "state     failed", "attempts  1", "order 3\"", "\nattempt 1 at 2"] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
    assert_eq!(env.state("orders/1").await, "done", "the table still has it");
    env.run(&["messages", "show", "orders/99"]).await.assert_refused(1, &["orders/99 is not there"]);
    env.run(&["messages", "show", "letters/1"]).await.assert_refused(127, &["no queue `letters`"]);
    env.run(&["messages", "list", "--queue", "order"]).await.assert_refused(127, &["no queue `order`", "orders"]);
    env.run(&["messages", "list", "--after", "orders/42"]).await.assert_refused_by_clap();
    let elsewhere = ["messages", "list", "--queue", "mail", "--after", "orders/ready/=alone/=3"];
    env.run(&elsewhere).await.assert_refused(127, &["is in another list"]);
}

async fn a_message_is_moved_in_time(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=3).await;
    let moved = env.ok(&["messages", "reschedule", "orders/1", "--delay", "1h"]).await;
    assert!(moved.starts_with("orders/1 rescheduled; due 2"), "{moved}");
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!((env.done().await, env.state("orders/1").await.as_str()), (2, "waiting"));
    let at = ["messages", "reschedule", "orders/1", "--at", "2031-12-24T17:00:00Z", "--json"];
    let moved: Value = serde_json::from_str(&env.ok(&at).await).unwrap();
    assert!(moved[0]["due_at"].as_str().unwrap().starts_with("2031-12-24T17:00:00.000"), "{moved}");
    let now = env.ok(&["messages", "run-now", "orders/1"]).await;
    assert_eq!(now, "orders/1 is ready now\n");
    let again = env.ok(&["messages", "run-now", "orders/1"]).await;
    assert!(again.contains("nothing to do"), "{again}");
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    env.assert_exact(3).await;
    for args in [&["reschedule", "orders/1", "--delay", "1h"][..], &["run-now", "orders/1"]] {
        env.run(&[&["messages"], args].concat()).await.assert_refused(1, &["orders/1 is done"]);
    }
    env.run(&["messages", "run-now", "orders/9"]).await.assert_refused(1, &["orders/9 is not there"]);
    env.run(&["messages", "reschedule", "orders/1"]).await.assert_refused_by_clap();
    env.run(&["messages", "run-now"]).await.assert_refused_by_clap();
    assert_eq!(env.number("select count(*) from ichido_audit where verb in ('reschedule', 'run-now')").await, 3);
}

async fn what_is_to_run_now_starts_without_a_poll(kind: Kind) {
    let env = Env::new(kind).await;
    env.reconfigure(|config| config.replace("poll  = \"200ms\"", "poll = \"1h\""));
    let mut process = env.start("process", &["run", "ProjectCreation/R1"]);
    // It has looked, found nothing more, and sleeps for an hour.
    env.send_orders(1..=1).await;
    env.until("select count(*) from received_order where status = '1'", 1).await;
    env.ok(&["send", "orders", r#"{"id":2,"name":"order 2"}"#, "--delay", "1h"]).await;
    env.ok(&["messages", "run-now", "orders/2"]).await;
    env.until("select count(*) from received_order where status = '1'", 2).await;
    process.stop().await;
    env.assert_exact(2).await;
}

async fn who_runs_a_message_is_shown_and_keeps_it(kind: Kind) {
    let env = Env::new(kind).await;
    env.reconfigure(|config| config + "\n[actions.Sleep]\nfrom = \"mail\"\nexec = [\"sleep\", \"600\"]\n");
    let id = env.ok(&["send", "mail", "{}"]).await;
    let id = id.trim();
    let process = env.start("process", &["run", "Sleep/S1"]);
    let claimed = eventually("it runs, and a heartbeat has said so", async || {
        let page = env.json(&["messages", "list", "--state", "claimed"]).await;
        let message = page["messages"].as_array().unwrap().iter().find(|message| message["id"] == id).cloned();
        message.filter(|message| message["owner"]["running_seconds"].is_number()).ok_or(page)
    })
    .await;
    assert_eq!(claimed["owner"]["pid"], process.pid(), "{claimed}");
    assert_eq!((&claimed["owner"]["request_id"], &claimed["owner"]["alive"]), (&"S1".into(), &true.into()));
    let owner = claimed["owner"]["process"].as_str().unwrap();
    for args in [&["reschedule", id, "--delay", "1h"][..], &["run-now", id]] {
        env.run(&[&["messages"], args].concat()).await.assert_refused(1, &[owner, "S1"]);
    }
    let claimed = ["messages", "list", "--queue", "orders", "--state", "claimed"];
    let table = env.json(&claimed).await;
    assert_eq!(table["notes"].as_array().unwrap().len(), 0, "its table has an index on the owner: {table}");
    if kind != Kind::MariaDb {
        env.sql("drop index received_order_owner").await;
        let table = env.json(&claimed).await;
        assert_eq!(table["notes"].as_array().unwrap().len(), 1, "only claimable rows are in an index: {table}");
    }
    process.kill().await;
}
