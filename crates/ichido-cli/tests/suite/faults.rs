//! Faults: rows that cannot be processed, and connections that are cut at COMMIT.

use ichido_test_servers::proxy::Cut;
use ichido_testkit::size;

use crate::testenv::{Env, Kind};

on_all!(
    many_failed_messages_are_found_grouped_and_changed_at_once,
    a_row_that_cannot_be_processed_fails_alone_and_runs_again_by_hand,
    an_operator_retries_and_discards
);

/// `project` refuses the poisoned order until its constraint is gone.
const POISON: &str = "insert into project values (0, 'poison', 'x'); create unique index poison on project (name)";

const HEALED: &str = "delete from project where id = 0; drop index poison";

impl Env {
    /// So many orders, of which these have failed.
    async fn poisoned(kind: Kind, orders: u32, failed: &str) -> Self {
        let env = Env::new(kind).await;
        env.send_orders(1..=orders).await;
        env.sql(&format!("update received_order set name = 'poison' where id in ({failed})")).await;
        env.sql(POISON).await;
        env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
        env
    }

    /// MariaDB wants to know the table too.
    async fn heal_projects(&self) {
        let table = if self.kind == Kind::MariaDb { " on project" } else { "" };
        self.sql(&format!("{HEALED}{table}")).await;
    }
}

async fn a_row_that_cannot_be_processed_fails_alone_and_runs_again_by_hand(kind: Kind) {
    let env = Env::poisoned(kind, 50, "7").await;
    assert_eq!(
        env.number("select count(*) from received_order where status = '2' and process_id is null and id = 7").await,
        1
    );
    assert_eq!(env.done().await, 49);
    let shown = env.ok(&["failed", "show", "orders/7"]).await;
    assert!(shown.contains("attempts  3") && shown.to_lowercase().contains("poison"), "{shown}");
    let list = env.ok(&["failed", "list", "--json"]).await;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        (list[0]["id"].as_str(), list[0]["attempts"].as_i64(), list[0]["state"].as_str()),
        (Some("orders/7"), Some(3), Some("failed"))
    );
    assert_eq!(list[0]["history"].as_array().map(Vec::len), Some(3));
    env.heal_projects().await;
    env.sql("update received_order set status = '0' where id = 7").await;
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    env.assert_exact(50).await;
    assert_eq!(env.ok(&["failed", "list"]).await.lines().count(), 1, "only the headings");
    env.run(&["failed", "show", "orders/7"]).await.assert_refused(1, &["orders/7 has not failed"]);
}

async fn an_operator_retries_and_discards(kind: Kind) {
    let env = Env::poisoned(kind, 3, "1, 2").await;
    env.heal_projects().await;
    assert_eq!(env.ok(&["failed", "retry", "orders/1"]).await, "orders/1 retried\n");
    assert_eq!(env.ok(&["failed", "discard", "orders/2"]).await, "orders/2 discarded\n");
    env.run(&["failed", "retry", "orders/1", "orders/3"])
        .await
        .assert_refused(1, &["orders/1 has not failed", "orders/3 has not failed"]);
    env.run(&["failed", "retry", "orders"]).await.assert_refused(127, &["queue/key"]);
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!(env.number("select count(*) from project").await, 2);
    assert_eq!(env.number("select count(*) from received_order where status = '2'").await, 1);
    assert_eq!(env.number("select count(*) from ichido_audit").await, 2);
}

async fn many_failed_messages_are_found_grouped_and_changed_at_once(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=12).await;
    env.sql("update received_order set name = 'poison' where id <= 8").await;
    env.sql(POISON).await;
    env.configure(|config| config.replace("attempts = 3", "attempts = 1"));
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    let list = env.ok(&["failed", "list"]).await;
    let groups: Vec<_> = list.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert!(groups.len() == 1 && groups[0].starts_with("8 "), "one shape for all of them: {list}");
    assert_eq!(env.ok(&["failed", "list", "--error", "no such text"]).await.lines().count(), 1);
    assert_eq!(env.ok(&["failed", "list", "--older", "1h"]).await.lines().count(), 1);
    env.run(&["failed", "list", "--queue", "ordres"]).await.assert_refused(127, &["`ordres`", "`orders`"]);
    env.run(&["failed", "list", "--older", "soon"]).await.assert_refused_by_clap();
    env.heal_projects().await;
    let text = if kind == Kind::Sqlite { "UNIQUE" } else { "poison" };
    let dry = env.ok(&["failed", "retry", "--error", text, "--dry-run"]).await;
    assert_eq!(dry.lines().filter(|line| line.ends_with("would be retried")).count(), 8, "{dry}");
    assert_eq!(env.ok(&["failed", "discard", "--queue", "orders", "--limit", "3"]).await.lines().count(), 3);
    assert_eq!(env.ok(&["failed", "retry", "--all"]).await.lines().count(), 5);
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!((env.done().await, env.number("select count(*) from project").await), (9, 9));
    assert_eq!(env.number("select count(*) from ichido_audit where verb = 'discard'").await, 3);
    env.run(&["failed", "retry"]).await.assert_refused_by_clap();
}

on_servers!(
    a_connection_cut_just_before_commit_runs_the_message_again,
    a_connection_cut_just_after_commit_does_not_run_it_again,
    batches_whose_connection_is_cut_just_before_commit_are_exact,
    batches_whose_connection_is_cut_just_after_commit_are_exact
);

async fn a_connection_cut_just_before_commit_runs_the_message_again(kind: Kind) {
    cut(kind, Cut::BeforeCommit).await;
}

async fn a_connection_cut_just_after_commit_does_not_run_it_again(kind: Kind) {
    cut(kind, Cut::AfterCommit).await;
}

async fn batches_whose_connection_is_cut_just_before_commit_are_exact(kind: Kind) {
    cut_batches(kind, Cut::BeforeCommit).await;
}

async fn batches_whose_connection_is_cut_just_after_commit_are_exact(kind: Kind) {
    cut_batches(kind, Cut::AfterCommit).await;
}

/// Every third COMMIT is cut, a hundred times in the full size.
async fn cut(kind: Kind, cut: Cut) {
    let times = size(15, 100);
    survive_cuts(kind, cut, (times, times * 4), |config| config).await;
}

/// The same with about twenty orders in a COMMIT.
async fn cut_batches(kind: Kind, cut: Cut) {
    let times = size(6, 50);
    let interval = |config: String| config.replace("concurrency = 4\n", "concurrency = 4\ncommit_interval = 20\n");
    survive_cuts(kind, cut, (times, times * 100), interval).await;
}

/// Every third COMMIT is cut, so many times, while so many orders run; each effect is there once, and no attempt is spent.
async fn survive_cuts(kind: Kind, cut: Cut, (times, orders): (u32, u32), change: impl FnOnce(String) -> String) {
    let env = Env::new(kind).await;
    env.send_orders(1..=orders).await;
    let proxy = env.behind_a_proxy();
    env.reconfigure(change);
    proxy.cut_commits(cut, 3, times);
    let mut process = env.start("process", &["run", "ProjectCreation/R1", "--drain"]);
    proxy.all_cut().await;
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    assert_eq!(proxy.cuts(), times);
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "an attempt was spent:\n{}", process.log());
    println!("{kind:?}: {times} cuts, {orders} orders: exact, no attempt spent");
}
