//! What the tests beside this file share: a vhost of their own with a queue, a publisher and a source, and a look at the queues
//! from outside the code under test.

use std::time::Duration;

use ichido::{Headers, broker::Outgoing};
use ichido_rabbitmq::{Delivery, Envelope, Kind, Publisher, PublisherSettings, Server, State, Subscription, Topology};
use ichido_test_servers::RabbitMq;
use ichido_testkit::{eventually, in_time};

pub(crate) struct Bench {
    pub(crate) node: &'static RabbitMq,
    pub(crate) url: String,
    pub(crate) topology: Topology,
}

impl Bench {
    /// The queue `orders` in a vhost of its own, declared.
    pub(crate) async fn new() -> Self {
        Self::with(RabbitMq::shared(), |_| {}).await
    }

    /// So many messages in the queue, and a source of them.
    pub(crate) async fn holding(messages: u32, prefetch: u16) -> (Self, Subscription) {
        Self::of(Kind::default(), messages, prefetch).await
    }

    /// The same of a queue of this kind.
    pub(crate) async fn of(kind: Kind, messages: u32, prefetch: u16) -> (Self, Subscription) {
        let bench = Self::with(RabbitMq::shared(), |topology| topology.kind = kind).await;
        bench.send(0..messages).await;
        let source = bench.source(prefetch);
        (bench, source)
    }

    pub(crate) async fn with(node: &'static RabbitMq, change: impl FnOnce(&mut Topology)) -> Self {
        let mut topology = Topology::new("orders");
        topology.busy_delay = Duration::from_millis(300);
        change(&mut topology);
        let bench = Self { node, url: node.fresh_vhost(), topology };
        let look = async || match bench.topology.declare(&bench.broker()).await {
            Err(error) if !error.is_transient() => panic!("{error}"),
            declared => declared,
        };
        eventually("the topology is declared", look).await;
        bench
    }

    pub(crate) fn broker(&self) -> Server {
        Server::new([&self.url]).expect("a URL")
    }

    pub(crate) fn publisher(&self) -> Publisher {
        Publisher::new(self.broker(), PublisherSettings::default())
    }

    pub(crate) fn source(&self, prefetch: u16) -> Subscription {
        Subscription::start(self.broker(), self.topology.clone(), prefetch, self.publisher())
    }

    /// Sends messages to the queue, with the numbers as ids and payloads.
    pub(crate) async fn send(&self, numbers: std::ops::Range<u32>) {
        let messages: Vec<Envelope> = numbers.map(|n| order(&n.to_string())).collect();
        for fate in self.publisher().publish(&messages).await {
            fate.expect("confirmed");
        }
    }

    /// How many messages are ready and unacknowledged in a queue, by the node's own word.
    pub(crate) fn depth(&self, queue: &str) -> (u32, u32) {
        depth(self.node, &self.url, queue)
    }

    /// Evaluates Erlang in the node, about the queue `Q`.
    pub(crate) fn eval_queue(&self, queue: &str, erlang: &str) -> String {
        let vhost = self.vhost();
        let found =
            format!(r#"{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>))"#);
        self.node.eval(&format!("{found}, {erlang}"))
    }

    /// Declares a durable queue with these arguments, from outside the code under test.
    pub(crate) fn declare_queue(&self, name: &str, arguments: &str) {
        let queue = format!(r#"rabbit_misc:r(<<"{}">>, queue, <<"{name}">>)"#, self.vhost());
        let declared = format!(r#"rabbit_amqqueue:declare({queue}, true, false, [{arguments}], none, <<"test">>)"#);
        assert_eq!(self.node.eval(&format!("element(1, {declared})")), "new");
    }

    /// What is published to the second exchange with this key goes to the first, too.
    pub(crate) fn bind_exchange(&self, destination: &str, source: &str, key: &str) {
        let exchange = |name| format!(r#"rabbit_misc:r(<<"{}">>, exchange, <<"{name}">>)"#, self.vhost());
        let (source, destination) = (exchange(source), exchange(destination));
        let binding = format!(r#"{{binding, {source}, <<"{key}">>, {destination}, []}}"#);
        assert_eq!(self.node.eval(&format!(r#"rabbit_binding:add({binding}, <<"test">>)"#)), "ok");
    }

    pub(crate) fn vhost(&self) -> &str {
        self.url.rsplit_once('/').expect("a vhost").1
    }

    /// Waits until a queue has so many messages ready and unacknowledged.
    pub(crate) async fn settles_at(&self, queue: &str, ready: u32, unacknowledged: u32) {
        let look = async || match self.depth(queue) {
            depth if depth == (ready, unacknowledged) => Ok(()),
            depth => Err(format!("{depth:?}")),
        };
        eventually(format!("{queue} has {:?}", (ready, unacknowledged)), look).await;
    }

    /// The first message of the dead-letter queue.
    pub(crate) async fn dead_letter(&self) -> Delivery {
        let mut topology = Topology::new(&self.topology.dead_letter_queue);
        topology.declare = false;
        let source = Subscription::start(self.broker(), topology, 1, self.publisher());
        next(&source).await
    }
}

/// What the relay would publish: with its id as payload.
pub(crate) fn outgoing(id: &str) -> Outgoing {
    Outgoing {
        edition: 0,
        id: id.to_owned(),
        origin: "here".into(),
        queue: Some("orders".into()),
        exchange: String::new(),
        routing_key: "orders".to_owned(),
        headers: Headers::new(),
        payload: id.into(),
    }
}

pub(crate) fn order(id: &str) -> Envelope {
    Envelope::of(&outgoing(id)).expect("short names")
}

/// How many messages are ready and unacknowledged in a queue, none if there is no such queue.
pub(crate) fn depth(node: &RabbitMq, url: &str, queue: &str) -> (u32, u32) {
    let counts = number_of(node, url, queue, ichido_test_servers::DEPTH);
    (counts / 1_000_000, counts % 1_000_000)
}

/// What this expression says about a queue `Q`; 0 if there is no such queue.
pub(crate) fn number_of(node: &RabbitMq, url: &str, queue: &str, erlang: &str) -> u32 {
    let vhost = url.rsplit_once('/').expect("a vhost").1;
    let name = format!(r#"rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>)"#);
    let found = format!("case rabbit_amqqueue:lookup({name}) of {{ok, Q}} -> {erlang}; _ -> 0 end");
    node.eval(&found).parse().expect("a number")
}

pub(crate) async fn next(source: &Subscription) -> Delivery {
    let next = async {
        loop {
            if let Some(delivery) = source.try_next() {
                return delivery;
            }
            source.changed().await;
        }
    };
    in_time("a delivery is received", next).await
}

pub(crate) fn text(delivery: &Delivery) -> &str {
    str::from_utf8(delivery.payload()).expect("text")
}

/// Waits until a state is reached.
pub(crate) async fn until(what: &str, state: impl Fn() -> State, wanted: impl Fn(&State) -> bool) {
    let look = async || {
        let state = state();
        if wanted(&state) { Ok(()) } else { Err(format!("{state:?}")) }
    };
    eventually(what, look).await;
}
