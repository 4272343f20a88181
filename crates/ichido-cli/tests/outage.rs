//! The database goes away under load and comes back: processing goes on by itself, and nobody pays for it.

use std::time::{Duration, Instant};

use ichido_conformance::{servers, size};

mod testenv;

use testenv::{Env, Kind};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_and_killed_is_survived() {
    let server = servers::Postgres::start(&[("fsync", "on")]);
    let env = Env::with_url(Kind::Postgres, server.fresh_database()).await;
    env.ok(&["migrate"]).await;
    env.configure(|config| config.replace("lease = \"1s\"", "lease = \"2s\""));
    let rounds = size(2, 6);
    let orders = rounds * 2000;
    env.send_orders(1..=orders).await;
    let mut processes = ["one", "two"].map(|name| env.start(name, &["run", "ProjectCreation/R1", "--drain"]));
    for round in 0..rounds {
        let done = env.done().await;
        env.until("select count(*) from received_order where status = '1'", done + 200).await;
        if round % 2 == 0 {
            server.stop();
        } else {
            server.kill();
        }
        if round == 0 {
            // Longer than the lease: everybody has expired when it comes back, and nobody may bury the others.
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        server.start_again();
        let back = Instant::now();
        let done = env.done().await;
        env.until("select count(*) from received_order where status = '1'", i64::from(orders).min(done + 1)).await;
        assert!(back.elapsed() < Duration::from_secs(5), "it took {:?} to go on", back.elapsed());
        println!("round {round}: went on after {:?}", back.elapsed());
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
