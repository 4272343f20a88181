//! What the tests beside this file share: a vhost of their own with a queue, a publisher and a source, and a look at the queues
//! from outside the code under test.

use std::time::Duration;

use ichido::{Headers, Outgoing};
use ichido_rabbitmq::{Broker, Delivery, Envelope, Publisher, PublisherSettings, Source, State, Topology};
use ichido_test_servers::RabbitMq;
use tokio::time::timeout;

/// Nothing that works takes so long, however busy the machine is.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

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

    pub(crate) async fn with(node: &'static RabbitMq, change: impl FnOnce(&mut Topology)) -> Self {
        let mut topology = Topology::new("orders");
        topology.busy_delay = Duration::from_millis(300);
        change(&mut topology);
        let bench = Self { node, url: node.fresh_vhost(), topology };
        let declared = async {
            while let Err(error) = bench.topology.declare(&bench.broker()).await {
                assert!(error.is_transient(), "{error}");
            }
        };
        timeout(LIMIT, declared).await.expect("a topology");
        bench
    }

    pub(crate) fn broker(&self) -> Broker {
        Broker::new([&self.url]).expect("a URL")
    }

    pub(crate) fn publisher(&self) -> Publisher {
        Publisher::new(self.broker(), PublisherSettings::default())
    }

    pub(crate) fn source(&self, prefetch: u16) -> Source {
        Source::start(self.broker(), self.topology.clone(), prefetch, self.publisher())
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
        let counts = self.eval_queue(
            queue,
            "[{_, R}, {_, U}] = rabbit_amqqueue:info(Q, [messages_ready, messages_unacknowledged]), R * 1000000 + U",
        );
        let counts: u32 = counts.parse().expect("a number");
        (counts / 1_000_000, counts % 1_000_000)
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

    /// Waits until a queue has so many messages ready and unacknowledged; only looking tells.
    pub(crate) async fn settles_at(&self, queue: &str, ready: u32, unacknowledged: u32) {
        let look = async {
            while self.depth(queue) != (ready, unacknowledged) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let found = timeout(LIMIT, look).await;
        assert!(found.is_ok(), "{queue} has {:?}, not {:?}", self.depth(queue), (ready, unacknowledged));
    }

    /// The first message of the dead-letter queue.
    pub(crate) async fn dead_letter(&self) -> Delivery {
        let mut topology = Topology::new(&self.topology.dead_letter_queue);
        topology.declare = false;
        let source = Source::start(self.broker(), topology, 1, self.publisher());
        next(&source).await
    }
}

/// What the relay would publish: with its id as payload.
pub(crate) fn outgoing(id: &str) -> Outgoing {
    Outgoing {
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

pub(crate) async fn next(source: &Source) -> Delivery {
    let found = timeout(LIMIT, async {
        loop {
            if let Some(delivery) = source.try_next() {
                return delivery;
            }
            source.changed().await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("no delivery; the source is {:?}", source.state()))
}

pub(crate) fn text(delivery: &Delivery) -> &str {
    str::from_utf8(delivery.payload()).expect("text")
}

/// Waits until a state is reached; only looking tells.
pub(crate) async fn until(what: &str, state: impl Fn() -> State, wanted: impl Fn(&State) -> bool) {
    let look = async {
        while !wanted(&state()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(LIMIT, look).await.is_ok(), "{what}: {:?}", state());
}
