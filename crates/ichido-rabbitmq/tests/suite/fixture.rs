//! What the cases of `ichido-testkit` about brokers need, at a private RabbitMQ: each case has a vhost of its own.

use std::time::Duration;

use ichido_rabbitmq::{PublisherSettings, RabbitMq, Server, Topology};
use ichido_test_servers::{
    Host, RabbitMq as Node,
    proxy::{self, Proxy},
};
use ichido_testkit::{
    fixture::{BrokerFixture, Cut, ExchangeFixture, Line, Part},
    in_time,
};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeleteOptions},
};
use tokio::task::block_in_place;

use crate::bench;

/// A vhost.
pub(crate) struct AtRabbitMq {
    node: Host<Node>,
    url: String,
}

impl Drop for AtRabbitMq {
    fn drop(&mut self) {
        if let Host::Shared(node) = self.node {
            node.delete_vhost(&self.url);
        }
    }
}

impl AtRabbitMq {
    fn on(node: Host<Node>) -> Self {
        let url = block_in_place(|| node.fresh_vhost());
        AtRabbitMq { node, url }
    }

    /// A channel of a program that knows nothing of ichido.
    async fn channel(&self) -> Channel {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await.expect("connected");
        connection.create_channel().await.expect("a channel")
    }
}

/// A queue with a short busy delay, at this URL.
fn queue(url: &str, name: &str, change: impl FnOnce(&mut Topology)) -> RabbitMq {
    let mut topology = Topology::new(name);
    topology.busy_delay = Duration::from_millis(300);
    change(&mut topology);
    let mut settings = PublisherSettings::default();
    settings.publish_deadline = Duration::from_secs(10);
    RabbitMq::new(Server::new([url]).expect("a URL"), topology, settings)
}

/// A broker may have no time for it now, and is asked again.
async fn declare(queue: &RabbitMq) {
    // An `async` block, for a closure's future is not known to be `Send`.
    let declared = async {
        while let Err(error) = queue.declare().await {
            assert!(error.is_transient(), "the topology cannot be declared: {error}");
        }
    };
    in_time("the topology is declared", declared).await;
}

fn name(queue: &str, part: Part) -> String {
    let topology = Topology::new(queue);
    match part {
        Part::Queue => queue.to_owned(),
        Part::Busy => topology.busy_queue,
        Part::Dead => topology.dead_letter_queue,
    }
}

impl BrokerFixture for AtRabbitMq {
    type Broker = RabbitMq;
    type Line = Proxied;

    async fn fresh() -> Self {
        AtRabbitMq::on(Host::Shared(block_in_place(Node::shared)))
    }

    async fn alone() -> Self {
        AtRabbitMq::on(Host::Own(Box::new(block_in_place(|| Node::start(&[])))))
    }

    fn queue(&self, name: &str) -> RabbitMq {
        queue(&self.url, name, |_| {})
    }

    fn line(&self) -> Proxied {
        let proxy = Proxy::start_amqp(self.node.address());
        Proxied { url: proxy.url(&self.url), proxy }
    }

    async fn declare(&self, name: &str) {
        declare(&self.queue(name)).await;
    }

    async fn delete(&self, queue: &str, part: Part) {
        let channel = self.channel().await;
        channel.queue_delete(name(queue, part).into(), QueueDeleteOptions::default()).await.expect("deleted");
    }

    async fn publish_foreign(&self, queue: &str, messages: &[(Option<&str>, &str)]) {
        self.publish_to("", queue, messages).await;
    }

    async fn depth(&self, queue: &str, part: Part) -> (u32, u32) {
        block_in_place(|| bench::depth(&self.node, &self.url, &name(queue, part)))
    }

    async fn dead_letters(&self, queue: &str) -> Vec<(String, bool)> {
        let mut reading = self.queue(queue).dead_letters().await.expect("a reading");
        let mut found = Vec::new();
        while let Some(letter) = reading.next().await.expect("a dead letter") {
            found.push((String::from_utf8_lossy(letter.payload()).into_owned(), letter.row().is_some()));
        }
        reading.close().await.expect("released");
        found
    }

    async fn crash(&self) {
        block_in_place(|| self.node.kill());
    }

    async fn start_again(&self) {
        block_in_place(|| self.node.start_again());
    }
}

impl ExchangeFixture for AtRabbitMq {
    async fn bound(&self, name: &str, exchange: &str, key: &str) -> RabbitMq {
        let bound = queue(&self.url, name, |topology| topology.bindings = vec![(exchange.into(), key.into())]);
        declare(&bound).await;
        bound
    }

    fn narrow(&self, name: &str, most: u32) -> RabbitMq {
        queue(&self.url, name, |topology| topology.max_length = Some(most))
    }

    async fn publish_to(&self, exchange: &str, key: &str, messages: &[(Option<&str>, &str)]) {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        for (id, payload) in messages {
            let mut properties = BasicProperties::default().with_app_id("shop".into()).with_delivery_mode(2);
            if let Some(id) = id {
                properties = properties.with_message_id((*id).into());
            }
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish(exchange.into(), key.into(), options, payload.as_bytes(), properties);
            let answer = sent.await.expect("sent").await.expect("an answer");
            assert!(answer.is_ack(), "{answer:?}\n{}", self.node.last_words());
        }
    }

    async fn receivers(&self, queue: &str) -> u32 {
        block_in_place(|| {
            bench::number_of(&self.node, &self.url, queue, "[{_, C}] = rabbit_amqqueue:info(Q, [consumers]), C")
        })
    }

    async fn block(&self, blocked: bool) {
        block_in_place(|| self.node.memory_alarm(blocked));
    }
}

/// A proxy that can cut at the steps of AMQP.
pub(crate) struct Proxied {
    proxy: Proxy,
    url: String,
}

impl Line for Proxied {
    type Broker = RabbitMq;

    fn queue(&self, name: &str) -> RabbitMq {
        queue(&self.url, name, |_| {})
    }

    fn cut(&self, at: Cut, every: u32, times: u32) {
        let at = match at {
            Cut::BeforePublish => proxy::Cut::BeforePublish,
            Cut::AfterPublish => proxy::Cut::AfterPublish,
            Cut::BeforeConfirm => proxy::Cut::BeforeConfirm,
            Cut::AfterConfirm => proxy::Cut::AfterConfirm,
            Cut::BeforeDeliver => proxy::Cut::BeforeDeliver,
            Cut::AfterDeliver => proxy::Cut::AfterDeliver,
            Cut::BeforeAck => proxy::Cut::BeforeAck,
            Cut::AfterAck => proxy::Cut::AfterAck,
        };
        self.proxy.cut(at, every, times);
    }

    fn cuts(&self) -> u32 {
        self.proxy.cuts()
    }

    fn sever(&self) {
        self.proxy.sever_all();
    }

    fn close(&self) {
        self.proxy.refuse(true);
        self.proxy.sever_all();
    }
}
