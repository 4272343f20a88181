//! Processes that die or stand still at the worst moments: a message that takes its process with it ends alone, and what a stopped
//! process had is done once. The test starts processes of its own binary, which run the ignored test `child`; a supervisor
//! starts them again as long as they die.

use std::{process::Stdio, time::Duration};

use ichido::{
    Context, Guarded, Outcome, Pool, Process, Queue, Result, RetryPolicy,
    message::{ATTEMPTS, ClaimBy},
};
use ichido_rabbitmq::{Envelope, PublisherSettings, RabbitMq, Server, Topology};
use ichido_testkit::LIMIT;
use serde::Deserialize;
use tokio::process::Command;

use crate::{
    rabbitmq::{
        ledger::Written,
        world::{BUSY, DEAD, QUEUE, World},
    },
    testenv::Kind,
};

crate::on_all!(
    a_message_that_kills_its_process_ends_alone,
    a_foreign_message_that_kills_its_process_has_its_own_attempts,
    what_a_process_had_that_was_stopped_for_three_leases_is_done_once
);

const DATABASE: &str = "ICHIDO_TEST_DATABASE";
const BROKER: &str = "ICHIDO_TEST_BROKER";
const CLAIM: &str = "ICHIDO_TEST_CLAIM";
const GUARD: &str = "ICHIDO_TEST_GUARD";

/// The order that kills.
const DEADLY: u32 = 7;
const ORDERS: u32 = 20;

fn claims(kind: Kind) -> &'static [&'static str] {
    if kind == Kind::Sqlite { &["lease"] } else { &["lock", "lease"] }
}

#[derive(Deserialize)]
struct Order {
    id: u32,
}

async fn deadly<S: Written>(cx: &mut Context<S>, order: Order) -> Result<Outcome> {
    let effect = format!("insert into project (id, name, made_by) values ({}, 'order', 'child')", order.id);
    S::write(cx.tx().await?, effect).await?;
    if order.id == DEADLY {
        std::process::abort();
    }
    Ok(Outcome::Done)
}

/// Not a test: what the processes of the tests run. It drains the queue, unless it dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by other tests, in processes of their own"]
async fn child() {
    let Ok(url) = std::env::var(DATABASE) else { return };
    let mut rules = Guarded::new("", QUEUE);
    rules.claim = if std::env::var(CLAIM).is_ok_and(|claim| claim == "lock") { ClaimBy::Lock } else { ClaimBy::Lease };
    rules.relay_after = Duration::from_secs(1);
    if std::env::var(GUARD).is_ok_and(|guard| guard == "inbox") {
        rules = rules.inbox();
    }
    let queues = vec![Queue::broker("orders", rules)];
    match url.split(':').next() {
        Some("postgres") => drain(ichido_postgres::Postgres::new(&url, None, 6, queues).unwrap()).await,
        Some("mysql") => drain(ichido_mysql::MySql::new(&url, None, 6, false, queues).unwrap()).await,
        _ => drain(ichido_sqlite::Sqlite::new(&url, queues).unwrap()).await,
    }
}

async fn drain<S: Written>(store: S) {
    let broker = Server::new([std::env::var(BROKER).unwrap()]).unwrap();
    let mut topology = Topology::new(QUEUE);
    topology.busy_delay = Duration::from_millis(200);
    let broker = RabbitMq::new(broker, topology, PublisherSettings::default());
    let retry =
        RetryPolicy { attempts: 3, first: Duration::from_millis(1), max: Duration::from_millis(5), factor: 2.0 };
    let pool = Pool::new("Deadly").from("orders").concurrency(2).retry(retry);
    let process = Process::new(store).poll(Duration::from_millis(50)).lease(Duration::from_secs(1)).drain();
    assert_eq!(process.broker("orders", broker).action_fn(pool, deadly::<S>).run().await.unwrap(), 0);
}

/// Starts a process again until it ends well, and says how often it died.
async fn supervise(world: &World<'_>, claim: &str, guard: &str) -> u32 {
    let url = match world.env.kind {
        Kind::Sqlite => format!("sqlite://{}", world.env.folder().join("test.db").display()),
        _ => world.env.url.clone(),
    };
    for deaths in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "rabbitmq::dying::child"]);
        child.env(DATABASE, &url).env(BROKER, &world.url).env(CLAIM, claim).env(GUARD, guard);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let ended = tokio::time::timeout(LIMIT, child.wait()).await;
        if ended.unwrap_or_else(|_| panic!("after {deaths} deaths it does not end")).unwrap().success() {
            return deaths;
        }
    }
    panic!("it dies again and again")
}

async fn a_message_that_kills_its_process_ends_alone(kind: Kind) {
    for claim in claims(kind) {
        let world = World::new(kind).await;
        world.configure_queue(&format!("claim = \"{claim}\""));
        world.send(1..=ORDERS).await;
        let (one, two) = tokio::join!(supervise(&world, claim, "mutex"), supervise(&world, claim, "mutex"));
        // Once per attempt, and before that once as a bystander; under a lock nothing is marked yet at the first time.
        let unmarked = u32::from(*claim == "lock");
        assert_eq!(one + two, 1 + 3 + unmarked, "{claim}: {one} + {two} deaths");
        let effects = "select count(*) from project";
        assert_eq!(world.env.number(effects).await, i64::from(ORDERS) - 1, "{claim}");
        assert_eq!(world.env.number("select count(distinct id) from project").await, i64::from(ORDERS) - 1, "{claim}");
        assert_eq!(world.env.number(&format!("select count(*) from project where id = {DEADLY}")).await, 0);
        assert_eq!(world.env.number("select count(*) from ichido_parked where state = 'dead'").await, 1);
        // Whoever is handed the copy now puts it to the dead letters.
        let [mut process] = world.start(["process"], &[]);
        process.until_logged("process starts").await;
        world.settles_at(DEAD, 1).await;
        world.settles_at(QUEUE, 0).await;
        world.settles_at(BUSY, 0).await;
        process.stop().await;
        assert_eq!(world.env.number(effects).await, i64::from(ORDERS) - 1, "{claim}");
        let shown = world.env.ok(&["failed", "list", "--json"]).await;
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown.as_array().map(Vec::len), Some(1), "{shown}");
        println!("{kind:?}, {claim}: {one} + {two} deaths");
    }
}

/// Nothing of it is in the database but that it runs: the message itself says how often it may, when the broker hands it out again.
async fn a_foreign_message_that_kills_its_process_has_its_own_attempts(kind: Kind) {
    let claim = claims(kind)[0];
    let world = World::new(kind).await;
    world.configure_queue(&format!("guard = \"inbox\", claim = \"{claim}\""));
    let [mut declares] = world.start(["declares"], &["--drain"]);
    assert_eq!(declares.exit_code().await, 0, "{}", declares.log());
    let deadly = Envelope::new("", QUEUE, World::order(DEADLY)).and_then(|deadly| deadly.header(ATTEMPTS, "1"));
    world.publish(&[deadly.and_then(|deadly| deadly.header("x-message-mutex", "deadly")).unwrap()]).await;
    let deaths = supervise(&world, claim, "inbox").await;
    // Before it is marked, as a bystander, and for its only attempt; its action would allow three.
    assert!((2..=3).contains(&deaths), "{deaths} deaths");
    assert_eq!(world.env.number("select count(*) from project").await, 0);
    assert_eq!(world.env.number("select count(*) from ichido_parked where state = 'dead'").await, 1);
}

async fn what_a_process_had_that_was_stopped_for_three_leases_is_done_once(kind: Kind) {
    for claim in claims(kind) {
        let world = World::new(kind).await;
        world.configure_queue(&format!("claim = \"{claim}\""));
        let slow = world.env.slow(if kind == Kind::Sqlite { 10 } else { 30 });
        world.env.reconfigure(|config| config.replace("'broker')\"]", &format!("'broker')\"{slow}]")));
        world.env.allow_many_deaths();
        let [mut sleeper, mut other] = world.start(["sleeper", "other"], &[]);
        world.env.until("select count(*) from ichido_process", 2).await;
        world.send(1..=80).await;
        world.shipped(5).await;
        sleeper.stand_still().await;
        world.shipped(80).await;
        world.env.until_none("ichido_mutex").await;
        world.send(81..=100).await;
        world.shipped(100).await;
        world.env.until_none("ichido_mutex").await;
        // Copies of what is done: somebody must be there to settle them.
        for queue in [QUEUE, BUSY] {
            world.settles_at(queue, 0).await;
        }
        for process in [&mut sleeper, &mut other] {
            process.stop().await;
        }
        world.assert_exact(100).await;
        assert_eq!(world.env.number("select count(*) from ichido_parked").await, 0, "nothing has failed");
    }
}
