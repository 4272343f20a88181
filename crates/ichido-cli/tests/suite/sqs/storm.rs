//! The storm: an SQS that does everything that Amazon's may do, all at a time, three consumers of which one is killed every five seconds, and
//! senders that roll back. Each order that was committed has had its effect once, no other one has had any, and nothing is left
//! anywhere.

use std::time::{Duration, Instant};

use ichido::{Guarded, Queue, message::ClaimBy};
use ichido_test_servers::injector::{Fault, Faults};
use ichido_testkit::{LIMIT, eventually, size};
use tokio::{sync::mpsc::unbounded_channel, task::JoinHandle};

use crate::{
    rabbitmq::ledger::{self, LOST, Orders, Random, Written},
    sqs::world::World,
    testenv::{Env, Kind, Process},
};

const CONSUMERS: usize = 3;

struct Storm {
    world: World,
    consumers: Vec<Process>,
    started: usize,
    random: Random,
}

impl Storm {
    async fn new(kind: Kind, mut random: Random) -> Self {
        let world = World::named(Env::new(kind).await, "", random.below(1_000_000).into());
        world.env.allow_many_deaths();
        world.injector.inject(Faults::storm());
        let mut storm = Storm { world, consumers: Vec::new(), started: 0, random };
        (0..CONSUMERS).for_each(|_| storm.start_consumer());
        storm
    }

    fn start_consumer(&mut self) {
        self.started += 1;
        let [consumer] = self.world.start([&format!("consumer {}", self.started)], &[]);
        self.consumers.push(consumer);
    }

    async fn kill_one(&mut self) {
        let victim = self.random.below(u32::try_from(CONSUMERS).expect("few")) as usize;
        self.consumers.swap_remove(victim).kill().await;
        self.start_consumer();
    }

    async fn effects(&self) -> i64 {
        self.world.env.number("select count(*) from project").await
    }

    /// Kills somebody every few seconds, whatever it does, until everything is sent and done. Time itself is what is tested.
    async fn rage(&mut self, sending: &JoinHandle<impl Send>) {
        let (mut effects, mut grown) = (0, Instant::now());
        for round in 0.. {
            tokio::time::sleep(Duration::from_secs(size(2, 5).into())).await;
            let lost = self.world.env.number(&format!("select count(*) from {LOST}")).await;
            if round > 1 && sending.is_finished() && lost == 0 {
                break;
            }
            let now = self.effects().await;
            if now > effects {
                (effects, grown) = (now, Instant::now());
            }
            assert!(grown.elapsed() < LIMIT, "nothing happens any more: {now} effects, {lost} lost");
            self.kill_one().await;
        }
    }

    /// What is sent and done is so in the end, whatever happened.
    async fn ends_well(&mut self) {
        for rows in [LOST, "ichido_mutex", "ichido_outbox"] {
            self.world.env.until_none(rows).await;
        }
        self.world.injector.inject(Faults::none());
        let queues = [self.world.queue.clone(), self.world.dead()];
        eventually("queue and dead letters are empty at one look", async || {
            let waiting = queues.each_ref().map(|queue| self.world.waiting(queue));
            if waiting.iter().all(|waiting| waiting.all() == 0) { Ok(()) } else { Err(format!("{waiting:?}")) }
        })
        .await;
        for consumer in &mut self.consumers {
            consumer.stop().await;
        }
        assert_eq!(self.world.env.number("select count(*) from ichido_parked").await, 0, "nothing has failed");
    }
}

async fn storm<S: Written>(kind: Kind, messages: u32, open: impl FnOnce(&str, Vec<Queue>) -> S) {
    let (since, random) = (Instant::now(), Random::seeded(kind));
    let mut scene = Storm::new(kind, random.clone()).await;
    let mut rules = Guarded::new("", &scene.world.queue);
    rules.claim = if kind == Kind::Sqlite { ClaimBy::Lease } else { ClaimBy::Lock };
    let url = match kind {
        Kind::Sqlite => format!("sqlite://{}", scene.world.env.folder().join("test.db").display()),
        _ => scene.world.env.url.clone(),
    };
    let store = open(&url, vec![Queue::broker("orders", rules)]);
    // The injector makes the copies here.
    let (copies, _kept) = unbounded_channel();
    let orders = Orders { store, random, copies, last: 0, committed: 0, rolled_back: 0, unknown: 0 };
    let sending = tokio::spawn(orders.send(messages));
    scene.rage(&sending).await;
    let orders = sending.await.expect("no panic");
    scene.ends_well().await;
    let line = ledger::verdict(&scene.world.env).await;
    let (injected, calls) = (scene.world.injector.injected(), scene.world.injector.calls());
    println!(
        "{kind:?}: {} orders, {} rolled back, {} in doubt, {} processes, {:?}: {line}\n{injected:?}\n{calls:?}",
        orders.committed,
        orders.rolled_back,
        orders.unknown,
        scene.started,
        since.elapsed()
    );
    assert_eq!(line, ledger::EXACT);
    let twice = injected.get(&Fault::SentTwice).copied().unwrap_or(0);
    assert!(
        orders.committed >= messages && twice >= u64::from(messages / 10) && injected.len() == 10,
        "it was a storm"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_committed_is_done_once_in_a_storm_on_postgres() {
    let store = |url: &str, queues| ichido_postgres::Postgres::new(url, None, 2, queues).unwrap();
    storm(Kind::Postgres, size(300, 10_000), store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_committed_is_done_once_in_a_storm_on_mariadb() {
    let store = |url: &str, queues| ichido_mysql::MySql::new(url, None, 2, false, queues).unwrap();
    storm(Kind::MariaDb, size(300, 10_000), store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_committed_is_done_once_in_a_storm_on_sqlite() {
    let store = |url: &str, queues| ichido_sqlite::Sqlite::new(url, queues).unwrap();
    storm(Kind::Sqlite, size(200, 10_000), store).await;
}
