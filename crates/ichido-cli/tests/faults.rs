//! Faults: rows that cannot be processed, and connections that are cut at COMMIT.

use ichido_conformance::{
    proxy::{Cut, Proxy},
    servers, size,
};

mod testenv;

use testenv::{Env, Kind};

on_both!(a_row_that_cannot_be_processed_fails_alone_and_runs_again_by_hand, an_operator_retries_and_discards);

/// `project` refuses the poisoned order until its constraint is gone.
const POISON: &str =
    "create unique index poison on project (name) where name = 'poison'; insert into project values (0, 'poison', 'x')";

async fn a_row_that_cannot_be_processed_fails_alone_and_runs_again_by_hand(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=50).await;
    env.sql("update received_order set name = 'poison' where id = 7").await;
    env.sql(POISON).await;
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!(
        env.number("select count(*) from received_order where status = '2' and process_id is null and id = 7").await,
        1
    );
    assert_eq!(env.done().await, 49);
    let shown = env.ok(&["failed", "show", "orders/7"]).await;
    assert!(shown.contains("attempts  3") && shown.to_lowercase().contains("unique"), "{shown}");
    let list = env.ok(&["failed", "list", "--json"]).await;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        (list[0]["id"].as_str(), list[0]["attempts"].as_i64(), list[0]["state"].as_str()),
        (Some("orders/7"), Some(3), Some("dead"))
    );
    assert_eq!(list[0]["history"].as_array().map(Vec::len), Some(3));
    env.sql("delete from project where id = 0; drop index poison; update received_order set status = '0' where id = 7")
        .await;
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    env.assert_exact(50).await;
    assert_eq!(env.ok(&["failed", "list"]).await.lines().count(), 1, "only the headings");
    env.run(&["failed", "show", "orders/7"]).await.assert_refused(1, &["orders/7 has not failed"]);
}

async fn an_operator_retries_and_discards(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=3).await;
    env.sql("update received_order set name = 'poison' where id in (1, 2)").await;
    env.sql(POISON).await;
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    env.sql("delete from project where id = 0; drop index poison").await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_just_before_commit_runs_the_message_again() {
    cut(Cut::BeforeCommit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_just_after_commit_does_not_run_the_message_again() {
    cut(Cut::AfterCommit).await;
}

/// Every third COMMIT is cut, a hundred times in the full size; each effect is there once, and no attempt is spent.
async fn cut(cut: Cut) {
    let times = size(30, 100);
    let orders = times * 4;
    let env = Env::new(Kind::Postgres).await;
    env.send_orders(1..=orders).await;
    let proxy = Proxy::start(servers::Postgres::shared().address());
    env.configure(|config| config.replace(&env.url, &proxy.url(&env.url)));
    proxy.cut_commits(cut, 3, times);
    let mut process = env.start("process", &["run", "ProjectCreation/R1", "--drain"]);
    proxy.all_cut().await;
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    assert_eq!(proxy.cuts(), times);
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "an attempt was spent:\n{}", process.log());
    println!("{times} cuts, {orders} orders: exact, no attempt spent");
}
