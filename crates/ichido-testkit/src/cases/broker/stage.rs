//! What the cases about brokers share: a database and a place at a broker of their own, processes between the two, an action that can be held
//! or made to fail, and a look at the queues from outside.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ichido::{
    Action, CancellationToken, Client, Context, Error, Guarded, Inspect, Outcome, Pool, Process, Queue, Result,
    RetryPolicy,
    broker::{Broker as _, OutboxState, Unpublished},
    message::{ClaimBy, GuardBy, OnBusy},
    stat::Tally,
    store::{Database, Mutexes, Transactions},
};
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinHandle};

use crate::{
    LIMIT, eventually,
    fixture::{BrokerFixture, Fixture, Part, effect},
    in_time,
};

/// A machine that stands still for some seconds is no death.
const LEASE: Duration = Duration::from_secs(6);

/// Less than any broker takes.
pub(crate) const LIMIT_OF_ORDERS: usize = 128 << 10;

/// A database, and a place at a broker.
pub(crate) struct Stage<F, B> {
    pub(crate) db: F,
    pub(crate) at: Arc<B>,
    pub(crate) rules: Guarded,
}

/// The ways to hold a row that this database has.
pub(crate) fn ways<F: Fixture>() -> Vec<ClaimBy> {
    if F::LOCKS { vec![ClaimBy::Lock, ClaimBy::Lease] } else { vec![ClaimBy::Lease] }
}

impl<F: Fixture, B: BrokerFixture> Stage<F, B> {
    pub(crate) async fn new(claim: ClaimBy) -> Self {
        Self::at(B::fresh().await, claim).await
    }

    /// At a broker that the case may crash or block.
    pub(crate) async fn alone(claim: ClaimBy) -> Self {
        Self::at(B::alone().await, claim).await
    }

    async fn at(at: B, claim: ClaimBy) -> Self {
        let mut rules = Guarded::new("", "orders");
        rules.claim = claim;
        rules.relay_after = Duration::from_secs(2);
        Stage { db: F::fresh().await, at: Arc::new(at), rules }
    }

    pub(crate) fn inbox(mut self) -> Self {
        self.rules.by = GuardBy::Inbox;
        self
    }

    pub(crate) fn dead_letter_busy(mut self) -> Self {
        self.rules.on_busy = OnBusy::DeadLetter;
        self
    }

    /// A store with the queue `orders` at the broker, and a managed one.
    pub(crate) fn store(&self) -> F::Store {
        let orders = Queue::broker("orders", self.rules.clone()).payload_limit(LIMIT_OF_ORDERS);
        self.db.store_with(vec![orders, Queue::managed("mail")])
    }

    pub(crate) fn broker(&self) -> B::Broker {
        self.at.queue("orders")
    }

    /// Publishes as a program would that knows nothing of ichido.
    pub(crate) async fn publish_foreign(&self, messages: &[(Option<&str>, &str)]) {
        self.at.publish_foreign("orders", messages).await;
    }

    /// Sends so many orders in one transaction and commits.
    pub(crate) async fn send(&self, count: u64) -> Vec<String> {
        let store = self.store();
        let orders = (0..count).map(|n| serde_json::from_str(&body(n)));
        let orders: Vec<Value> = orders.collect::<Result<_, _>>().expect("JSON");
        let mut tx = store.begin().await.expect("a transaction");
        let client = Client::new(store.clone());
        let ids = client.queue("orders").send_all(F::Store::connection(&mut tx), &orders).await.expect("sent");
        store.commit(tx).await.expect("committed");
        ids.iter().map(ToString::to_string).collect()
    }

    /// A process that works on the queue.
    pub(crate) fn process(&self, action: Work<F>) -> Running {
        self.process_at(self.broker(), action)
    }

    /// A process that reaches the broker in this way.
    pub(crate) fn process_at(&self, broker: B::Broker, action: Work<F>) -> Running {
        self.process_with(broker, action, |pool| pool, |process| process)
    }

    pub(crate) fn process_with(
        &self,
        broker: B::Broker,
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

    /// How many messages are ready and unsettled in the queue.
    pub(crate) async fn orders(&self) -> (u32, u32) {
        self.depth("orders").await
    }

    /// How many wait because somebody is at their message.
    pub(crate) async fn busy(&self) -> (u32, u32) {
        self.at.depth("orders", Part::Busy).await
    }

    /// Does one wait because somebody is at its message? A broker without a place for those has it among what is out.
    pub(crate) async fn is_one_busy(&self) -> bool {
        self.busy().await.0 > 0 || self.db.number("select count(*) from ichido_stat where found_busy > 0").await > 0
    }

    /// How many dead letters there are.
    pub(crate) async fn dead(&self) -> (u32, u32) {
        self.at.depth("orders", Part::Dead).await
    }

    pub(crate) async fn depth(&self, queue: &str) -> (u32, u32) {
        self.at.depth(queue, Part::Queue).await
    }

    async fn is_empty(&self) -> bool {
        self.orders().await == (0, 0) && self.busy().await == (0, 0) && self.dead().await == (0, 0)
    }

    /// Everything at the broker and in the database is as a done message leaves it.
    pub(crate) async fn ends_empty(&self) {
        self.until("all queues are empty", async || {
            let seen = self.is_empty().await;
            if seen {
                // Brokers count now and then, and a message may be between two queues: one look is not enough.
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            seen && self.is_empty().await
        })
        .await;
        for table in ["ichido_mutex", "ichido_outbox", "ichido_parked"] {
            assert_eq!(self.count(table).await, 0, "{table}");
        }
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        self.db.number(&format!("select count(*) from {table}")).await
    }

    pub(crate) async fn effects(&self) -> i64 {
        self.count("ledger").await
    }

    /// Each of these messages has had its effect once, and nothing else has.
    pub(crate) async fn exactly_once(&self, ids: &[String]) {
        assert_eq!(self.effects().await, i64::try_from(ids.len()).expect("a few"), "LOST or DOUBLE");
        for id in ids {
            let found = format!("select count(*) from ledger where message = '{id}'");
            assert_eq!(self.db.number(&found).await, 1, "{id}");
        }
    }

    /// Waits until each of these messages has had its effect, nothing is left of them, and the process has ended.
    pub(crate) async fn finish(&self, process: Running, ids: &[String]) {
        self.until_effects(i64::try_from(ids.len()).unwrap()).await;
        self.ends_empty().await;
        process.end().await;
        self.exactly_once(ids).await;
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let since = Instant::now();
        let look = async || match holds().await {
            true => Ok(()),
            // Asking for everything takes its time: only before giving up.
            false if since.elapsed() > LIMIT / 2 => Err(self.seen().await),
            false => Err(String::new()),
        };
        eventually(what, look).await;
    }

    async fn seen(&self) -> String {
        format!(
            "orders {:?}, busy {:?}, dead {:?}, effects {}, mutex {}, outbox {}",
            self.orders().await,
            self.busy().await,
            self.dead().await,
            self.effects().await,
            self.count("ichido_mutex").await,
            self.count("ichido_outbox").await
        )
    }

    pub(crate) async fn until_effects(&self, count: i64) {
        self.until(&format!("{count} effects"), async || self.effects().await >= count).await;
    }

    /// What waits to be published, as an operator sees it.
    pub(crate) async fn outbox(&self) -> OutboxState {
        let overview = self.store().overview().await.expect("an overview");
        let queue = overview.queues.into_iter().find(|queue| queue.queue == "orders").expect("the queue");
        queue.outbox.expect("a broker's queue has an outbox")
    }

    /// What all processes have counted.
    pub(crate) async fn tally(&self) -> Tally {
        let mut all = Tally::default();
        let stats = self.store().stats(Duration::from_hours(1)).await.expect("stats");
        for row in &stats {
            all.merge(&row.stat.tally);
        }
        all
    }

    /// Publishes what [`Stage::send`] has sent again, as a relay would whose note got lost.
    pub(crate) async fn publish_copies(&self, ids: &[String]) {
        let origin = self.origin().await;
        let copies = ids.iter().zip(0..).map(|(id, n)| with_body(outgoing(id, &origin, Some("orders")), &body(n)));
        self.publish(&copies.collect::<Vec<_>>()).await;
    }

    /// Publishes messages. A busy node may refuse a declaration that a process makes at the same moment: then nothing was sent.
    pub(crate) async fn publish(&self, messages: &[ichido::broker::Outgoing]) {
        let mut left = messages.to_vec();
        eventually("the broker takes them", async || {
            let (mut unsent, mut refusals) = (Vec::new(), Vec::new());
            for (fate, message) in self.broker().publish(&left).await.into_iter().zip(&left) {
                match fate {
                    Err(Unpublished::Unsent(why)) => {
                        unsent.push(message.clone());
                        refusals.push(why);
                    }
                    fate => fate.expect("confirmed"),
                }
            }
            left = unsent;
            if left.is_empty() { Ok(()) } else { Err(refusals.join("; ")) }
        })
        .await;
    }

    pub(crate) async fn origin(&self) -> Arc<str> {
        self.store().guard("orders").await.expect("a broker's queue").origin
    }
}

/// A copy of a message with this id; its mutex stands for this queue.
pub(crate) fn outgoing(id: &str, origin: &str, queue: Option<&str>) -> ichido::broker::Outgoing {
    ichido::broker::Outgoing {
        edition: 0,
        id: id.rsplit('/').next().expect("a key").to_owned(),
        origin: origin.into(),
        queue: queue.map(Into::into),
        exchange: String::new(),
        routing_key: "orders".to_owned(),
        headers: BTreeMap::new(),
        payload: b"{}".to_vec(),
    }
}

/// The same with this body.
pub(crate) fn with_body(outgoing: ichido::broker::Outgoing, body: &str) -> ichido::broker::Outgoing {
    ichido::broker::Outgoing { payload: body.as_bytes().to_vec(), ..outgoing }
}

/// What the order with this number says.
pub(crate) fn body(number: u64) -> String {
    format!(r#"{{"id":{number}}}"#)
}

/// A process that runs.
pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) ended: JoinHandle<Result<i32, Error>>,
}

impl Running {
    pub(crate) async fn end(self) {
        self.stop.cancel();
        let code = in_time("the process ends", self.ended).await.expect("no panic").expect("a code");
        assert_eq!(code, 0);
    }
}

/// Writes its effect; and waits, or fails, if it is told to.
pub(crate) struct Work<F> {
    script: Arc<Script>,
    _fixture: PhantomData<fn() -> F>,
}

/// What an action is to do.
pub(crate) struct Script {
    /// The first so many runs fail.
    pub(crate) failures: Mutex<u32>,
    /// So many runs after that are snoozed.
    snoozes: Mutex<u32>,
    /// Runs wait here, after their effect, if they are to.
    gate: Option<Gate>,
    pub(crate) runs: Mutex<Vec<(String, u32)>>,
    /// What the messages of these runs said.
    pub(crate) bodies: Mutex<Vec<Value>>,
}

struct Gate {
    entered: Semaphore,
    open: Semaphore,
}

impl<F: Fixture> Work<F> {
    pub(crate) fn plain() -> Self {
        Work::of(Script::new(0, false))
    }

    pub(crate) fn of(script: Arc<Script>) -> Self {
        Work { script, _fixture: PhantomData }
    }
}

impl Script {
    pub(crate) fn new(failures: u32, gated: bool) -> Arc<Self> {
        let gate = gated.then(|| Gate { entered: Semaphore::new(0), open: Semaphore::new(0) });
        Arc::new(Script {
            failures: Mutex::new(failures),
            snoozes: Mutex::new(0),
            gate,
            runs: Mutex::default(),
            bodies: Mutex::default(),
        })
    }

    /// So many runs are snoozed.
    pub(crate) fn snoozing(snoozes: u32) -> Arc<Self> {
        let script = Script::new(0, false);
        *script.snoozes.lock().unwrap() = snoozes;
        script
    }

    /// Until a run waits at the gate.
    pub(crate) async fn entered(&self) {
        let gate = self.gate.as_ref().expect("a gate");
        in_time("a run begins", gate.entered.acquire()).await.expect("open").forget();
    }

    /// Lets so many runs go on.
    pub(crate) fn open(&self, runs: usize) {
        self.gate.as_ref().expect("a gate").open.add_permits(runs);
    }

    pub(crate) fn runs(&self) -> Vec<(String, u32)> {
        self.runs.lock().unwrap().clone()
    }
}

impl<F: Fixture> Action<F::Store> for Work<F> {
    type Message = Value;

    async fn handle(&self, cx: &mut Context<F::Store>, body: Value) -> Result<Outcome> {
        let message = cx.message()?.clone();
        // Where one transaction at a time writes, who waits at the gate with it would hold up everybody.
        let later = self.script.gate.is_some() && !F::LOCKS;
        if !later {
            effect::<F>(cx.tx().await?, &message).await?;
        }
        self.script.runs.lock().unwrap().push((message.id().to_string(), cx.attempt()));
        self.script.bodies.lock().unwrap().push(body);
        if let Some(gate) = &self.script.gate {
            gate.entered.add_permits(1);
            gate.open.acquire().await?.forget();
        }
        if later {
            effect::<F>(cx.tx().await?, &message).await?;
        }
        if one_of(&self.script.failures) {
            return Err("told to fail".into());
        }
        Ok(if one_of(&self.script.snoozes) { Outcome::snooze(Duration::ZERO) } else { Outcome::Done })
    }
}

/// Takes one, if one is left.
fn one_of(left: &Mutex<u32>) -> bool {
    let mut left = left.lock().unwrap();
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}
