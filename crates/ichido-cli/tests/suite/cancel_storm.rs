//! Cancels in a storm: waves of orders, half of which are cancelled at random moments, while they are ready, claimed, running or waiting; a
//! process is killed again and again, and COMMITs are cut, those of the canceller too. What was said to be cancelled has no effect, ever;
//! what was said to be done has one; everything else is done once. The test starts processes of its own binary, which run the
//! ignored test `child`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ichido::{
    Client, Context, MessageId, Messages, Outcome, Pool, Result, RetryPolicy, Store,
    store::{By, Cancelled},
};
use ichido_test_servers::proxy::{Cut, Proxy};
use ichido_testkit::size;
use tokio::{process::Child, task::JoinSet, time::sleep};

use crate::{
    rabbitmq::{
        ledger::{Random, Written},
        world::{BUSY, QUEUE},
    },
    snoozing::{DATABASE, Order, Scene, Serve, patient, queue, run_child},
    testenv::Kind,
};

on_all!(
    what_is_cancelled_in_a_table_has_no_effect,
    what_is_cancelled_at_a_broker_has_no_effect,
    what_is_cancelled_from_an_inbox_has_no_effect,
);

on_servers!(what_is_cancelled_under_a_lock_has_no_effect);

/// Orders of a wave, and how many of them are cancelled.
const WAVE: u32 = 40;
const CANCELS: u32 = 20;

/// Some orders take long, some snooze, most write and then take a moment. Where one transaction at a time writes, the moment comes first.
async fn ship<S: Written>(cx: &mut Context<S>, order: Order) -> Result<Outcome> {
    let dice = uuid::Uuid::now_v7().as_u64_pair().1;
    let time = Duration::from_millis(if dice.is_multiple_of(16) { 1500 } else { dice % 120 });
    let effect = format!("insert into project (id, name, made_by) values ({}, 'order', 'child')", order.id);
    let first = !std::env::var(DATABASE).is_ok_and(|url| url.starts_with("sqlite"));
    if first {
        S::write(cx.tx().await?, effect.clone()).await?;
    }
    sleep(time).await;
    if !first {
        S::write(cx.tx().await?, effect).await?;
    }
    Ok(if (dice >> 32).is_multiple_of(4) { Outcome::snooze(Duration::from_millis(200)) } else { Outcome::Done })
}

/// Not a test: what the processes of the tests run, until they are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by other tests, in processes of their own"]
async fn child() {
    run_child::<Ship>().await;
}

struct Ship;

impl Serve for Ship {
    async fn serve<S: Written + Store>(store: S) {
        // A death may cost a suspect an attempt, and nobody is to fail.
        let policy = RetryPolicy { attempts: 1000, first: Duration::from_millis(20), ..RetryPolicy::default() };
        let pool = Pool::new("Ship").from("orders").concurrency(4).retry(policy);
        let process = patient(store, Duration::from_secs(1)).check(Duration::from_millis(50));
        process.action_fn(pool, ship::<S>).run().await.unwrap();
    }
}

/// What was said about each order that was to be cancelled; nothing, where the database failed to the end.
type Said = BTreeMap<u32, Option<Cancelled>>;

struct Storm {
    scene: Scene,
    proxy: Option<Proxy>,
    random: Random,
    /// The message of each order.
    ids: BTreeMap<u32, MessageId>,
    said: Said,
}

impl Storm {
    fn url(&self) -> String {
        let url = self.scene.url();
        self.proxy.as_ref().map_or(url.clone(), |proxy| proxy.url(&url))
    }

    fn start(&self) -> Child {
        self.scene.start_child("cancel_storm::child", &self.url(), 1000)
    }

    /// Sends some orders, and cancels half of them, each at a moment of its own.
    async fn wave<S: Messages>(&mut self, store: &S, first: u32) {
        let orders = first..first + WAVE;
        let sent: Vec<String> = match &self.scene {
            Scene::Table(env) => {
                env.send_orders(orders.clone()).await;
                orders.clone().map(|order| format!("orders/{order}")).collect()
            }
            Scene::Broker(world, _) => world.send(orders.clone()).await,
        };
        self.ids.extend(orders.clone().zip(sent.iter().map(|id| id.parse().unwrap())));
        let mut chosen: Vec<u32> = orders.collect();
        self.random.shuffle(&mut chosen);
        let mut cancels = JoinSet::new();
        for order in chosen.into_iter().take(CANCELS as usize) {
            let message = Client::new(store.clone()).message(&self.ids[&order]).by(By::user("storm"));
            let moment = Duration::from_millis(self.random.below(700).into());
            cancels.spawn(async move {
                // Time itself: a cancel comes when it comes.
                sleep(moment).await;
                (order, message.cancel().await.ok())
            });
        }
        while let Some(said) = cancels.join_next().await {
            let (order, said) = said.unwrap();
            if said.is_some_and(Cancelled::is_cancelled) {
                let effects = self.effects(order).await;
                assert_eq!(effects, 0, "order {order} had its effect when it was said to be cancelled");
            }
            self.said.insert(order, said);
        }
    }

    async fn effects(&self, order: u32) -> i64 {
        self.scene.env().number(&format!("select count(*) from project where id = {order}")).await
    }

    /// Everything has come to an end: done, or cancelled.
    async fn ends(&self) {
        let env = self.scene.env();
        match &self.scene {
            Scene::Table(env) => env.until_none("received_order where status = '0'").await,
            Scene::Broker(world, _) => {
                env.until_none("ichido_mutex").await;
                for queue in [QUEUE, BUSY] {
                    world.settles_at(queue, 0).await;
                }
            }
        }
        env.until_none("ichido_parked where state <> 'discarded'").await;
    }

    /// The ledger: an order has its effect once, or was cancelled and has none; and what was said is so.
    async fn judge(&self) -> BTreeMap<&'static str, u32> {
        let env = self.scene.env();
        let cancelled: BTreeSet<String> = self.cancelled().await;
        let mut counts = BTreeMap::new();
        for (order, id) in &self.ids {
            let (effects, is_cancelled) = (self.effects(*order).await, cancelled.contains(&id.key.to_string()));
            assert_eq!(effects, i64::from(!is_cancelled), "order {order}: {:?}", self.said.get(order));
            let what = match self.said.get(order) {
                None => continue,
                Some(Some(Cancelled::Cancelled | Cancelled::Already)) => {
                    assert!(is_cancelled, "order {order} was said to be cancelled");
                    "cancelled"
                }
                Some(Some(Cancelled::Done)) => {
                    assert!(!is_cancelled, "order {order} was said to be done");
                    "done"
                }
                Some(Some(Cancelled::Asked)) => "asked",
                Some(Some(_)) => "gone",
                Some(None) => "unknown",
            };
            *counts.entry(what).or_insert(0) += 1;
        }
        assert_eq!(env.number("select count(*) from ichido_audit where by_user <> 'storm'").await, 0);
        counts
    }

    /// The keys of messages that were cancelled, by the audit.
    async fn cancelled(&self) -> BTreeSet<String> {
        let json = self.scene.env().ok(&["audit", "--json", "--limit", "100000"]).await;
        let entries: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        let keys = entries.iter().filter(|entry| entry["verb"] == "cancel");
        keys.map(|entry| entry["what"].as_str().unwrap().strip_prefix("orders/").unwrap().to_owned()).collect()
    }
}

async fn storm(kind: Kind, way: &'static str) {
    let cancels = size(60, 1000);
    let scene = Scene::new(kind, way, 0).await;
    let proxy = (kind != Kind::Sqlite).then(|| kind.proxy());
    let storm = Storm { scene, proxy, random: Random::seeded(kind), ids: BTreeMap::new(), said: Said::new() };
    let (url, queues) = (storm.url(), vec![queue(way)]);
    match kind {
        Kind::Sqlite => blow(storm, ichido_sqlite::Sqlite::new(&url, queues).unwrap(), way, cancels).await,
        Kind::Postgres => {
            blow(storm, ichido_postgres::Postgres::new(&url, None, 8, queues).unwrap(), way, cancels).await;
        }
        Kind::MariaDb => {
            blow(storm, ichido_mysql::MySql::new(&url, None, 8, false, queues).unwrap(), way, cancels).await;
        }
    }
}

async fn blow<S: Messages>(mut storm: Storm, operator: S, way: &str, cancels: u32) {
    let (kind, waves) = (storm.scene.env().kind, cancels.div_ceil(CANCELS));
    let steady = storm.start();
    let (mut victim, mut kills, mut cuts) = (storm.start(), 0, 0);
    for wave in 0..waves {
        if let Some(proxy) = &storm.proxy {
            let cut = if wave.is_multiple_of(2) { Cut::BeforeCommit } else { Cut::AfterCommit };
            proxy.cut_commits(cut, 7, 4);
        }
        storm.wave(&operator, 1 + wave * WAVE).await;
        cuts += storm.proxy.as_ref().map_or(0, Proxy::cuts);
        victim.kill().await.unwrap();
        kills += 1;
        victim = storm.start();
    }
    storm.ends().await;
    let counts = storm.judge().await;
    for mut process in [steady, victim] {
        process.kill().await.unwrap();
    }
    println!(
        "{kind:?}, {way}: {} orders, {} cancels {counts:?}, {kills} kills, {cuts} cuts: effects after \"cancelled\" 0, LOST 0, DOUBLE 0",
        waves * WAVE,
        waves * CANCELS
    );
    assert!(counts.get("cancelled").is_some_and(|cancelled| *cancelled > 0), "{counts:?}");
    assert!(kind == Kind::Sqlite || cuts > 0, "no COMMIT was cut");
}

async fn what_is_cancelled_in_a_table_has_no_effect(kind: Kind) {
    storm(kind, "table").await;
}

async fn what_is_cancelled_at_a_broker_has_no_effect(kind: Kind) {
    storm(kind, "lease").await;
}

async fn what_is_cancelled_under_a_lock_has_no_effect(kind: Kind) {
    storm(kind, "lock").await;
}

async fn what_is_cancelled_from_an_inbox_has_no_effect(kind: Kind) {
    storm(kind, "inbox").await;
}
