//! The binary behind pgbouncer in transaction mode: a fleet, kills, COMMITs that are cut on both sides of the pooler, an outage of
//! the pooler, and every command. What is seen from outside goes directly to the server.

use ichido_test_servers::{
    self as servers, PgBouncer,
    proxy::{Cut, Proxy},
};
use ichido_testkit::size;

use crate::testenv::{Env, Kind};

const RUN: &[&str] = &["run", "ProjectCreation/R1", "--drain"];

impl Env {
    /// A world whose configuration goes through this pooler.
    async fn behind(pooler: &PgBouncer, user: &str) -> Self {
        let env = Env::bare(Kind::Postgres).await;
        env.go_through(pooler, user);
        env.ok(&["migrate"]).await;
        env
    }

    fn go_through(&self, pooler: &PgBouncer, user: &str) {
        let through = pooler.url(user, &self.url);
        self.reconfigure(|config| config.replace(&self.url, &through));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_share_the_work_and_what_a_killed_one_had_is_done_by_the_others() {
    let orders = size(600, 5000);
    let env = Env::behind(PgBouncer::shared(), "worker").await;
    env.slow_down(size(100, 2));
    env.go_through(PgBouncer::shared(), "worker");
    env.send_orders(1..=orders).await;
    // Alone at first, so that it has something; and nobody ends before it is killed, however late that is.
    let serve = &["run", "ProjectCreation/R1"];
    let victim = env.start("victim", serve);
    env.until("select count(*) from project", 1).await;
    let [mut one, mut two] = ["one", "two"].map(|name| env.start(name, serve));
    env.until("select count(distinct made_by) from project", 3).await;
    let rescued = format!("ichido_process where pid = {}", victim.pid());
    victim.kill().await;
    env.until("select count(*) from received_order where status = '1'", orders.into()).await;
    env.until_none(&rescued).await;
    for process in [&mut one, &mut two] {
        process.stop().await;
        assert!(!process.log().contains("pooler"), "the role's default is on: {}", process.log());
    }
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "nothing failed, and suspects are forgotten");
    assert_eq!(env.number("select count(*) from ichido_process").await, 0, "the victim was rescued");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_cut_before_or_after_the_pooler_has_its_effect_once() {
    for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
        // Between ichido and the pooler.
        let proxy = Proxy::start(PgBouncer::shared().address());
        let env = Env::behind(PgBouncer::shared(), "worker").await;
        let through = PgBouncer::shared().url("worker", &env.url);
        env.reconfigure(|config| config.replace(&through, &proxy.url(&through)));
        cut_some(&env, &proxy, cut).await;

        // Between the pooler and the server.
        let proxy = Proxy::start(servers::Postgres::shared().address());
        let here = format!("port={}", proxy.address().port());
        let pooler = PgBouncer::start(servers::Postgres::shared(), &here, &[]);
        cut_some(&Env::behind(&pooler, "worker").await, &proxy, cut).await;
    }
}

async fn cut_some(env: &Env, proxy: &Proxy, cut: Cut) {
    let times = size(8, 100);
    env.send_orders(1..=times * 4).await;
    proxy.cut_commits(cut, 3, times);
    let mut process = env.start("process", RUN);
    proxy.all_cut().await;
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    env.assert_exact((times * 4).into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "an attempt was spent:\n{}", process.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_is_killed_and_comes_back_costs_nothing() {
    let pooler = PgBouncer::start(servers::Postgres::shared(), "", &[]);
    let env = Env::behind(&pooler, "worker").await;
    env.slow_down(5);
    env.go_through(&pooler, "worker");
    env.send_orders(1..=300).await;
    let mut process = env.start("process", RUN);
    env.until("select count(*) from project", 50).await;
    pooler.kill();
    process.until_logged("127.0.0.1").await;
    pooler.start_again();
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    env.assert_exact(300).await;
    assert_eq!(env.number("select count(*) from received_order where status = '2'").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_with_a_role_that_reads_by_default() {
    let env = Env::behind(PgBouncer::shared(), "worker").await;
    let checked = env.run(&["check"]).await;
    assert!(checked.code == Some(0) && !checked.stderr.contains("pooler"), "{checked:?}");
    env.sql("insert into project values (0, 'order 1', 'x'), (0, 'order 2', 'x'); create unique index once on project (name)").await;
    env.send_orders(1..=5).await;
    env.ok(RUN).await;
    assert_eq!(env.done().await, 3);
    assert!(env.ok(&["failed", "show", "orders/1"]).await.contains("attempts  3"));
    env.sql("delete from project where id = 0").await;
    assert_eq!(env.ok(&["failed", "retry", "orders/1"]).await, "orders/1 retried\n");
    assert_eq!(env.ok(&["failed", "discard", "orders/2"]).await, "orders/2 discarded\n");
    env.ok(RUN).await;
    assert_eq!(env.done().await, 4);
    assert!(env.ok(&["status"]).await.contains("orders"));
    env.ok(&["migrate", "--dry-run"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_default_of_the_role_check_warns_and_run_logs_one_warning() {
    let env = Env::behind(PgBouncer::shared(), "postgres").await;
    let checked = env.run(&["check"]).await;
    assert!(checked.code == Some(0) && checked.stderr.contains("default_transaction_read_only"), "{checked:?}");
    // Past its lease a process registers anew; the warning stays one.
    let mut process = env.start("process", &["run", "ProjectCreation/R1"]);
    process.until_logged("default_transaction_read_only = on").await;
    env.until("select count(*) from ichido_process", 1).await;
    env.sql("update ichido_process set heartbeat_at = now() - interval '1 hour', request_id = 'old'").await;
    env.until("select count(*) from ichido_process where request_id <> 'old'", 1).await;
    process.stop().await;
    assert_eq!(process.log().matches("alter role").count(), 1, "{}", process.log());
}
