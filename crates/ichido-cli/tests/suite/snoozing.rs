//! Actions that snooze, three runs of four, while their processes are killed and their COMMITs are cut: nothing is lost, nothing is done
//! twice, and no attempt is spent. In a table and in queues at RabbitMQ, however they are guarded. The test starts processes of its own
//! binary, which run the ignored test `child`.

use std::{process::Stdio, time::Duration};

use ichido::{
    Context, Guarded, Outcome, Pool, Process, Queue, Result, RetryPolicy, Status, Store, Table,
    handlers::{Limit, Retry},
    message::{ClaimBy, GuardBy},
};
use ichido_rabbitmq::{PublisherSettings, RabbitMq, Server, Topology};
use ichido_test_servers::proxy::Cut;
use ichido_testkit::size;
use serde::Deserialize;
use tokio::process::{Child, Command};

use crate::{
    rabbitmq::{
        ledger::Written,
        world::{BUSY, QUEUE, World},
    },
    testenv::{Env, Kind},
};

on_all!(
    what_is_snoozed_in_a_table_survives_kills,
    what_is_snoozed_at_a_broker_survives_kills,
    what_is_snoozed_from_an_inbox_survives_kills,
);

on_servers!(
    what_is_snoozed_in_a_table_survives_cuts_at_commit,
    what_is_snoozed_at_a_broker_survives_cuts_at_commit,
    what_is_snoozed_from_an_inbox_survives_cuts_at_commit,
);

pub(crate) const DATABASE: &str = "ICHIDO_TEST_DATABASE";
pub(crate) const BROKER: &str = "ICHIDO_TEST_BROKER";
pub(crate) const WAY: &str = "ICHIDO_TEST_WAY";
const ATTEMPTS: &str = "ICHIDO_TEST_ATTEMPTS";

const SECOND: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u32,
}

/// Three times of four it is too early.
async fn early<S: Written>(cx: &mut Context<S>, order: Order) -> Result<Outcome> {
    let effect = format!("insert into project (id, name, made_by) values ({}, 'order', 'child')", order.id);
    S::write(cx.tx().await?, effect).await?;
    let early = !uuid::Uuid::now_v7().as_u64_pair().1.is_multiple_of(4);
    Ok(if early { Outcome::snooze(Duration::from_millis(5)) } else { Outcome::Done })
}

/// Not a test: what the processes of the tests run, until they are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by other tests, in processes of their own"]
async fn child() {
    run_child::<Early>().await;
}

/// What a child of a test does with its store, until it is killed.
pub(crate) trait Serve {
    async fn serve<S: Written + Store>(store: S);
}

/// Serves the queue that the test has told this process, if it is one of a test.
pub(crate) async fn run_child<P: Serve>() {
    let Ok(url) = std::env::var(DATABASE) else { return };
    let queues = vec![queue(&std::env::var(WAY).unwrap())];
    match url.split(':').next() {
        Some("postgres") => P::serve(ichido_postgres::Postgres::new(&url, None, 8, queues).unwrap()).await,
        Some("mysql") => P::serve(ichido_mysql::MySql::new(&url, None, 8, false, queues).unwrap()).await,
        _ => P::serve(ichido_sqlite::Sqlite::new(&url, queues).unwrap()).await,
    }
}

/// Waits out whatever a storm does to the database, with a broker if the test has told one.
pub(crate) fn patient<S: Store>(store: S, lease: Duration) -> Process<S> {
    let patient = Retry { limit: Limit::Count(1000), interval: Duration::from_millis(200), ..Retry::default() };
    let patient = Retry { window: Duration::from_mins(10), ..patient };
    let process = Process::new(store).poll(Duration::from_millis(100)).lease(lease).retry(patient);
    match broker() {
        Some(broker) => process.broker("orders", broker),
        None => process,
    }
}

/// The queue, however its messages are kept.
pub(crate) fn queue(way: &str) -> Queue {
    if way == "table" {
        let status = Status::new("status", "0", "1").failed("2");
        return Queue::table("orders", Table::new("received_order", "process_id", status).key(["id"]));
    }
    let mut rules = Guarded::new("", QUEUE);
    rules.by = if way == "inbox" { GuardBy::Inbox } else { GuardBy::Mutex };
    rules.claim = if way == "lock" { ClaimBy::Lock } else { ClaimBy::Lease };
    rules.relay_after = SECOND;
    Queue::broker("orders", rules)
}

struct Early;

impl Serve for Early {
    async fn serve<S: Written + Store>(store: S) {
        let attempts: u32 = std::env::var(ATTEMPTS).unwrap().parse().unwrap();
        let policy = RetryPolicy { attempts, ..RetryPolicy::default() };
        let pool = Pool::new("Early").from("orders").concurrency(4).retry(policy);
        // Where no attempt may be spent, a process that a busy machine keeps from its heartbeat must not count as dead.
        let lease = if attempts == 1 { SECOND * 60 } else { SECOND };
        patient(store, lease).action_fn(pool, early::<S>).run().await.unwrap();
    }
}

/// The broker of a process that the tests start.
fn broker() -> Option<RabbitMq> {
    let broker = std::env::var(BROKER).ok()?;
    let mut topology = Topology::new(QUEUE);
    topology.busy_delay = Duration::from_millis(200);
    Some(RabbitMq::new(Server::new([broker]).unwrap(), topology, PublisherSettings::default()))
}

/// Where the orders are.
pub(crate) enum Scene {
    Table(Env),
    Broker(Box<World<'static>>, &'static str),
}

impl Scene {
    pub(crate) async fn new(kind: Kind, way: &'static str, orders: u32) -> Self {
        if way == "table" {
            let env = Env::new(kind).await;
            env.send_orders(1..=orders).await;
            return Scene::Table(env);
        }
        let world = World::new(kind).await;
        world.configure_queue(&match way {
            "inbox" => "guard = \"inbox\"".to_owned(),
            claim => format!("claim = \"{claim}\""),
        });
        world.send(1..=orders).await;
        Scene::Broker(Box::new(world), way)
    }

    pub(crate) fn env(&self) -> &Env {
        match self {
            Scene::Table(env) => env,
            Scene::Broker(world, _) => &world.env,
        }
    }

    pub(crate) fn url(&self) -> String {
        match self.env().kind {
            Kind::Sqlite => format!("sqlite://{}", self.env().folder().join("test.db").display()),
            _ => self.env().url.clone(),
        }
    }

    fn start(&self, url: &str, attempts: u32) -> Child {
        self.start_child("snoozing::child", url, attempts)
    }

    /// Starts a process of this binary's own, which runs this ignored test.
    pub(crate) fn start_child(&self, name: &str, url: &str, attempts: u32) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", name]);
        child.env(DATABASE, url).env(ATTEMPTS, attempts.to_string()).env(WAY, "table");
        if let Scene::Broker(world, way) = self {
            child.env(BROKER, &world.url).env(WAY, way);
        }
        child.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
    }

    /// All orders are done, each once; nothing is known of them any more.
    async fn ends_exact(&self, orders: u32) {
        self.env().until("select count(*) from project", orders.into()).await;
        self.env().until_none("ichido_parked where state <> 'dead'").await;
        assert_eq!(self.env().number("select count(*) from ichido_parked").await, 0, "an attempt was spent");
        match self {
            Scene::Table(env) => env.assert_exact(orders.into()).await,
            Scene::Broker(world, _) => {
                world.env.until_none("ichido_mutex").await;
                for queue in [QUEUE, BUSY] {
                    world.settles_at(queue, 0).await;
                }
                world.assert_exact(orders).await;
            }
        }
    }
}

/// A process that is killed again and again beside one that is not. A death may cost a suspect an attempt, so there is one for each; were
/// snoozes to cost any, most messages would fail.
async fn killed(kind: Kind, way: &'static str) {
    let (orders, kills) = (size(60, 600), size(3, 30));
    let scene = Scene::new(kind, way, orders).await;
    let attempts = 2 + kills;
    let mut steady = scene.start(&scene.url(), attempts);
    for kill in 1..=kills {
        let mut victim = scene.start(&scene.url(), attempts);
        let known = format!("select count(*) from ichido_process where pid = {}", victim.id().unwrap());
        scene.env().until(&known, 1).await;
        scene.env().until("select count(*) from project", (orders * kill / (kills + 1)).into()).await;
        victim.kill().await.unwrap();
    }
    scene.ends_exact(orders).await;
    steady.kill().await.unwrap();
    println!("{kind:?}, {way}: {orders} orders, {kills} kills: LOST 0, DOUBLE 0");
}

/// Every third COMMIT is cut: of claims, of snoozes and of what is done. There is one attempt.
async fn cut(kind: Kind, way: &'static str) {
    for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
        let times = size(12, 100);
        let scene = Scene::new(kind, way, times * 2).await;
        let proxy = kind.proxy();
        proxy.cut_commits(cut, 3, times);
        let mut process = scene.start(&proxy.url(&scene.url()), 1);
        proxy.all_cut().await;
        scene.ends_exact(times * 2).await;
        process.kill().await.unwrap();
        println!("{kind:?}, {way}: {times} times {cut:?}, {} orders: exact, no attempt spent", times * 2);
    }
}

async fn what_is_snoozed_in_a_table_survives_kills(kind: Kind) {
    killed(kind, "table").await;
}

async fn what_is_snoozed_at_a_broker_survives_kills(kind: Kind) {
    killed(kind, if kind == Kind::Postgres { "lock" } else { "lease" }).await;
}

async fn what_is_snoozed_from_an_inbox_survives_kills(kind: Kind) {
    killed(kind, "inbox").await;
}

async fn what_is_snoozed_in_a_table_survives_cuts_at_commit(kind: Kind) {
    cut(kind, "table").await;
}

async fn what_is_snoozed_at_a_broker_survives_cuts_at_commit(kind: Kind) {
    for way in ["lock", "lease"] {
        cut(kind, way).await;
    }
}

async fn what_is_snoozed_from_an_inbox_survives_cuts_at_commit(kind: Kind) {
    cut(kind, "inbox").await;
}
