//! The database goes away under load and comes back: processing goes on by itself, and nobody pays for it.

use std::time::{Duration, Instant};

use ichido_test_servers::{self as servers, proxy::Proxy};
use ichido_testkit::size;

use crate::testenv::database::Database;
use crate::testenv::{Env, Kind};

on_servers!(a_server_that_is_stopped_and_killed_is_survived, fifty_workers_make_progress_with_ten_connections);

/// The pool is larger than what the server admits: workers wait for each other, nobody for ever.
async fn fifty_workers_make_progress_with_ten_connections(kind: Kind) {
    let server = match kind {
        Kind::MariaDb => Database::MariaDb(servers::MariaDb::start(&[("max_connections", "10")])),
        _ => Database::Postgres(servers::Postgres::start(&[
            ("max_connections", "10"),
            ("superuser_reserved_connections", "0"),
        ])),
    };
    let env = Env::with_url(kind, server.fresh_database()).await;
    env.ok(&["migrate"]).await;
    env.slow_down(5);
    env.reconfigure(|config| config.replace("concurrency = 4", "concurrency = 50"));
    env.send_orders(1..=size(200, 2000)).await;
    let mut process = env.start("process", &["run", "ProjectCreation/R1", "--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    assert!(process.log().contains("50 workers share 14 connections"), "{}", process.log());
    env.assert_exact(size(200, 2000).into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "no attempt was spent");
}

/// The server keeps fewer prepared statements than two processes would like to have, and then hardly any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_make_do_with_few_prepared_statements() {
    for most in ["150", "30"] {
        let server = servers::MariaDb::start(&[("max_prepared_stmt_count", most)]);
        let env = Env::with_url(Kind::MariaDb, server.fresh_database()).await;
        env.ok(&["migrate"]).await;
        let orders = size(1000, 5000);
        env.send_orders(1..=orders).await;
        let mut processes = ["one", "two"].map(|name| env.start(name, &["run", "ProjectCreation/R1", "--drain"]));
        for process in &mut processes {
            assert_eq!(process.exit_code().await, 0, "{most}: {}", process.log());
        }
        env.assert_exact(orders.into()).await;
        let parked = env.number("select count(*) from ichido_parked").await;
        assert_eq!(parked, 0, "{most}: an attempt was spent: {}", processes[0].log());
        println!("at most {most} prepared statements, two processes, {orders} orders: exact, no attempt spent");
    }
}

async fn a_server_that_is_stopped_and_killed_is_survived(kind: Kind) {
    let server = Database::start(kind);
    let env = Env::with_url(kind, server.fresh_database()).await;
    env.ok(&["migrate"]).await;
    // Whoever has not come back a lease after the others would be rescued, as it should be; a slow machine takes its time.
    let lease = size(8, 2);
    // A refused connection is an error at once: twenty tries are over before the server is back.
    env.configure(|config| {
        config.replace("lease = \"1s\"", &format!("lease = \"{lease}s\"")).replace("count = 20", "count = 500")
    });
    let rounds = size(2, 6);
    let orders = rounds * size(1200, 2000);
    env.send_orders(1..=orders).await;
    let mut processes = ["one", "two"].map(|name| env.start(name, &["run", "ProjectCreation/R1", "--drain"]));
    for round in 0..rounds {
        let done = env.done().await;
        env.until("select count(*) from received_order where status = '1'", done + 200).await;
        server.end(round % 2 == 0);
        if round == 0 {
            // Longer than the lease: everybody has expired when it comes back, and nobody may declare the others.
            tokio::time::sleep(Duration::from_secs(u64::from(lease) + 1)).await;
        }
        server.start_again();
        let back = Instant::now();
        let done = env.done().await;
        env.until("select count(*) from received_order where status = '1'", i64::from(orders).min(done + 1)).await;
        // Time itself, at the full size, which has the machine to itself.
        assert!(size(0, 1) == 0 || back.elapsed().as_secs() < 5, "it took {:?} to go on", back.elapsed());
        println!("{kind:?}, round {round}: went on after {:?}", back.elapsed());
    }
    for process in &mut processes {
        assert_eq!(process.exit_code().await, 0, "{}", process.log());
    }
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "no attempt was spent, nobody was rescued");
    for process in &processes {
        assert!(!process.log().contains("rescued the messages"), "no rescue storm: {}", process.log());
    }
}

/// The way to the server is gone for longer than anybody waits for a connection; then it is back, and so is the work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_lost_its_way_to_the_server_finds_it_again() {
    let env = Env::new(Kind::Postgres).await;
    let proxy = Proxy::start(servers::Postgres::shared().address());
    env.configure(|config| {
        let config = config.replace(&env.url, &proxy.url(&env.url));
        config.replace("count = 20, interval = \"200ms\"", "count = 100, interval = \"1s\"")
    });
    let mut process = env.start("process", &["run", "ProjectCreation/R1"]);
    env.sql("insert into received_order (id, name) select n, 'x' from generate_series(1, 20) n").await;
    env.until("select count(*) from received_order where status = '1'", 20).await;
    // Time itself: the second is longer than anybody waits for a connection.
    for seconds in [1, size(6, 17), size(1, 23)] {
        proxy.refuse(true);
        proxy.sever_all();
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        proxy.refuse(false);
        let before = env.done().await;
        env.sql("update received_order set status = '0'; delete from project").await;
        env.until("select count(*) from received_order where status = '1'", before).await;
        env.assert_exact(20).await;
    }
    process.stop().await;
}
