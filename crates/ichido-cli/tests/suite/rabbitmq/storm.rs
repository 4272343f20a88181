//! The storm: consumers that are killed, connections that are cut, a broker and a database that crash, copies of messages, and
//! senders that roll back; all at a time. Each order that was committed has had its effect once, no other one has had any, and
//! nothing is left anywhere.

use std::{fmt::Write as _, time::Instant};

use ichido::{CancellationToken, Guarded, Queue, message::ClaimBy};
use ichido_test_servers::{
    RabbitMq,
    proxy::{Cut, Proxy},
};
use ichido_testkit::{LIMIT, eventually, size};
use tokio::{sync::mpsc::unbounded_channel, task::block_in_place, time::timeout};

use crate::{
    rabbitmq::{
        ledger::{self, LOST, Orders, Random, Written},
        world::{BUSY, DEAD, EMPTY, QUEUE, World},
    },
    testenv::{Env, Kind, Process, database::Database},
};

const CONSUMERS: usize = 4;

/// So many orders may wait when the next trouble comes.
const BACKLOG: u32 = 200;

#[derive(Debug, Clone, Copy)]
enum Trouble {
    CutBroker(Cut),
    SeverBroker,
    SilenceBroker,
    RestartBroker { gracefully: bool },
    CutDatabase(Cut),
    SeverDatabase,
    RestartDatabase { gracefully: bool },
    KillConsumer,
}

impl Trouble {
    fn is_about_the_database(self) -> bool {
        matches!(self, Trouble::CutDatabase(_) | Trouble::SeverDatabase | Trouble::RestartDatabase { .. })
    }
}

/// All troubles once, in any order; servers crash or are stopped, in turns.
fn all_troubles(random: &mut Random, gracefully: bool) -> Vec<Trouble> {
    use Cut::{
        AfterAck, AfterConfirm, AfterDeliver, AfterPublish, BeforeAck, BeforeConfirm, BeforeDeliver, BeforePublish,
    };
    let at_broker =
        [BeforePublish, AfterPublish, BeforeConfirm, AfterConfirm, BeforeDeliver, AfterDeliver, BeforeAck, AfterAck];
    let mut all = vec![
        Trouble::SeverBroker,
        Trouble::SilenceBroker,
        Trouble::RestartBroker { gracefully },
        Trouble::CutDatabase(Cut::BeforeCommit),
        Trouble::CutDatabase(Cut::AfterCommit),
        Trouble::SeverDatabase,
        Trouble::RestartDatabase { gracefully: !gracefully },
        Trouble::KillConsumer,
        Trouble::KillConsumer,
    ];
    all.extend(at_broker.map(Trouble::CutBroker));
    random.shuffle(&mut all);
    all
}

fn claim(kind: Kind) -> ClaimBy {
    if kind == Kind::Postgres { ClaimBy::Lock } else { ClaimBy::Lease }
}

struct Storm<'a> {
    // Dropped before the folder with their logs: if the test fails, they tell what these say last.
    consumers: Vec<Process>,
    world: World<'a>,
    /// SQLite has no server.
    database: Option<(Database, Proxy)>,
    broker: Proxy,
    started: usize,
    random: Random,
}

impl<'a> Storm<'a> {
    async fn new(kind: Kind, node: &'a RabbitMq, random: Random) -> Self {
        let server = (kind != Kind::Sqlite).then(|| Database::start(kind));
        let env = match &server {
            Some(server) => Env::with_url(kind, server.fresh_database()).await,
            None => Env::bare(kind).await,
        };
        env.ok(&["migrate"]).await;
        let (database, url) = (server.map(|server| (server.proxy(), server)), node.fresh_vhost());
        let database = database.map(|(proxy, server)| (server, proxy));
        let broker = Proxy::start_amqp(node.address());
        let storm =
            Storm { consumers: Vec::new(), world: World { env, node, url }, database, broker, started: 0, random };
        storm.configure();
        storm
    }

    /// Everything that consumers do goes through the proxies, and is patient: that is not what is looked at.
    fn configure(&self) {
        let claim = if claim(self.world.env.kind) == ClaimBy::Lock { "lock" } else { "lease" };
        self.world.configure_queue(&format!("claim = \"{claim}\""));
        self.world.env.reconfigure(|config| {
            let config = config.replace(&self.world.url, &self.broker.url(&self.world.url));
            let config = config.replace(&self.world.env.url, &self.database_url());
            config.replace("count = 20", "count = 1000").replace("attempts = 3", "attempts = 20")
        });
    }

    /// Through the proxy, where there is one; for whoever runs in any folder.
    fn database_url(&self) -> String {
        match &self.database {
            Some((_, proxy)) => proxy.url(&self.world.env.url),
            None => format!("sqlite://{}", self.world.env.folder().join("test.db").display()),
        }
    }

    fn start_consumer(&mut self) {
        self.started += 1;
        let [consumer] = self.world.start([&format!("consumer {}", self.started)], &[]);
        self.consumers.push(consumer);
    }

    async fn make(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::CutBroker(cut) => {
                // Many messages are confirmed at once.
                let confirms = matches!(cut, Cut::BeforeConfirm | Cut::AfterConfirm);
                let every = if confirms { 1 } else { 1 + self.random.below(15) };
                self.broker.cut(cut, every, 1 + self.random.below(3));
                self.broker.all_cut().await;
            }
            Trouble::SeverBroker => self.broker.sever_all(),
            Trouble::SilenceBroker => {
                self.broker.hold();
                self.broker.holding().await;
                self.broker.sever_all();
                self.broker.resume();
            }
            Trouble::RestartBroker { gracefully: true } => block_in_place(|| self.world.node.stop()),
            Trouble::RestartBroker { gracefully: false } => block_in_place(|| self.world.node.kill()),
            Trouble::KillConsumer => {
                let victim = self.random.below(u32::try_from(CONSUMERS).expect("few")) as usize;
                self.consumers.swap_remove(victim).kill().await;
                self.start_consumer();
            }
            Trouble::CutDatabase(_) | Trouble::SeverDatabase | Trouble::RestartDatabase { .. } => {
                self.trouble_the_database(trouble).await;
            }
        }
        if matches!(trouble, Trouble::RestartBroker { .. }) {
            block_in_place(|| self.world.node.start_again());
        }
    }

    async fn trouble_the_database(&mut self, trouble: Trouble) {
        let Some((server, proxy)) = &self.database else { return };
        match trouble {
            Trouble::CutDatabase(cut) => {
                proxy.cut_commits(cut, 1 + self.random.below(10), 1 + self.random.below(5));
                proxy.all_cut().await;
            }
            Trouble::RestartDatabase { gracefully } => block_in_place(|| {
                server.end(gracefully);
                server.start_again();
            }),
            _ => proxy.sever_all(),
        }
    }

    async fn state(&self) -> String {
        let mut state = String::new();
        for table in ["received_order", "project", "ichido_mutex", "ichido_outbox", "ichido_parked"] {
            let rows = self.world.env.number(&format!("select count(*) from {table}")).await;
            write!(state, "{table} {rows}, ").expect("to a string");
        }
        for queue in [QUEUE, BUSY, DEAD] {
            write!(state, "{queue} {:?}, ", self.world.depth(queue)).expect("to a string");
        }
        state
    }

    /// What is sent and done is so in the end, whatever happened.
    async fn ends_well(&mut self) {
        for rows in [LOST, "ichido_mutex", "ichido_outbox"] {
            self.world.env.until_none(rows).await;
        }
        eventually("all queues are empty at one look", async || {
            let depths = [QUEUE, BUSY, DEAD].map(|queue| self.world.depth(queue));
            if depths == [EMPTY; 3] { Ok(()) } else { Err(format!("{depths:?}")) }
        })
        .await;
        for consumer in &mut self.consumers {
            consumer.stop().await;
        }
        assert_eq!(self.world.env.number("select count(*) from ichido_parked").await, 0, "nothing has failed");
    }
}

async fn storm<S: Written>(kind: Kind, messages: u32, rounds: u32, open: impl FnOnce(&str, Vec<Queue>) -> S) {
    let (since, mut random) = (Instant::now(), Random::seeded(kind));
    let node = block_in_place(|| RabbitMq::start(&[]));
    let mut scene = Storm::new(kind, &node, random.clone()).await;
    let mut rules = Guarded::new("", QUEUE);
    rules.claim = claim(kind);
    let store = open(&scene.database_url(), vec![Queue::broker("orders", rules)]);
    let origin = store.guard("orders").await.expect("a database").origin;
    let (copies, to_copy) = unbounded_channel();
    let copying = tokio::spawn(ledger::copy(scene.world.url.clone(), origin, to_copy));
    let mut orders =
        Orders { store, random: random.clone(), copies, last: 0, committed: 0, rolled_back: 0, unknown: 0 };
    (0..CONSUMERS).for_each(|_| scene.start_consumer());
    let mut troubles: Vec<_> = (0..rounds).flat_map(|round| all_troubles(&mut random, round % 2 == 1)).collect();
    troubles.retain(|trouble| kind != Kind::Sqlite || !trouble.is_about_the_database());
    let each = messages.div_ceil(u32::try_from(troubles.len()).expect("few"));
    for trouble in troubles {
        let begun = Instant::now();
        let happened = CancellationToken::new();
        let sending = tokio::spawn(orders.send_until(each, happened.clone()));
        let made = timeout(LIMIT, scene.make(trouble)).await;
        happened.cancel();
        assert!(made.is_ok(), "{trouble:?} does not happen: {}", scene.state().await);
        orders = timeout(LIMIT, sending).await.expect("sent in time").expect("no panic");
        let least = i64::from(orders.committed.saturating_sub(BACKLOG));
        scene.world.env.until("select count(*) from project", least).await;
        println!("{kind:?}: {trouble:?} {:?}", begun.elapsed());
    }
    let Orders { committed, rolled_back, unknown, copies, .. } = orders;
    drop(copies);
    let twice = timeout(LIMIT, copying).await.expect("copied in time").expect("no panic");
    scene.ends_well().await;
    let line = ledger::verdict(&scene.world.env).await;
    println!(
        "{kind:?}: {committed} orders, {twice} twice, {rolled_back} rolled back, {unknown} in doubt, {} processes, {:?}: {line}",
        scene.started,
        since.elapsed()
    );
    assert_eq!(line, ledger::EXACT);
    assert!(committed >= messages && twice >= messages / 20 && rolled_back > 0, "it was a storm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_committed_is_done_once_in_a_storm_on_postgres() {
    let store = |url: &str, queues| ichido_postgres::Postgres::new(url, None, 2, queues).unwrap();
    storm(Kind::Postgres, size(500, 20_000), size(1, 5), store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_committed_is_done_once_in_a_storm_on_mariadb() {
    let store = |url: &str, queues| ichido_mysql::MySql::new(url, None, 2, false, queues).unwrap();
    storm(Kind::MariaDb, size(500, 20_000), size(1, 5), store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_committed_is_done_once_in_a_storm_on_sqlite() {
    let store = |url: &str, queues| ichido_sqlite::Sqlite::new(url, queues).unwrap();
    storm(Kind::Sqlite, size(200, 5000), size(1, 3), store).await;
}
