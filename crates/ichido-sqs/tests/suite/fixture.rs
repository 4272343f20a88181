//! What the cases of `ichido-testkit` about brokers need, at a private SQS of either maker: each case has an account or a region of its own, so that
//! its queues have the names that it wants.

use std::{
    marker::PhantomData,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use aws_sdk_sqs::{
    Client,
    types::{MessageAttributeValue, QueueAttributeName as Name},
};
use ichido_sqs::{APP_ID, MESSAGE_ID, Server, Settings, Sqs, Topology};
use ichido_test_servers::{Host, SQS_REGION, Sqs as Node};
use ichido_testkit::{
    fixture::{BrokerFixture, Cut, Line, Part},
    in_time,
};
use tokio::{sync::OnceCell, task::block_in_place};

use crate::{cutter::Cutter, plain};

/// How long a delivery that nobody renews is out of sight.
pub(crate) const VISIBILITY: Duration = Duration::from_secs(6);

/// Whose server it is, and what gives a case queues of its own there.
pub(crate) trait Maker: Send + Sync + 'static {
    fn shared() -> &'static Node;
    fn start() -> Node;
    fn region(account: &str) -> String;
}

pub(crate) struct LocalStack;

impl Maker for LocalStack {
    /// One of two, in turns: Python answers one request at a time, and several tests would wait for it.
    fn shared() -> &'static Node {
        static OTHER: OnceLock<Node> = OnceLock::new();
        static TURN: AtomicBool = AtomicBool::new(false);
        if TURN.fetch_xor(true, Ordering::Relaxed) { OTHER.get_or_init(Node::start) } else { Node::shared() }
    }

    fn start() -> Node {
        Node::start()
    }

    /// It takes a key of twelve digits for the account itself.
    fn region(_: &str) -> String {
        SQS_REGION.to_owned()
    }
}

pub(crate) struct Moto;

impl Maker for Moto {
    fn shared() -> &'static Node {
        Node::shared_moto()
    }

    fn start() -> Node {
        Node::start_moto()
    }

    /// It has one account for all keys.
    fn region(account: &str) -> String {
        format!("r-{account}")
    }
}

/// At LocalStack's, which all tests of this crate use.
pub(crate) type AtSqs = At<LocalStack>;

/// At moto's.
pub(crate) type AtMoto = At<Moto>;

/// An account.
pub(crate) struct At<M> {
    node: Host<Node>,
    account: String,
    region: String,
    outside: OnceCell<Client>,
    maker: PhantomData<M>,
}

impl<M: Maker> At<M> {
    fn on(node: Host<Node>) -> Self {
        let account = format!("{:012}", uuid::Uuid::now_v7().as_u128() % 1_000_000_000_000);
        At { node, region: M::region(&account), account, outside: OnceCell::new(), maker: PhantomData }
    }

    pub(crate) fn server(&self, endpoint: &str) -> Server {
        Server::as_user(Some(&self.region), Some(endpoint), (&self.account, "secret"))
    }

    /// A queue, with other settings than those of the cases.
    pub(crate) fn queue_with(&self, name: &str, change: impl FnOnce(&mut Settings)) -> Sqs {
        let mut settings = settings();
        change(&mut settings);
        Sqs::new(self.server(&self.node.endpoint()), Topology::new(name), settings)
    }

    /// A program that knows nothing of ichido.
    pub(crate) async fn client(&self) -> &Client {
        self.outside.get_or_init(async || connected(&self.account, &self.region, self.node.endpoint())).await
    }

    pub(crate) async fn url(&self, queue: &str) -> Option<String> {
        let found = self.client().await.get_queue_url().queue_name(queue).send().await;
        found.ok().and_then(|found| found.queue_url)
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }
}

fn connected(account: &str, region: &str, endpoint: String) -> Client {
    let config = aws_sdk_sqs::config::Builder::new()
        .behavior_version(aws_config::BehaviorVersion::latest())
        .http_client(plain::client())
        .region(aws_config::Region::new(region.to_owned()))
        .credentials_provider(aws_sdk_sqs::config::Credentials::new(account, "secret", None, None, "test"))
        .endpoint_url(endpoint);
    Client::from_conf(config.build())
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.visibility = VISIBILITY;
    settings.wait = Duration::from_secs(2);
    settings.busy_delay = Duration::from_secs(1);
    settings.publish_deadline = Duration::from_secs(10);
    settings.stale = Duration::ZERO;
    settings
}

fn name(queue: &str, part: Part) -> String {
    if part == Part::Dead { Topology::new(queue).dead_letter } else { queue.to_owned() }
}

impl<M: Maker> BrokerFixture for At<M> {
    type Broker = Sqs;
    type Line = Proxied;

    const BY_CONNECTION: bool = false;
    const ORDERED: bool = false;
    const NAMES: bool = true;

    async fn fresh() -> Self {
        At::on(Host::Shared(block_in_place(M::shared)))
    }

    async fn alone() -> Self {
        At::on(Host::Own(Box::new(block_in_place(M::start))))
    }

    fn queue(&self, name: &str) -> Sqs {
        self.queue_with(name, |_| {})
    }

    fn line(&self) -> Proxied {
        let cutter = Cutter::start(self.node.address());
        let server = self.server(&cutter.endpoint);
        Proxied { cutter, server }
    }

    async fn declare(&self, name: &str) {
        let queue = self.queue(name);
        let declared = async {
            while let Err(error) = queue.declare().await {
                assert!(error.is_transient(), "the queue cannot be made: {error}");
            }
        };
        Box::pin(in_time("the queue is made", declared)).await;
    }

    /// What is busy waits in the queue itself.
    async fn delete(&self, queue: &str, part: Part) {
        if part != Part::Busy
            && let Some(url) = self.url(&name(queue, part)).await
        {
            self.client().await.delete_queue().queue_url(url).send().await.expect("deleted");
        }
    }

    async fn publish_foreign(&self, queue: &str, messages: &[(Option<&str>, &str)]) {
        Box::pin(self.declare(queue)).await;
        let url = self.url(queue).await.expect("it was made");
        let text = |value: &str| {
            MessageAttributeValue::builder().data_type("String").string_value(value).build().expect("an attribute")
        };
        for (id, payload) in messages {
            let call = self.client().await.send_message().queue_url(&url).message_body(*payload);
            let call = call.message_attributes(APP_ID, text("shop"));
            // SQS takes no attribute without a value.
            let call = match id.filter(|id| !id.is_empty()) {
                Some(id) => call.message_attributes(MESSAGE_ID, text(id)),
                None => call,
            };
            call.send().await.expect("sent");
        }
    }

    async fn depth(&self, queue: &str, part: Part) -> (u32, u32) {
        let (Some(url), false) = (self.url(&name(queue, part)).await, part == Part::Busy) else { return (0, 0) };
        let counts = [Name::ApproximateNumberOfMessages, Name::ApproximateNumberOfMessagesNotVisible];
        let call = self.client().await.get_queue_attributes().queue_url(url);
        let found = call.set_attribute_names(Some(counts.to_vec())).send().await;
        let found = found.ok().and_then(|found| found.attributes).unwrap_or_default();
        let [ready, out] = counts.map(|name| found.get(&name).and_then(|text| text.parse().ok()).unwrap_or_default());
        (ready, out)
    }

    async fn dead_letters(&self, queue: &str) -> Vec<(String, bool)> {
        let mut reading = self.queue(queue).dead_letters().await.expect("a reading");
        let mut found = Vec::new();
        loop {
            let page = reading.page(100).await.expect("dead letters");
            if page.is_empty() {
                break;
            }
            let told = page.iter().map(|letter| {
                (String::from_utf8_lossy(&letter.payload()).into_owned(), letter.dead_letter().row.is_some())
            });
            found.extend(told);
        }
        reading.close().await;
        found
    }

    async fn crash(&self) {
        block_in_place(|| self.node.kill());
    }

    /// It has forgotten everything: what is in the database is published again.
    async fn start_again(&self) {
        block_in_place(|| self.node.start_again());
    }
}

/// A way to the service that can be cut.
pub(crate) struct Proxied {
    cutter: Cutter,
    server: Server,
}

impl Line for Proxied {
    type Broker = Sqs;

    /// A process of its own has a client of its own.
    fn queue(&self, name: &str) -> Sqs {
        Sqs::new(self.server.clone(), Topology::new(name), settings())
    }

    fn cut(&self, at: Cut, every: u32, times: u32) {
        self.cutter.cut(at, every, times);
    }

    fn cuts(&self) -> u32 {
        self.cutter.cuts()
    }

    fn sever(&self) {
        self.cutter.sever();
    }

    fn close(&self) {
        self.cutter.refuse();
        self.cutter.sever();
    }
}
