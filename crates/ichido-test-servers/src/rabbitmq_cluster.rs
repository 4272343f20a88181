//! Three RabbitMQ nodes that are one broker, each of them a private one as in
//! `rabbitmq`, which can be killed, started again, frozen and cut off from the
//! others.
//!
//! Erlang without its port mapper looks for every node at one and the same
//! port. So each node has an address of its own: the machine's loopback network
//! has sixteen million of them, and each cluster takes three.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::RabbitMq;
use super::processes::look_again;
use super::rabbitmq::{Place, cookie};

/// Nobody else has the address, so every cluster can have the same.
const CONTROL: u16 = 25_672;
const MANAGEMENT: u16 = 15_672;

/// Who is cut off from most of the others serves nobody: that is what keeps
/// mirrored queues from having two histories.
const SETTINGS: [(&str, &str); 1] = [("cluster_partition_handling", "pause_minority")];

/// So many nodes run, and this is one of them.
const STATE: &str = "{length(rabbit_nodes:all_running()), rabbit_boot_state:get()}";

const LIMIT: Duration = Duration::from_mins(5);

/// A cluster of this test process.
#[derive(Debug)]
pub struct RabbitMqCluster {
    nodes: [RabbitMq; 3],
}

impl RabbitMqCluster {
    /// Starts three nodes with the management API, which are a cluster.
    ///
    /// # Panics
    ///
    /// If RabbitMQ is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        let [.., second, third] = Uuid::now_v7().into_bytes();
        let cookie = cookie();
        let place = |number| Place {
            address: Ipv4Addr::new(127, second.max(1), third, number),
            cookie: cookie.clone(),
            control: Some(CONTROL),
            management: Some(MANAGEMENT),
        };
        let first = RabbitMq::start_at(place(1), &SETTINGS);
        let name = first.name();
        let settings = [
            ("cluster_formation.peer_discovery_backend", "classic_config"),
            ("cluster_formation.classic_config.nodes.1", name.as_str()),
        ];
        let settings = [&SETTINGS[..], &settings].concat();
        let join = |number| RabbitMq::start_at(place(number), &settings);
        let (second, third) = thread::scope(|scope| {
            let second = scope.spawn(|| join(2));
            let third = join(3);
            (second.join().expect("a second node"), third)
        });
        let cluster = Self { nodes: [first, second, third] };
        cluster.is_whole();
        cluster
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[RabbitMq; 3] {
        &self.nodes
    }

    /// Creates an empty vhost and returns its URLs, one for each node.
    ///
    /// # Panics
    ///
    /// If the first node refuses.
    #[must_use]
    pub fn fresh_vhost(&self) -> Vec<String> {
        let url = self.nodes[0].fresh_vhost();
        let (_, vhost) = url.rsplit_once('/').expect("a vhost");
        self.nodes.iter().map(|node| node.url(vhost)).collect()
    }

    /// Cuts a node off from the others: neither reaches the other, and their clients reach both.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn cut_off(&self, number: usize) {
        // From all of them in one go: a node that has lost another which a third one still sees pauses until all three are one again.
        let node = &self.nodes[number];
        let others = self.nodes.iter().map(RabbitMq::name).filter(|other| *other != node.name());
        let others = others.map(|other| format!("'{other}'")).collect::<Vec<_>>().join(", ");
        node.eval(&format!(
            "[erlang:set_cookie(Other, cut) || Other <- [{others}]], [erlang:disconnect_node(Other) || Other <- [{others}]]"
        ));
    }

    /// Lets a node stand still, with its connections open, and the others give it up. They would after a minute of silence; a shorter one
    /// would part nodes of a busy machine that are only slow. After that the node can only be killed.
    ///
    /// # Panics
    ///
    /// If a node is not running.
    pub fn freeze(&self, number: usize) {
        let (node, name) = (&self.nodes[number], self.nodes[number].name());
        node.freeze();
        for other in self.nodes.iter().filter(|other| other.name() != name) {
            other.eval(&format!("erlang:disconnect_node('{name}')"));
        }
    }

    /// Ends what `cut_off` has begun, and returns when all nodes are one cluster again.
    ///
    /// # Panics
    ///
    /// If they do not find each other.
    pub fn join(&self, number: usize) {
        let cookie = self.nodes[number].cookie();
        self.others(number, |other| {
            format!("erlang:set_cookie('{other}', '{cookie}'), net_kernel:connect_node('{other}')")
        });
        self.is_whole();
    }

    /// Returns when all nodes run and know of each other.
    ///
    /// # Panics
    ///
    /// If that takes too long.
    pub fn is_whole(&self) {
        self.nodes.iter().for_each(|node| counts(node, 3));
    }

    /// Returns when the others know that this node is away.
    ///
    /// # Panics
    ///
    /// If that takes too long.
    pub fn is_without(&self, number: usize) {
        let away = self.nodes[number].name();
        self.nodes.iter().filter(|node| node.name() != away).for_each(|node| counts(node, 2));
    }

    fn others(&self, number: usize, erlang: impl Fn(&str) -> String) {
        let node = &self.nodes[number];
        for other in self.nodes.iter().filter(|other| other.name() != node.name()) {
            node.eval(&erlang(&other.name()));
        }
    }
}

/// Waits until a node counts so many nodes that run.
fn counts(node: &RabbitMq, running: u32) {
    let began = Instant::now();
    let expected = format!("{{ok, {{{running}, ready}}}}");
    // One that begins anew may not be able to say.
    while node.ask(STATE).as_ref() != Ok(&expected) {
        let state = || format!("{:?}\n{}", node.ask(STATE), node.last_words());
        assert!(began.elapsed() < LIMIT, "{} does not count {running} nodes: {}", node.name(), state());
        look_again();
    }
}
