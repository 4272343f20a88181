//! A broker that says nothing, or refuses channels: whoever waits for it is told in time, and asks again at a pace.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::broker::Unpublished;
use ichido_rabbitmq::{Publisher, PublisherSettings, Server, Settled, State, Subscription};
use ichido_test_servers::proxy::{Proxy, Silence};
use ichido_testkit::in_time;
use tokio::net::{TcpListener, TcpStream};

use crate::bench::{Bench, next, order, until};

fn within(seconds: u64) -> PublisherSettings {
    let mut settings = PublisherSettings::default();
    settings.publish_deadline = Duration::from_secs(seconds);
    settings
}

async fn publish(publisher: &Publisher, id: &str) -> Result<(), Unpublished> {
    publisher.publish(&[order(id)]).await.pop().expect("a fate")
}

/// The heartbeat is so slow that it does not help.
#[tokio::test]
async fn a_publisher_whose_connection_falls_silent_makes_another() {
    for silence in [Silence::Answers, Silence::Both] {
        let bench = Bench::new().await;
        let proxy = Proxy::start_amqp(bench.node.address());
        let broker = Server::new([format!("{}?heartbeat=60", proxy.url(&bench.url))]).expect("a URL");
        let publisher = Publisher::new(broker, within(2));
        while publish(&publisher, "1").await.is_err() {}
        proxy.silence(silence);
        let fate = publish(&publisher, "2").await;
        assert!(matches!(fate, Err(Unpublished::Unknown(_))), "{silence:?}: {fate:?}");
        let mut tries = 1;
        while publish(&publisher, "3").await.is_err() {
            tries += 1;
        }
        assert!(tries < 15, "{silence:?}: {tries} calls of two seconds over a dead connection");
    }
}

#[tokio::test]
async fn a_source_that_hears_nothing_connects_again_and_settles() {
    for silence in [Silence::Answers, Silence::Both] {
        let bench = Bench::new().await;
        bench.send(0..1).await;
        let proxy = Proxy::start_amqp(bench.node.address());
        let broker = Server::new([format!("{}?heartbeat=1", proxy.url(&bench.url))]).expect("a URL");
        let source = Subscription::start(broker, bench.topology.clone(), 1, bench.publisher());
        let held = next(&source).await;
        proxy.silence(silence);
        until("lost", || source.state(), |state| matches!(state, State::Away(_))).await;
        assert_eq!(source.ack(&held).await, Settled::Gone, "{silence:?}");
        // The broker hands it out again when it, too, has heard nothing for long enough.
        let again = next(&source).await;
        assert!(again.is_redelivered(), "{silence:?}");
        assert_eq!(source.ack(&again).await, Settled::Told, "{silence:?}");
        bench.settles_at("orders", 0, 0).await;
    }
}

#[tokio::test]
async fn whoever_closes_or_asks_a_silent_broker_is_told() {
    let bench = Bench::new().await;
    bench.send(0..5).await;
    let proxy = Proxy::start_amqp(bench.node.address());
    let broker = Server::new([proxy.url(&bench.url)]).expect("a URL");
    let source = Subscription::start(broker.clone(), bench.topology.clone(), 5, bench.publisher());
    let held = next(&source).await;
    proxy.hold();
    let closed = in_time("the source is closed", source.close());
    let declared = in_time("the topology is not declared", bench.topology.declare(&broker));
    let counted = in_time("the queue is not counted", bench.topology.depths(&broker));
    let ((), declared, counted) = tokio::join!(closed, declared, counted);
    for error in [declared.expect_err("silent"), counted.map(drop).expect_err("silent")] {
        assert!(error.is_transient(), "{error}");
    }
    in_time("it is settled or not", source.ack(&held)).await;
    drop(source);
    proxy.sever_all();
    bench.settles_at("orders", 5, 0).await;
}

/// Forwards, and counts connections.
async fn counting(upstream: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, count) = (listener.local_addr().expect("a port"), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut broker = TcpStream::connect(upstream).await?;
                tokio::io::copy_bidirectional(&mut client, &mut broker).await
            });
        }
    });
    (address, count)
}

#[tokio::test]
async fn a_publisher_whose_channels_are_refused_waits_longer_each_time_and_says_why() {
    let bench = Bench::new().await;
    let (user, internal) = (format!("limited-{}", bench.vhost()), "rabbit_auth_backend_internal");
    bench.node.eval(&format!(
        r#"{internal}:add_user(<<"{user}">>, <<"secret">>, <<"test">>),
           {internal}:set_permissions(<<"{user}">>, <<"{}">>, <<".*">>, <<".*">>, <<".*">>, <<"test">>),
           {internal}:set_user_limits(<<"{user}">>, #{{<<"max-channels">> => 0}}, <<"test">>)"#,
        bench.vhost()
    ));
    let (address, connections) = counting(bench.node.address()).await;
    let broker = Server::new([format!("amqp://{user}:secret@{address}/{}", bench.vhost())]).expect("a URL");
    let publisher = Publisher::new(broker, within(4));
    match publish(&publisher, "1").await {
        Err(Unpublished::Unsent(why)) => assert!(why.contains("cannot open a channel"), "{why}"),
        other => panic!("{other:?}"),
    }
    let tried = connections.load(Ordering::SeqCst);
    assert!((1..=12).contains(&tried), "{tried} connections in four seconds");
    bench.node.eval(&format!(r#"{internal}:clear_user_limits(<<"{user}">>, <<"max-channels">>, <<"test">>)"#));
    while publish(&publisher, "2").await.is_err() {}
    bench.settles_at("orders", 1, 0).await;
}
