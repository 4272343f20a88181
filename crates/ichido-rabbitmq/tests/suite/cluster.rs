//! A cluster of three nodes: whatever happens to one of them, publisher and source go on, and nothing that was confirmed is lost.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use ichido::{
    CancellationToken,
    broker::{Broker as _, Settlement, Source as _},
};
use ichido_rabbitmq::{Kind, Management, PublisherSettings, RabbitMq, Server, Topology};
use ichido_test_servers::RabbitMqCluster;
use ichido_testkit::{eventually, size};
use tokio::task::{JoinSet, block_in_place};

use crate::bench::outgoing;

/// A queue that is published to and received from all the time.
struct Traffic {
    queue: RabbitMq,
    kind: Kind,
    /// So many messages are confirmed: those with smaller numbers.
    confirmed: Arc<AtomicU32>,
    seen: Arc<Mutex<HashSet<u32>>>,
    enough: CancellationToken,
    tasks: JoinSet<()>,
}

impl Traffic {
    async fn start(cluster: &RabbitMqCluster, kind: Kind, first: usize) -> Self {
        let mut urls = cluster.fresh_vhost();
        urls.rotate_left(first);
        let broker = Server::new(urls.iter().map(|url| format!("{url}?heartbeat=2"))).expect("URLs");
        let mut topology = Topology::new("orders");
        topology.kind = kind;
        let management = Management::new(&cluster.nodes()[first].management_url(), &broker).expect("a URL");
        let queue = RabbitMq::new(broker, topology, PublisherSettings::default()).managed(management);
        queue.declare().await.expect("declared");
        let (confirmed, seen, enough) = (Arc::default(), Arc::default(), CancellationToken::new());
        let mut traffic = Self { queue, kind, confirmed, seen, enough, tasks: JoinSet::new() };
        traffic.publish();
        traffic.receive();
        traffic
    }

    /// Each message until it is confirmed, as the relay does.
    fn publish(&mut self) {
        let (queue, confirmed, enough) = (self.queue.clone(), Arc::clone(&self.confirmed), self.enough.clone());
        self.tasks.spawn(async move {
            while !enough.is_cancelled() {
                let next = outgoing(&confirmed.load(Ordering::Relaxed).to_string());
                while queue.publish(std::slice::from_ref(&next)).await.pop().expect("a fate").is_err() {}
                confirmed.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    fn receive(&mut self) {
        let (source, seen) = (self.queue.receive(10), Arc::clone(&self.seen));
        self.tasks.spawn(async move {
            loop {
                source.changed().await;
                while let Some(received) = source.try_next() {
                    let number = str::from_utf8(&received.payload).expect("text").parse().expect("a number");
                    seen.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
                    source.settle(received.tag, Settlement::Ack).await.expect("an ack is never refused");
                }
            }
        });
    }

    /// Waits until messages that are published from now on are received.
    async fn goes_on(&self, event: &str) {
        let from = self.confirmed.load(Ordering::Relaxed) + 1;
        let look = async || {
            let (confirmed, trouble) = (self.confirmed.load(Ordering::Relaxed), self.queue.trouble());
            if self.has_seen(from) { Ok(()) } else { Err(format!("{confirmed} of {from} confirmed; {trouble:?}")) }
        };
        eventually(format!("{:?} goes on: {event}", self.kind), look).await;
    }

    fn has_seen(&self, number: u32) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(&number)
    }

    /// Everything that was confirmed is received, and nothing else is left.
    async fn ends_whole(mut self) {
        self.enough.cancel();
        self.tasks.join_next().await.expect("the publisher").expect("no panic");
        let confirmed = self.confirmed.load(Ordering::Relaxed);
        let missing = || (0..confirmed).filter(|number| !self.has_seen(*number)).collect::<Vec<_>>();
        let look = async || {
            let missing = missing();
            if missing.is_empty() { Ok(()) } else { Err(format!("lost of {confirmed}: {missing:?}")) }
        };
        eventually(format!("{:?}: all that was confirmed is received", self.kind), look).await;
        let depths = self.queue.depths().await.expect("three queues");
        assert_eq!((depths.queue, depths.busy, depths.dead), (0, 0, 0), "{:?}", self.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_one_node_of_three_the_others_go_on_and_nothing_is_lost() {
    let cluster = block_in_place(RabbitMqCluster::start);
    let traffics = [Traffic::start(&cluster, Kind::Quorum, 0).await, Traffic::start(&cluster, Kind::Mirrored, 1).await];
    let go_on = async |event: &str| {
        for traffic in &traffics {
            traffic.goes_on(event).await;
        }
    };
    go_on("begun").await;
    for round in 0..size(1, 3) as usize {
        for number in [0, 1] {
            let node = &cluster.nodes()[number];
            node.kill();
            go_on("one killed").await;
            block_in_place(|| {
                node.start_again();
                cluster.is_whole();
            });
            go_on("one is back").await;
        }
        // RabbitMQ itself sends again after ten seconds what was on its way to a leader that is cut off.
        cluster.cut_off(2);
        go_on("one cut off").await;
        block_in_place(|| cluster.is_without(2));
        block_in_place(|| cluster.join(2));
        go_on("joined").await;
        if size(0, 1) == 1 {
            let node = &cluster.nodes()[round];
            block_in_place(|| cluster.freeze(round));
            go_on("one frozen").await;
            block_in_place(|| {
                node.kill();
                node.start_again();
                cluster.is_whole();
            });
            go_on("it is back").await;
        }
    }
    for traffic in traffics {
        traffic.ends_whole().await;
    }
}
