//! A test's own world with a broker: a database, a vhost, and the configuration of a queue between them. Several binaries may
//! run in it at a time, through a proxy if the test wants to cut them off; the broker is looked at from outside.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use ichido::{Headers, broker::Outgoing};
use ichido_rabbitmq::{Envelope, Publisher, PublisherSettings, Server};
use ichido_test_servers::{RabbitMq, proxy::Proxy};
use ichido_testkit::eventually;
use tokio::task::block_in_place;

use crate::{
    orders,
    testenv::{Env, Kind, Process},
};

/// The queue's name at the broker, and beside it what ichido declares.
pub(crate) const QUEUE: &str = "shipments";
pub(crate) const DEAD: &str = "shipments.dead";
pub(crate) const BUSY: &str = "shipments.busy.200ms";

/// How many messages are where, in a queue of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) ready: u32,
    pub(crate) unacknowledged: u32,
}

pub(crate) const EMPTY: Depth = Depth { ready: 0, unacknowledged: 0 };

pub(crate) struct World<'a> {
    pub(crate) env: Env,
    pub(crate) node: &'a RabbitMq,
    /// Of the vhost, past any proxy.
    pub(crate) url: String,
}

impl World<'static> {
    /// A vhost of the node that all tests share.
    pub(crate) async fn new(kind: Kind) -> Self {
        World::at(kind, RabbitMq::shared()).await
    }

    /// A vhost of a node that waits half a second for an acknowledgement, and looks eight times a second.
    pub(crate) async fn impatient(kind: Kind) -> Self {
        static IMPATIENT: OnceLock<RabbitMq> = OnceLock::new();
        let start = || {
            let node = RabbitMq::start(&[("consumer_timeout", "500")]);
            node.eval("application:set_env(rabbit, channel_tick_interval, 125)");
            node
        };
        World::at(kind, block_in_place(|| IMPATIENT.get_or_init(start))).await
    }

    /// A vhost of the node with the management API that tests share.
    pub(crate) async fn managed(kind: Kind) -> Self {
        static MANAGED: OnceLock<RabbitMq> = OnceLock::new();
        let node = block_in_place(|| MANAGED.get_or_init(|| RabbitMq::start_managed(&[])));
        World::at(kind, node).await
    }
}

/// A test that fails tells what the node said last, and what the doctor says. The queues of a test that has ended would keep the node busy.
impl Drop for World<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.node.last_words());
            println!("doctor: {:?}", self.env.command(&["doctor", "--json"]).into_std().output());
        }
        self.node.delete_vhost(&self.url);
    }
}

impl<'a> World<'a> {
    /// A vhost of a node that the test may stop and kill.
    pub(crate) async fn at(kind: Kind, node: &'a RabbitMq) -> Self {
        let world = World { env: Env::new(kind).await, node, url: node.fresh_vhost() };
        world.configure(|config| config);
        world
    }

    /// Writes `ichido.toml` anew.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        let keys = format!(r#"url = "{}", queue = "{QUEUE}", busy_delay = "200ms", relay_after = "1s""#, self.url);
        orders::configure(&self.env, &format!("rabbitmq = {{ {keys} }}"), change);
    }

    /// Writes `ichido.toml` anew with more keys of the queue.
    pub(crate) fn configure_queue(&self, keys: &str) {
        self.configure(|config| config.replace("relay_after = \"1s\"", &format!("relay_after = \"1s\", {keys}")));
    }

    /// Makes each message take some milliseconds in its transaction.
    pub(crate) fn slow_down(&self, milliseconds: u32) {
        let slow = self.env.slow(milliseconds);
        self.configure(|config| config.replace("SLOW", &slow));
    }

    /// Runs one message at a time, which does not come to an end.
    pub(crate) fn never_end(&self) {
        let endless = self.env.endless();
        self.configure(|config| config.replace("SLOW", &endless).replace("concurrency = 4", "concurrency = 1"));
    }

    /// Writes `ichido.toml` anew, so that everything goes through a proxy to the broker.
    pub(crate) fn behind_a_proxy(&self) -> Proxy {
        let proxy = Proxy::start_amqp(self.node.address());
        self.env.reconfigure(|config| config.replace(&self.url, &proxy.url(&self.url)));
        proxy
    }

    /// The line of an order.
    pub(crate) fn order(id: u32) -> String {
        orders::order(id)
    }

    /// Sends orders with these ids through the binary, and returns their ids as messages.
    pub(crate) async fn send(&self, ids: impl IntoIterator<Item = u32>) -> Vec<String> {
        orders::send(&self.env, "orders", ids).await
    }

    /// Starts processes that run the action.
    pub(crate) fn start<const N: usize>(&self, names: [&str; N], args: &[&str]) -> [Process; N] {
        orders::start(&self.env, names, args)
    }

    /// Publishes past the code under test, as another program or an operator would.
    pub(crate) async fn publish(&self, messages: &[Envelope]) {
        let broker = Server::new([&self.url]).unwrap();
        for fate in Publisher::new(broker, PublisherSettings::default()).publish(messages).await {
            fate.expect("confirmed");
        }
    }

    /// What the relay has published for an order that was sent.
    pub(crate) async fn copy(&self, message: &str, order: u32) -> Envelope {
        let id = message.strip_prefix("orders/").expect("an id of the queue");
        let origin = self.env.text("select id from ichido_origin").await;
        published(id, origin.into(), order)
    }

    pub(crate) fn vhost(&self) -> &str {
        self.url.rsplit_once('/').unwrap().1
    }

    /// Evaluates Erlang about a queue `Q` of the vhost.
    pub(crate) fn eval(&self, queue: &str, erlang: &str, otherwise: &str) -> String {
        let vhost = self.vhost();
        let name = format!(r#"rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>)"#);
        let found = format!("case rabbit_amqqueue:lookup({name}) of {{ok, Q}} -> {erlang}; _ -> {otherwise} end");
        self.node.eval(&found)
    }

    /// How many connections the vhost has.
    pub(crate) fn connections(&self) -> u32 {
        let vhost = self.vhost();
        self.node.eval(&format!(r#"length(rabbit_connection_tracking:list(<<"{vhost}">>))"#)).parse().expect("a number")
    }

    /// What an operator does by hand; says how many messages are gone.
    pub(crate) fn purge(&self, queue: &str) -> u32 {
        self.eval(queue, "element(2, rabbit_amqqueue:purge(Q))", "no_such_queue").parse().expect("a number")
    }

    pub(crate) fn has_queue(&self, queue: &str) -> bool {
        self.eval(queue, "is_tuple(Q)", "false") == "true"
    }

    /// Waits until the queue has a consumer.
    pub(crate) async fn until_served(&self) {
        self.until_all_served(&[QUEUE]).await;
    }

    /// Waits until each queue has a consumer. Only then is all that belongs to it declared and bound, and a quorum queue that has no
    /// leader yet, though it is there, refuses what is published.
    pub(crate) async fn until_all_served(&self, queues: &[&str]) {
        let consumers = "[{_, C}] = rabbit_amqqueue:info(Q, [consumers]), C";
        for queue in queues {
            eventually(format!("{queue} has a consumer"), async || self.eval(queue, consumers, "0") != "0").await;
        }
    }

    /// How many messages are in a queue.
    pub(crate) fn depth(&self, queue: &str) -> Depth {
        let counts: u64 = self.eval(queue, ichido_test_servers::DEPTH, "0").parse().expect("a number");
        let few = |count: u64| u32::try_from(count).expect("fewer than a million");
        Depth { ready: few(counts / 1_000_000), unacknowledged: few(counts % 1_000_000) }
    }

    /// Waits until a queue has so many messages ready and none out.
    #[track_caller]
    pub(crate) fn settles_at(&self, queue: &str, ready: u32) -> impl Future<Output = ()> {
        self.settles_with(queue, ready, 0)
    }

    /// Waits until a queue has so many messages ready and so many out; only looking tells.
    #[track_caller]
    pub(crate) fn settles_with(&self, queue: &str, ready: u32, unacknowledged: u32) -> impl Future<Output = ()> {
        let wanted = Depth { ready, unacknowledged };
        eventually(format!("{queue} with {wanted:?}"), async move || {
            let depth = self.depth(queue);
            if depth == wanted { Ok(()) } else { Err(format!("{depth:?}")) }
        })
    }

    /// Waits until nothing is on its way any more, also not back from the busy queue. The node counts five times a second, so one
    /// look is not enough.
    pub(crate) async fn comes_to_rest(&self) {
        let mut empty = 0;
        eventually("nothing in the busy queue nor in the queue, three times", async || {
            if empty > 0 {
                // Time itself: longer than the node takes to count again.
                tokio::time::sleep(Duration::from_millis(210)).await;
            }
            let depths = [BUSY, QUEUE].map(|queue| self.depth(queue));
            empty = if depths == [EMPTY; 2] { empty + 1 } else { 0 };
            if empty == 3 { Ok(()) } else { Err(format!("{depths:?}")) }
        })
        .await;
    }

    /// Waits until so many orders have had their effect.
    pub(crate) async fn shipped(&self, orders: u32) {
        orders::shipped(&self.env, orders).await;
    }

    /// Messages that are committed and not with the broker.
    pub(crate) async fn unpublished(&self) -> i64 {
        orders::unpublished(&self.env).await
    }

    /// The ledger rule for orders 1 to `orders`, all sent and committed: nothing lost, nothing double, no ghost; and nothing is
    /// left anywhere.
    pub(crate) async fn assert_exact(&self, orders: u32) {
        orders::assert_exact(&self.env, orders).await;
        // Acknowledgements are on their way.
        for queue in [QUEUE, BUSY, DEAD] {
            self.settles_at(queue, 0).await;
        }
    }
}

/// An order of this origin as the relay publishes it.
pub(crate) fn published(id: &str, origin: Arc<str>, order: u32) -> Envelope {
    let outgoing = Outgoing {
        edition: 0,
        id: id.to_owned(),
        origin,
        queue: Some("orders".into()),
        exchange: String::new(),
        routing_key: QUEUE.to_owned(),
        headers: Headers::new(),
        payload: World::order(order).into_bytes(),
    };
    Envelope::of(&outgoing).expect("short names")
}
