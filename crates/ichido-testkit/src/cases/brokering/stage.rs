//! What the cases about brokers share: a database and a vhost of their own, processes between the two, an action that can be held
//! or made to fail, and a look at the queues from outside.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, Mutex},
    time::Duration,
};

use ichido::{
    Action, Broker as _, CancellationToken, ClaimBy, Client, Context, GuardBy, Guarded, Inspect, OnBusy, Outbox,
    Outcome, Pool, Process, Queue, Result, RetryPolicy, Store, stat::Tally,
};
use ichido_rabbitmq::{Broker, PublisherSettings, RabbitMq, Topology};
use ichido_test_servers::RabbitMq as Node;
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};

use crate::fixture::{Fixture, effect};

/// Nothing that works takes so long, however busy the machine is.
pub(super) const LIMIT: Duration = Duration::from_mins(1);

/// A machine that stands still for some seconds is no death.
const LEASE: Duration = Duration::from_secs(6);

/// A database and a vhost.
pub(super) struct Stage<F: Fixture> {
    pub(super) db: F,
    pub(super) node: &'static Node,
    pub(super) url: String,
    pub(super) rules: Guarded,
}

/// The ways to hold a row that this database has.
pub(super) fn ways<F: Fixture>() -> Vec<ClaimBy> {
    if F::LOCKS { vec![ClaimBy::Lock, ClaimBy::Lease] } else { vec![ClaimBy::Lease] }
}

impl<F: Fixture> Stage<F> {
    pub(super) async fn new(claim: ClaimBy) -> Self {
        Self::on(Node::shared(), claim).await
    }

    pub(super) async fn on(node: &'static Node, claim: ClaimBy) -> Self {
        let mut rules = Guarded::new("", "orders");
        rules.claim = claim;
        rules.relay_after = Duration::from_secs(2);
        Stage { db: F::fresh().await, node, url: node.fresh_vhost(), rules }
    }

    pub(super) fn inbox(mut self) -> Self {
        self.rules.by = GuardBy::Inbox;
        self
    }

    pub(super) fn dead_letter_busy(mut self) -> Self {
        self.rules.on_busy = OnBusy::DeadLetter;
        self
    }

    /// A store with the queue `orders` at the broker, and a managed one.
    pub(super) fn store(&self) -> F::Store {
        self.db.store_with(vec![Queue::broker("orders", self.rules.clone()), Queue::managed("mail")])
    }

    pub(super) fn broker(&self) -> RabbitMq {
        broker_at(&self.url, |_| {})
    }

    /// Publishes as a program would that knows nothing of ichido.
    pub(super) async fn publish_foreign(&self, exchange: &str, key: &str, messages: &[(Option<&str>, &str)]) {
        let connection = lapin::Connection::connect(&self.url, lapin::ConnectionProperties::default());
        let channel = connection.await.expect("connected").create_channel().await.expect("a channel");
        channel.confirm_select(lapin::options::ConfirmSelectOptions::default()).await.expect("confirms");
        for (id, payload) in messages {
            let mut properties = lapin::BasicProperties::default().with_app_id("shop".into()).with_delivery_mode(2);
            if let Some(id) = id {
                properties = properties.with_message_id((*id).into());
            }
            let options = lapin::options::BasicPublishOptions::default();
            let sent = channel.basic_publish(exchange.into(), key.into(), options, payload.as_bytes(), properties);
            assert!(sent.await.expect("sent").await.expect("an answer").is_ack());
        }
    }

    /// What the dead letters say, and whether they name a row.
    pub(super) async fn letters(&self) -> Vec<(String, bool)> {
        let mut reading = self.broker().dead_letters().await.expect("a reading");
        let mut letters = Vec::new();
        while let Some(letter) = reading.next().await.expect("a letter") {
            letters.push((String::from_utf8_lossy(letter.payload()).into_owned(), letter.row().is_some()));
        }
        reading.close().await.expect("given back");
        letters
    }

    /// Deletes a queue, as an operator would.
    pub(super) async fn delete(&self, queue: &str) {
        let connection = lapin::Connection::connect(&self.url, lapin::ConnectionProperties::default());
        let channel = connection.await.expect("connected").create_channel().await.expect("a channel");
        channel.queue_delete(queue.into(), lapin::options::QueueDeleteOptions::default()).await.expect("deleted");
    }

    /// Sends so many orders in one transaction and commits.
    pub(super) async fn send(&self, count: u64) -> Vec<String> {
        let store = self.store();
        let orders: Vec<Value> = (0..count).map(|n| serde_json::json!({ "id": n })).collect();
        let mut tx = store.begin().await.expect("a transaction");
        let client = Client::new(store.clone());
        let ids = client.queue("orders").send_all(F::Store::connection(&mut tx), &orders).await.expect("sent");
        store.commit(tx).await.expect("committed");
        ids.iter().map(ToString::to_string).collect()
    }

    /// A process that works on the queue.
    pub(super) fn process(&self, action: Work<F>) -> Running {
        self.process_at(self.broker(), action)
    }

    /// A process that reaches the broker in this way.
    pub(super) fn process_at(&self, broker: RabbitMq, action: Work<F>) -> Running {
        self.process_with(broker, action, |pool| pool, |process| process)
    }

    pub(super) fn process_with(
        &self,
        broker: RabbitMq,
        action: Work<F>,
        pool: impl FnOnce(Pool) -> Pool,
        change: impl FnOnce(Process<F::Store>) -> Process<F::Store>,
    ) -> Running {
        let stop = CancellationToken::new();
        let retry =
            RetryPolicy { attempts: 3, first: Duration::from_millis(100), max: Duration::from_secs(1), factor: 2.0 };
        let pool = pool(Pool::new("Work").from("orders").concurrency(4).retry(retry));
        let process = Process::new(self.store()).broker("orders", broker).action(pool, action);
        let process = process.poll(Duration::from_millis(200)).check(Duration::from_millis(200)).stop_on(stop.clone());
        let process = change(process.lease(LEASE));
        Running { stop, ended: tokio::spawn(process.run()) }
    }

    /// How many messages are ready and unacknowledged in a queue, by the node's own word; none if there is no such queue.
    pub(super) fn depth(&self, queue: &str) -> (u32, u32) {
        let counts =
            "[{_, R}, {_, U}] = rabbit_amqqueue:info(Q, [messages_ready, messages_unacknowledged]), R * 1000000 + U";
        let counts = self.number_of(queue, counts);
        (counts / 1_000_000, counts % 1_000_000)
    }

    /// How many consumers it has.
    pub(super) fn consumers(&self, queue: &str) -> u32 {
        self.number_of(queue, "[{_, C}] = rabbit_amqqueue:info(Q, [consumers]), C")
    }

    /// What this expression says about a queue `Q`; 0 if there is no such queue.
    fn number_of(&self, queue: &str, erlang: &str) -> u32 {
        let vhost = self.url.rsplit_once('/').expect("a vhost").1;
        let name = format!(r#"rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>)"#);
        let found = format!("case rabbit_amqqueue:lookup({name}) of {{ok, Q}} -> {erlang}; _ -> 0 end");
        self.node.eval(&found).parse().expect("a number")
    }

    /// Everything at the broker and in the database is as a done message leaves it.
    pub(super) async fn ends_empty(&self) {
        let empty = || ["orders", "orders.busy", "orders.dead"].iter().all(|queue| self.depth(queue) == (0, 0));
        // The node counts five times a second, so one look is not enough.
        self.until("all queues are empty", async || {
            let seen = empty();
            tokio::time::sleep(Duration::from_millis(if seen { 300 } else { 0 })).await;
            seen && empty()
        })
        .await;
        for table in ["ichido_mutex", "ichido_outbox", "ichido_parked"] {
            assert_eq!(self.count(table).await, 0, "{table}");
        }
    }

    pub(super) async fn count(&self, table: &str) -> i64 {
        self.db.number(&format!("select count(*) from {table}")).await
    }

    pub(super) async fn effects(&self) -> i64 {
        self.count("ledger").await
    }

    /// Each of these messages has had its effect once, and nothing else has.
    pub(super) async fn exactly_once(&self, ids: &[String]) {
        assert_eq!(self.effects().await, i64::try_from(ids.len()).expect("a few"), "LOST or DOUBLE");
        for id in ids {
            let found = format!("select count(*) from ledger where message = '{id}'");
            assert_eq!(self.db.number(&found).await, 1, "{id}");
        }
    }

    /// Waits until something holds; only looking tells.
    pub(super) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let look = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        };
        let found = timeout(LIMIT, look).await;
        assert!(
            found.is_ok(),
            "{what}: orders {:?}, busy {:?}, dead {:?}, effects {}, mutex {}, outbox {}",
            self.depth("orders"),
            self.depth("orders.busy"),
            self.depth("orders.dead"),
            self.effects().await,
            self.count("ichido_mutex").await,
            self.count("ichido_outbox").await
        );
    }

    pub(super) async fn until_effects(&self, count: i64) {
        self.until(&format!("{count} effects"), async || self.effects().await >= count).await;
    }

    /// What waits to be published, as an operator sees it.
    pub(super) async fn outbox(&self) -> Outbox {
        let overview = self.store().overview().await.expect("an overview");
        let queue = overview.queues.into_iter().find(|queue| queue.queue == "orders").expect("the queue");
        queue.outbox.expect("a broker's queue has an outbox")
    }

    /// What all processes have counted.
    pub(super) async fn tally(&self) -> Tally {
        let mut all = Tally::default();
        let stats = self.store().stats(Duration::from_hours(1)).await.expect("stats");
        for row in &stats {
            all.merge(&row.stat.tally);
        }
        all
    }

    /// Publishes what is in the outbox again, as a relay would whose note got lost.
    pub(super) async fn publish_copies(&self, ids: &[String]) {
        let origin = self.origin().await;
        let copies: Vec<_> = ids.iter().map(|id| outgoing(id, &origin, Some("orders"))).collect();
        self.publish(&copies).await;
    }

    pub(super) async fn publish(&self, messages: &[ichido::Outgoing]) {
        for fate in self.broker().publish(messages).await {
            fate.expect("confirmed");
        }
    }

    pub(super) async fn origin(&self) -> Arc<str> {
        self.store().guard("orders").await.expect("a broker's queue").origin
    }
}

/// The queue `orders` of the broker at this URL.
pub(super) fn broker_at(url: &str, change: impl FnOnce(&mut Topology)) -> RabbitMq {
    let mut topology = Topology::new("orders");
    topology.busy_delay = Duration::from_millis(300);
    change(&mut topology);
    let mut settings = PublisherSettings::default();
    settings.publish_deadline = Duration::from_secs(10);
    RabbitMq::new(Broker::new([url]).expect("a URL"), topology, settings)
}

/// A copy of a message with this id; its mutex stands for this queue.
pub(super) fn outgoing(id: &str, origin: &str, queue: Option<&str>) -> ichido::Outgoing {
    ichido::Outgoing {
        id: id.rsplit('/').next().expect("a key").to_owned(),
        origin: origin.into(),
        queue: queue.map(Into::into),
        exchange: String::new(),
        routing_key: "orders".to_owned(),
        headers: BTreeMap::new(),
        payload: b"{}".to_vec(),
    }
}

/// A process that runs.
pub(super) struct Running {
    pub(super) stop: CancellationToken,
    pub(super) ended: JoinHandle<Result<i32>>,
}

impl Running {
    pub(super) async fn end(self) {
        self.stop.cancel();
        let code = timeout(LIMIT, self.ended).await.expect("it ends").expect("no panic").expect("a code");
        assert_eq!(code, 0);
    }
}

/// Writes its effect; and waits, or fails, if it is told to.
pub(super) struct Work<F> {
    script: Arc<Script>,
    _fixture: PhantomData<fn() -> F>,
}

/// What an action is to do.
pub(super) struct Script {
    /// The first so many runs fail.
    pub(super) failures: Mutex<u32>,
    /// Runs wait here, after their effect, if they are to.
    gate: Option<Gate>,
    pub(super) runs: Mutex<Vec<(String, u32)>>,
}

struct Gate {
    entered: Semaphore,
    open: Semaphore,
}

impl<F: Fixture> Work<F> {
    pub(super) fn plain() -> Self {
        Work::of(Script::new(0, false))
    }

    pub(super) fn of(script: Arc<Script>) -> Self {
        Work { script, _fixture: PhantomData }
    }
}

impl Script {
    pub(super) fn new(failures: u32, gated: bool) -> Arc<Self> {
        let gate = gated.then(|| Gate { entered: Semaphore::new(0), open: Semaphore::new(0) });
        Arc::new(Script { failures: Mutex::new(failures), gate, runs: Mutex::default() })
    }

    /// Until a run waits at the gate.
    pub(super) async fn entered(&self) {
        let gate = self.gate.as_ref().expect("a gate");
        timeout(LIMIT, gate.entered.acquire()).await.expect("a run begins").expect("open").forget();
    }

    /// Lets so many runs go on.
    pub(super) fn open(&self, runs: usize) {
        self.gate.as_ref().expect("a gate").open.add_permits(runs);
    }

    pub(super) fn runs(&self) -> Vec<(String, u32)> {
        self.runs.lock().unwrap().clone()
    }
}

impl<F: Fixture> Action<F::Store> for Work<F> {
    type Message = Value;

    async fn handle(&self, cx: &mut Context<F::Store>, _: Value) -> Result<Outcome> {
        let message = cx.message()?.clone();
        // Where one transaction at a time writes, who waits at the gate with it would hold up everybody.
        let later = self.script.gate.is_some() && !F::LOCKS;
        if !later {
            effect::<F>(cx.tx().await?, &message).await?;
        }
        self.script.runs.lock().unwrap().push((message.id().to_string(), cx.attempt()));
        if let Some(gate) = &self.script.gate {
            gate.entered.add_permits(1);
            gate.open.acquire().await?.forget();
        }
        if later {
            effect::<F>(cx.tx().await?, &message).await?;
        }
        let fails = {
            let mut left = self.script.failures.lock().unwrap();
            let fails = *left > 0;
            *left = left.saturating_sub(1);
            fails
        };
        if fails { Err("told to fail".into()) } else { Ok(Outcome::Done) }
    }
}
