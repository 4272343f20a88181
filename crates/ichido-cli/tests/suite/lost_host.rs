//! A host is lost with much that it had claimed: its survivors take for suspects what may have begun, and go on with the rest at their
//! full rate.

use std::time::{Duration, Instant};

use ichido_testkit::size;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};

use crate::testenv::{Env, Kind};

on_servers!(
    suspects_are_what_a_lost_host_may_have_begun_and_others_run_beside_them,
    survivors_of_a_lost_host_are_back_at_their_full_rate_after_the_lease,
);

const SUSPECTS: &str = "select count(*) from ichido_parked where suspect";

/// A transaction from outside that keeps rows locked until it is dropped.
enum Held {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

impl Held {
    async fn gates(env: &Env, which: &str) -> Self {
        // No gaps, and no more rows than are meant.
        let exactly =
            if env.kind == Kind::MariaDb { "set session transaction isolation level read committed;" } else { "" };
        let lock = AssertSqlSafe(format!("{exactly} begin; update gate set n = 1 where {which}"));
        if env.kind == Kind::MariaDb {
            let mut connection = MySqlConnection::connect(&env.url).await.unwrap();
            sqlx::raw_sql(lock).execute(&mut connection).await.unwrap();
            return Held::MariaDb(connection);
        }
        let mut connection = PgConnection::connect(&env.url).await.unwrap();
        sqlx::raw_sql(lock).execute(&mut connection).await.unwrap();
        Held::Postgres(connection)
    }

    async fn open(self) {
        match self {
            Held::Postgres(connection) => connection.close().await.unwrap(),
            Held::MariaDb(connection) => connection.close().await.unwrap(),
        }
    }
}

/// Each order waits in its action while its gate is locked.
async fn with_gates(kind: Kind, orders: u32) -> Env {
    let env = Env::new(kind).await;
    env.configure(|config| {
        let config = config.replace(":process_id)\"", ":process_id)\", \"update gate set n = n + 1 where id = :id\"");
        config.replace("lease = \"1s\"", "lease = \"3s\"\nread_ahead = 64")
    });
    let gates: Vec<_> = (1..=orders).map(|id| format!("({id}, 0)")).collect();
    env.sql("create table gate (id integer primary key, n integer not null)").await;
    env.sql(&format!("insert into gate (id, n) values {}", gates.join(", "))).await;
    env.send_orders(1..=orders).await;
    env
}

async fn suspects_are_what_a_lost_host_may_have_begun_and_others_run_beside_them(kind: Kind) {
    let orders = size(300, 3000);
    let env = with_gates(kind, orders).await;
    let (first, rest) = (Held::gates(&env, "id <= 4").await, Held::gates(&env, "id > 4").await);
    let victim = env.start("victim", &["run", "ProjectCreation/R1"]);
    env.until("select count(*) from received_order where process_id is not null", 68).await;
    env.until("select count(*) from ichido_process where runs like '%orders/4%'", 1).await;
    assert_status(&env).await;
    env.ok(&["pause", "R2"]).await;
    let mut survivor = env.start("survivor", &["run", "ProjectCreation/R2"]);
    env.until("select count(*) from ichido_process", 2).await;
    let lost = format!("ichido_process where pid = {}", victim.pid());
    victim.kill().await;
    env.until_none(&lost).await;
    // It had four slots, and four orders ran at its last heartbeat: they are the same.
    assert_eq!(env.number(SUSPECTS).await, 4);
    assert_eq!(env.number("select count(*) from received_order where process_id is not null").await, 0);
    env.ok(&["resume", "R2"]).await;
    rest.open().await;
    env.until("select count(*) from received_order where status = '1'", i64::from(orders) - 4).await;
    assert_eq!(env.number(SUSPECTS).await, 4, "the suspects still wait, and nobody has waited for them");
    first.open().await;
    env.until("select count(*) from received_order where status = '1'", orders.into()).await;
    survivor.stop().await;
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "nothing failed, and suspects are forgotten");
}

/// What runs now is shown, and what is only claimed is not.
async fn assert_status(env: &Env) {
    let status: serde_json::Value = serde_json::from_str(&env.ok(&["status", "--json"]).await).unwrap();
    let process = &status["processes"][0];
    assert!(process["heartbeat_seconds"].is_u64(), "{process}");
    let running = process["running"].as_array().unwrap();
    let mut ids: Vec<_> = running.iter().map(|running| running["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["orders/1", "orders/2", "orders/3", "orders/4"]);
    assert!(running.iter().all(|running| running["seconds"].is_u64()), "{process}");
    let text = env.ok(&["status"]).await;
    let table = text.lines().skip_while(|line| !line.starts_with("RUNNING")).take_while(|line| !line.is_empty());
    assert_eq!(table.count(), 5, "{text}");
}

async fn survivors_of_a_lost_host_are_back_at_their_full_rate_after_the_lease(kind: Kind) {
    let (orders, together) = (size(800, 16_000), size(4, 16));
    let env = Env::new(kind).await;
    env.slow_down(20);
    env.reconfigure(|config| {
        let config = config.replace("lease = \"1s\"", "lease = \"1s\"\nread_ahead = 64");
        config.replace("concurrency = 4", &format!("concurrency = 4\ncommit_interval = {together}"))
    });
    env.send_orders(1..=orders).await;
    let victims = ["three", "four"].map(|name| env.start(name, &["run", "ProjectCreation/R1"]));
    env.until("select count(*) from ichido_process", 2).await;
    let mut ids = Vec::new();
    for victim in &victims {
        let id = format!("select cast(id as char(36)) from ichido_process where pid = {}", victim.pid());
        ids.push(format!("'{}'", env.text(&id).await));
    }
    let ids = ids.join(", ");
    let mut survivors = ["one", "two"].map(|name| env.start(name, &["run", "ProjectCreation/R1"]));
    let by_survivors = format!("select count(*) from project where made_by not in ({ids})");
    env.until(&by_survivors, i64::from(4 * together)).await;
    let before = rate(&env, &by_survivors, size(0, 4)).await;
    let claimed = format!("select count(*) from received_order where status = '0' and process_id in ({ids})");
    env.until(&claimed, size(1, 900).into()).await;
    for victim in victims {
        victim.kill().await;
    }
    let had = env.number(&claimed).await;
    let (killed, mut slow_until) = (Instant::now(), Duration::ZERO);
    // Time itself, at the full size, which has the machine to itself; beside other tests it only has to happen.
    while killed.elapsed() < Duration::from_secs(size(0, 12).into()) {
        if rate(&env, &by_survivors, 1).await < before * 0.8 {
            slow_until = killed.elapsed();
        }
    }
    println!("{kind:?}: lost with {had} claimed; {before:.0}/s before, at the full rate again after {slow_until:?}");
    assert!(slow_until < Duration::from_secs(6), "slow until {slow_until:?}; the lease is one second");
    env.until("select count(*) from received_order where status = '1'", orders.into()).await;
    for survivor in &mut survivors {
        survivor.stop().await;
    }
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "nothing failed, and suspects are forgotten");
}

/// How much a count grows per second, over so many seconds.
async fn rate(env: &Env, count: &str, seconds: u32) -> f64 {
    let (since, first) = (Instant::now(), env.number(count).await);
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let grown = u32::try_from(env.number(count).await - first).expect("it only grows");
    f64::from(grown) / since.elapsed().as_secs_f64()
}
