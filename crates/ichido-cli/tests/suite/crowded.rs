//! Tables that have grown: whatever chores there are about them, nobody is declared dead by mistake, who is dead is rescued, and
//! operators are obeyed.

use std::time::{Duration, Instant};

use ichido_test_servers as servers;
use ichido_testkit::size;

use crate::testenv::{Env, Kind};

const SERVE: &[&str] = &["run", "ProjectCreation/R1"];
const CHECK: Duration = Duration::from_secs(1);

/// Orders that wait, orders that have failed, orders whose first attempt has failed and that can be claimed again at the far end, and
/// records of orders that are gone.
async fn load(env: &Env) {
    let (waiting, dead) = (size(20_000, 10_000_000), size(2_000, 1_000_000));
    let (released, end, gone) = (waiting - dead / 2, waiting + dead / 2, dead / 100);
    let parked = "insert into ichido_parked (queue, key, state, attempts)";
    for sql in [
        format!("insert into received_order (id, name) select n, 'order' from generate_series(1, {waiting}) n"),
        format!(
            "insert into received_order (id, name, status) select n, 'order', '2' from generate_series({waiting} + 1, {end}) n"
        ),
        format!("{parked} select 'orders', n::text, 'dead', 3 from generate_series({waiting} + 1, {end} + {gone}) n"),
        format!("{parked} select 'orders', n::text, 'released', 1 from generate_series({released} + 1, {waiting}) n"),
        "analyze".to_owned(),
    ] {
        env.sql(&sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_millions_of_rows_the_dead_are_rescued_the_living_live_and_operators_are_obeyed() {
    let server = servers::Postgres::start(&[("max_wal_size", "8GB")]);
    let env = Env::with_url(Kind::Postgres, server.fresh_database()).await;
    env.ok(&["migrate"]).await;
    env.slow_down(20);
    // Beside other tests nobody may count as dead only because it waited for a core.
    let lease = Duration::from_secs(size(15, 3).into());
    env.reconfigure(|config| {
        config
            .replace("lease = \"1s\"", &format!("lease = \"{lease:?}\"\ncheck = \"1s\""))
            .replace("poll  = \"200ms\"", "poll = \"1s\"")
    });
    let loading = Instant::now();
    load(&env).await;
    println!("loaded after {:?}", loading.elapsed());

    let mut survivor = env.start("survivor", SERVE);
    env.until("select count(*) from ichido_chore where queue = 'orders'", 1).await;
    let victim = env.start("victim", SERVE);
    let its = format!("(select id::text from ichido_process where pid = {})", victim.pid());
    env.until(&format!("select count(*) from project where made_by = {its}"), 5).await;
    // The survivor is in the middle of its chores: at the full size they take minutes.
    if size(0, 1) == 1 {
        env.until("select count(*) from ichido_chore where tidied <> ''", 1).await;
    }
    let had = format!("create table had as select id from received_order where status = '0' and process_id = {its}");
    victim.kill().await;
    let killed = Instant::now();
    env.sql(&had).await;
    let had = env.number("select count(*) from had").await;
    assert!(had > 0, "it had nothing");
    env.until("select count(*) from had join received_order o using (id) where o.status = '1'", had).await;
    let done = killed.elapsed();
    println!("the {had} messages of the dead process were done after {done:?}");
    // Time itself, at the full size, which has the machine to itself.
    assert!(size(0, 1) == 0 || done < lease + Duration::from_secs(5), "done after {done:?}");
    if size(0, 1) == 0 {
        // Chores are done meanwhile: what is known about orders that are gone is forgotten.
        env.until_none("ichido_parked p where state = 'dead' and not exists (select 1 from received_order o where o.id::text = p.key)")
            .await;
    }

    let stopped = Instant::now();
    env.ok(&["stop", "R1"]).await;
    survivor.until_logged("is stopped").await;
    println!("the stop was seen after {:?}", stopped.elapsed());
    assert!(size(0, 1) == 0 || stopped.elapsed() < 2 * CHECK, "seen after {:?}", stopped.elapsed());
    assert_eq!(survivor.exit_code().await, 0, "{}", survivor.log());
    let log = survivor.log();
    assert_eq!(log.matches("rescued the messages").count(), 1, "one was dead:\n{log}");
    assert!(!log.contains("considered dead") && !log.contains("heartbeat failed"), "{log}");
    let doubled = "select count(*) from (select 1 from project group by id having count(*) > 1) d";
    assert_eq!(env.number(doubled).await, 0, "DOUBLE");
    assert_eq!(env.number("select count(*) from ichido_process").await, 0);
    let failed = "select count(*) from project p join received_order o using (id) where o.status <> '1'";
    assert_eq!(env.number(failed).await, 0, "GHOST");
}
