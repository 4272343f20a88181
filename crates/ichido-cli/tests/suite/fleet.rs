//! Several processes on one database: they share the work, and survive each other.

use std::time::{Duration, Instant};

use ichido_testkit::{eventually, size};

use crate::testenv::{Env, Kind};

on_all!(
    three_processes_share_the_work_and_do_each_order_once,
    what_a_killed_process_had_is_done_by_others_within_the_lease,
    a_process_that_was_stopped_in_a_transaction_finds_its_claims_gone_and_goes_on,
    a_stopped_process_releases_what_it_has_not_begun,
    what_a_stopped_process_releases_is_taken_by_another_within_a_second,
    a_process_that_is_killed_and_restarted_again_and_again_costs_nothing,
    a_second_signal_ends_a_process_at_once,
    signals_that_come_together_are_one,
);

const SERVE: &[&str] = &["run", "ProjectCreation/R1"];
const RUN: &[&str] = &["run", "ProjectCreation/R1", "--drain"];
const LIVING: &str = "select count(*) from ichido_process";

async fn three_processes_share_the_work_and_do_each_order_once(kind: Kind) {
    let orders = size(600, 5000);
    let env = Env::new(kind).await;
    // Whoever was thought dead would go on under another id.
    env.reconfigure(|config| config.replace("lease = \"1s\"", "lease = \"30s\""));
    let mut processes = ["one", "two", "three"].map(|name| env.start(name, SERVE));
    env.until(LIVING, 3).await;
    env.send_orders(1..=orders).await;
    env.until("select count(*) from received_order where status = '1'", orders.into()).await;
    for process in &mut processes {
        process.stop().await;
    }
    env.assert_exact(orders.into()).await;
    // A tenth at the full size, which has the machine to itself; beside other tests at least one order.
    let part = size(orders, 10);
    let shares = format!(
        "select count(*) from (select made_by from project group by made_by having count(*) * {part} >= (select count(*) from project)) s"
    );
    assert_eq!(env.number(&shares).await, 3, "each process did its share");
}

/// Time itself, at the full size, which has the machine to itself; beside other tests it only has to happen.
fn assert_within(seconds: u64, since: Instant, what: &str) {
    let limit = Duration::from_secs(size(0, 1).into()) * u32::try_from(seconds).expect("few");
    assert!(limit.is_zero() || since.elapsed() < limit, "{what} after {:?}", since.elapsed());
}

async fn what_a_killed_process_had_is_done_by_others_within_the_lease(kind: Kind) {
    let orders = size(300, 3000);
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 2 } else { size(100, 2) });
    env.send_orders(1..=orders).await;
    // Alone at first, so that it has something; and nobody ends before it is killed, however late that is.
    let victim = env.start("victim", SERVE);
    env.until("select count(*) from project", 1).await;
    let mut others = ["one", "two"].map(|name| env.start(name, SERVE));
    env.until(LIVING, 3).await;
    let claimed = format!(
        "select count(*) from received_order where status = '0' and process_id = (select cast(id as char(36)) from ichido_process where pid = {})",
        victim.pid()
    );
    env.until("select count(*) from project", size(1, orders / 4).into()).await;
    let id = format!("ichido_process where pid = {}", victim.pid());
    victim.kill().await;
    let killed = Instant::now();
    let had = env.number(&claimed).await;
    // The rows are free again when the process is forgotten; the lease is one second.
    env.until_none(&id).await;
    assert_within(6, killed, "rescued");
    env.until("select count(*) from received_order where status = '1'", orders.into()).await;
    for process in &mut others {
        process.stop().await;
    }
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "nothing failed, and suspects are forgotten");
    println!("{kind:?}: killed with {had} claimed, exact after {:?}", killed.elapsed());
}

async fn a_process_that_was_stopped_in_a_transaction_finds_its_claims_gone_and_goes_on(kind: Kind) {
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 15 } else { 200 });
    env.allow_many_deaths();
    env.send_orders(1..=80).await;
    // Alone at first: what is done, it has done, and it has claimed more.
    let sleeper = env.start("sleeper", SERVE);
    env.until("select count(*) from project", 1).await;
    let mut other = env.start("other", SERVE);
    env.until("select count(*) from project", 5).await;
    sleeper.stand_still().await;
    env.until("select count(*) from received_order where status = '1'", 80).await;
    env.assert_exact(80).await;
    other.stop().await;
    env.send_orders(81..=100).await;
    env.until("select count(*) from received_order where status = '1'", 100).await;
    env.assert_exact(100).await;
    assert_eq!(env.number("select count(*) from received_order where status = '2'").await, 0);
    let mut sleeper = sleeper;
    sleeper.stop().await;
}

async fn a_stopped_process_releases_what_it_has_not_begun(kind: Kind) {
    let orders = 1000;
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 20 } else { 200 });
    env.send_orders(1..=orders).await;
    let mut process = env.start("process", SERVE);
    env.until("select count(*) from project", 3).await;
    process.stop().await;
    let done = env.done().await;
    assert!(done < i64::from(orders), "it stopped in the middle");
    assert_eq!(
        env.number("select count(*) from received_order where status = '0' and process_id is null").await,
        i64::from(orders) - done
    );
    assert_eq!(env.number("select count(*) from project").await, done);
    assert_eq!(env.number(LIVING).await, 0);
}

async fn what_a_stopped_process_releases_is_taken_by_another_within_a_second(kind: Kind) {
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 20 } else { 100 });
    env.send_orders(1..=1000).await;
    let mut first = env.start("first", SERVE);
    env.until("select count(*) from project", 5).await;
    let second = env.start("second", SERVE);
    let claimed = |pid: u32| {
        format!(
            "select count(*) from received_order where status = '0' and process_id = (select cast(id as char(36)) from ichido_process where pid = {pid})"
        )
    };
    env.until(&claimed(second.pid()), 1).await;
    let lowest = "received_order where status = '0' and process_id is null and id < (select max(id) from project)";
    first.stop().await;
    let released = Instant::now();
    // What was released comes before everything else in the claim order, so it is gone from the free rows when it is taken.
    env.until_none(lowest).await;
    assert_within(1, released, "taken");
}

async fn a_process_that_is_killed_and_restarted_again_and_again_costs_nothing(kind: Kind) {
    let orders = match kind {
        Kind::Sqlite => size(1000, 20_000),
        _ => size(2000, 100_000),
    };
    let env = Env::new(kind).await;
    env.slow_down(1);
    env.allow_many_deaths();
    env.send_orders(1..=orders).await;
    let (mut steady, mut kills, all) = (None, 0, i64::from(orders));
    loop {
        let mut victim = env.start("victim", RUN);
        let its_own = format!(
            "select count(*) from project where made_by = (select cast(id as char(36)) from ichido_process where pid = {})",
            victim.pid()
        );
        // As often as it has done something; in the full size it then has three seconds more, the rhythm of that test.
        let begun = async || env.number(&its_own).await > 0 || env.done().await == all;
        eventually("the victim has done something, or all is done", begun).await;
        tokio::time::sleep(Duration::from_secs(size(0, 3).into())).await;
        if env.done().await == all {
            assert_eq!(victim.exit_code().await, 0, "{}", victim.log());
            break;
        }
        victim.kill().await;
        kills += 1;
        steady.get_or_insert_with(|| env.start("steady", RUN));
    }
    let steady = steady.as_mut().expect("the first victim was killed");
    assert_eq!(steady.exit_code().await, 0, "{}", steady.log());
    env.assert_exact(all).await;
    assert_eq!(env.number("select count(*) from received_order where status <> '1'").await, 0, "the queue is empty");
    println!("{kind:?}: {orders} orders, {kills} kills: LOST 0, DOUBLE 0, GHOST 0");
}

async fn a_second_signal_ends_a_process_at_once(kind: Kind) {
    let env = Env::new(kind).await;
    env.never_end();
    env.send_orders(1..=1).await;
    let mut process = env.start("process", SERVE);
    env.until_running().await;
    process.signal("-TERM").await;
    process.until_logged("stopping").await;
    process.signal_until_it_ends("-TERM").await;
    assert_eq!(process.exit_code().await, 128 + 15);
    assert_eq!(env.number("select count(*) from project").await, 0);
}

/// As `timeout` does it, which signals the process and then its group.
async fn signals_that_come_together_are_one(kind: Kind) {
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 20 } else { 200 });
    env.send_orders(1..=100).await;
    let mut process = env.start("process", SERVE);
    env.until("select count(*) from project", 1).await;
    // Both are there when it goes on, however slow the machine is.
    for signal in ["-STOP", "-TERM", "-INT", "-CONT"] {
        process.signal(signal).await;
    }
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    assert_eq!(env.number(LIVING).await, 0, "it took its leave");
}
