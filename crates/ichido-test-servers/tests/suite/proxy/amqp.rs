//! The proxy in front of RabbitMQ: each step of a message is cut on either side,
//! and the queue shows what has arrived.

use std::future::poll_fn;
use std::pin::pin;

use futures_core::Stream as _;
use ichido_test_servers::RabbitMq;
use ichido_test_servers::proxy::{Cut, Proxy, Silence, Whom};
use ichido_testkit::eventually;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Result};
use tokio::sync::mpsc;

/// How often each fault is tried.
const TIMES: u32 = 20;

/// More than fits into one frame.
const LARGE: usize = 300_000;

struct Bench {
    proxy: Proxy,
    url: String,
    observer: Channel,
}

impl Bench {
    async fn new() -> Self {
        let (node, proxy) = (RabbitMq::shared(), Proxy::start_amqp(RabbitMq::shared().address()));
        let vhost = node.fresh_vhost();
        let observer = connect(&vhost).await.expect("an observer");
        Self { url: proxy.url(&vhost), proxy, observer }
    }

    async fn ready(&self) -> u32 {
        declare(&self.observer).await.expect("a queue")
    }

    /// Waits until so many are in the queue and with nobody.
    async fn settles_at(&self, ready: u32) {
        let look = async || match self.ready().await {
            seen if seen == ready => Ok(()),
            seen => Err(seen),
        };
        eventually(format!("{ready} are in the queue"), look).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_cut_before_publish_does_not_arrive_and_otherwise_it_does() {
    for (cut, arrives) in [(Cut::BeforePublish, 0), (Cut::AfterPublish, 1), (Cut::BeforeConfirm, 1)] {
        let bench = Bench::new().await;
        bench.proxy.cut(cut, 1, TIMES);
        for round in 1..=TIMES {
            send(&bench.url).await.expect_err("cut");
            bench.settles_at(arrives * round).await;
        }
        bench.proxy.all_cut().await;
        assert_eq!(bench.proxy.cuts(), TIMES, "{cut:?}");
        send(&bench.url).await.expect("no more cuts");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_confirm_the_client_has_heard_it_and_then_nothing() {
    let bench = Bench::new().await;
    bench.proxy.cut(Cut::AfterConfirm, 1, TIMES);
    for round in 1..=TIMES {
        let channel = connect(&bench.url).await.expect("a client");
        publish(&channel).await.expect("confirmed");
        publish(&channel).await.expect_err("cut");
        bench.settles_at(round).await;
    }
    bench.proxy.all_cut().await;
    assert_eq!(bench.proxy.cuts(), TIMES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_reaches_the_client_whole_or_not_at_all() {
    for (cut, reaches) in [(Cut::BeforeDeliver, false), (Cut::AfterDeliver, true)] {
        let bench = Bench::new().await;
        send(&bench.url).await.expect("sent");
        bench.proxy.cut(cut, 1, TIMES);
        for _ in 0..TIMES {
            let mut deliveries = consume(&bench.url).await;
            let got = deliveries.recv().await;
            assert_eq!(got.map(|delivery| delivery.data.len()), reaches.then_some(LARGE), "{cut:?}");
            assert!(deliveries.recv().await.is_none(), "{cut:?}");
            bench.settles_at(1).await;
        }
        bench.proxy.all_cut().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_reaches_the_broker_or_the_message_is_there_again() {
    for (cut, left) in [(Cut::BeforeAck, 1), (Cut::AfterAck, 0)] {
        let bench = Bench::new().await;
        for _ in 0..TIMES {
            send(&bench.url).await.expect("sent");
            bench.proxy.cut(cut, 1, 1);
            let mut deliveries = consume(&bench.url).await;
            let delivery = deliveries.recv().await.expect("a delivery");
            // Whether the client notices is its own business.
            drop(delivery.acker.ack(BasicAckOptions::default()).await);
            assert!(deliveries.recv().await.is_none(), "{cut:?}");
            bench.proxy.all_cut().await;
            bench.settles_at(left).await;
            bench.observer.queue_purge("q".into(), lapin::options::QueuePurgeOptions::default()).await.expect("empty");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_third_is_cut_on_one_connection_too() {
    let bench = Bench::new().await;
    bench.proxy.cut(Cut::BeforePublish, 3, 2);
    for _ in 0..2 {
        let channel = connect(&bench.url).await.expect("a client");
        publish(&channel).await.expect("the first");
        publish(&channel).await.expect("the second");
        publish(&channel).await.expect_err("the third is cut");
    }
    bench.proxy.all_cut().await;
    bench.settles_at(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_broker_has_the_message_or_not_and_the_publisher_learns_nothing() {
    let cases = [(Silence::Answers, "publish", 1), (Silence::Both, "publish", 0), (Silence::Both, "confirm", 1)];
    for (silence, step, arrives) in cases {
        let bench = Bench::new().await;
        let channel = connect(&bench.url).await.expect("a client");
        bench.proxy.silence_at(silence, Whom::Everyone, step, 1);
        let silenced = tokio::spawn(async move { publish(&channel).await });
        bench.proxy.silenced().await;
        bench.settles_at(arrives).await;
        send(&bench.url).await.expect("a new one");
        bench.settles_at(arrives + 1).await;
        assert!(!silenced.is_finished(), "{silence:?} at {step}");
        bench.proxy.sever_all();
        silenced.await.expect("no panic").expect_err("severed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_into_silence_stays_with_its_consumer() {
    for (step, reaches) in [("deliver", false), ("ack", true)] {
        let bench = Bench::new().await;
        send(&bench.url).await.expect("sent");
        bench.proxy.silence_at(Silence::Both, Whom::Speaker, step, 1);
        let mut deliveries = consume(&bench.url).await;
        if reaches {
            let delivery = deliveries.recv().await.expect("a delivery");
            drop(delivery.acker.ack(BasicAckOptions::default()).await);
        }
        bench.proxy.silenced().await;
        assert_eq!(bench.ready().await, 0, "the broker believes in its consumer");
        bench.proxy.sever_all();
        bench.settles_at(1).await;
    }
}

async fn connect(url: &str) -> Result<Channel> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    declare(&channel).await?;
    Ok(channel)
}

async fn declare(channel: &Channel) -> Result<u32> {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    Ok(channel.queue_declare("q".into(), durable, FieldTable::default()).await?.message_count())
}

async fn send(url: &str) -> Result<()> {
    publish(&connect(url).await?).await
}

async fn publish(channel: &Channel) -> Result<()> {
    let payload = vec![b'x'; LARGE];
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("".into(), "q".into(), options, &payload, BasicProperties::default());
    assert!(sent.await?.await?.is_ack());
    Ok(())
}

/// What a consumer gets, until its connection ends.
async fn consume(url: &str) -> mpsc::UnboundedReceiver<Delivery> {
    let channel = connect(url).await.expect("a client");
    channel.basic_qos(1, BasicQosOptions::default()).await.expect("one at a time");
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume("q".into(), "".into(), options, arguments).await;
    let (deliver, deliveries) = mpsc::unbounded_channel();
    // It may be cut before it has heard that it is one.
    if let Ok(mut consumer) = consumer {
        tokio::spawn(async move {
            let _open = channel;
            while let Some(Ok(delivery)) = poll_fn(|cx| pin!(&mut consumer).poll_next(cx)).await {
                drop(deliver.send(delivery));
            }
        });
    }
    deliveries
}
