//! A test's own world with an SQS queue: a database, a queue with a name of its own at the server that all tests share, and an injector
//! between the binaries and the server. The queue is looked at from outside, past the injector.

use ichido_test_servers::{SQS_REGION, Sqs, SqsApi, Waiting, injector::Injector};
use ichido_testkit::eventually;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::{
    orders,
    testenv::{Env, Kind, Process},
};

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) injector: Injector,
    /// The server, past the injector.
    pub(crate) api: SqsApi,
    /// The queue's name there.
    pub(crate) queue: String,
}

impl World {
    pub(crate) async fn new(kind: Kind) -> Self {
        World::named(Env::new(kind).await, "", 7)
    }

    /// With a queue that keeps the order of groups.
    pub(crate) async fn fifo(kind: Kind) -> Self {
        World::named(Env::new(kind).await, ".fifo", 7)
    }

    /// In this database, with a queue whose name ends so, and with chances of this seed.
    pub(crate) fn named(env: Env, suffix: &str, seed: u64) -> Self {
        let sqs = block_in_place(Sqs::shared);
        let (injector, queue) = (Injector::start(sqs.address(), seed), format!("{}{suffix}", sqs.fresh_name()));
        let world = World { env, injector, api: sqs.api(), queue };
        world.configure(|config| config);
        world
    }

    /// Writes `ichido.toml` anew.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        orders::configure(&self.env, &format!("sqs = {{ {} }}", self.keys(&self.queue)), change);
    }

    /// The keys of a queue, whatever its name.
    pub(crate) fn keys(&self, queue: &str) -> String {
        let endpoint = self.injector.endpoint();
        format!(
            r#"queue = "{queue}", endpoint = "{endpoint}", region = "{SQS_REGION}", visibility = "5s", wait = "2s", busy_delay = "1s", relay_after = "1s""#
        )
    }

    /// Writes `ichido.toml` anew with another visibility.
    pub(crate) fn hide_for(&self, visibility: &str, slow: &str) {
        let visibility = format!("visibility = \"{visibility}\"");
        self.configure(|config| config.replace("visibility = \"5s\"", &visibility).replace("SLOW", slow));
    }

    /// Writes `ichido.toml` anew with more keys of the queue.
    pub(crate) fn configure_queue(&self, keys: &str) {
        self.configure(|config| config.replace("relay_after = \"1s\"", &format!("relay_after = \"1s\", {keys}")));
    }

    /// The line of an order.
    pub(crate) fn order(id: u32) -> String {
        orders::order(id)
    }

    /// Sends orders with these ids through the binary, and returns their ids as messages.
    pub(crate) async fn send(&self, ids: impl IntoIterator<Item = u32>) -> Vec<String> {
        self.send_to("orders", ids).await
    }

    pub(crate) async fn send_to(&self, queue: &str, ids: impl IntoIterator<Item = u32>) -> Vec<String> {
        orders::send(&self.env, queue, ids).await
    }

    /// Starts processes that run the action.
    pub(crate) fn start<const N: usize>(&self, names: [&str; N], args: &[&str]) -> [Process; N] {
        orders::start(&self.env, names, args)
    }

    /// Runs until nothing is left to do.
    pub(crate) async fn drain(&self) {
        let [mut process] = self.start(["drain"], &["--drain"]);
        assert_eq!(process.exit_code().await, 0, "{}", process.log());
    }

    /// The name of the dead-letter queue.
    pub(crate) fn dead(&self) -> String {
        match self.queue.strip_suffix(".fifo") {
            Some(name) => format!("{name}-dead.fifo"),
            None => format!("{}-dead", self.queue),
        }
    }

    pub(crate) fn waiting(&self, queue: &str) -> Waiting {
        block_in_place(|| self.api.waiting(queue))
    }

    /// Waits until so many messages can be received from a queue, and none is out; only looking tells.
    #[track_caller]
    pub(crate) fn settles_at(&self, queue: &str, visible: u32) -> impl Future<Output = ()> {
        let wanted = Waiting { visible, ..Waiting::default() };
        eventually(format!("{queue} with {wanted:?}"), async move || {
            let waiting = self.waiting(queue);
            if waiting == wanted { Ok(()) } else { Err(format!("{waiting:?}")) }
        })
    }

    /// An action of the API on a queue that is there, past the code under test.
    pub(crate) fn at(&self, queue: &str, action: &str, mut request: Value) -> Value {
        block_in_place(|| {
            request["QueueUrl"] = self.api.queue_url(queue).expect("a queue").into();
            self.api.call(action, &request)
        })
    }

    /// What can be received from a queue, at most ten; it is visible again at once.
    pub(crate) fn look(&self, queue: &str) -> Vec<Value> {
        let request = json!({
            "MaxNumberOfMessages": 10, "VisibilityTimeout": 0, "MessageAttributeNames": ["All"], "AttributeNames": ["All"],
        });
        self.at(queue, "ReceiveMessage", request)["Messages"].as_array().cloned().unwrap_or_default()
    }

    /// Calls of this action through the injector, with those of its batch.
    pub(crate) fn calls(&self, action: &str) -> u64 {
        let calls = self.injector.calls();
        [action.to_owned(), format!("{action}Batch")].iter().filter_map(|action| calls.get(action)).sum()
    }

    /// Waits until so many orders have had their effect.
    pub(crate) async fn shipped(&self, orders: u32) {
        orders::shipped(&self.env, orders).await;
    }

    /// Messages that are committed and not with the broker.
    pub(crate) async fn unpublished(&self) -> i64 {
        orders::unpublished(&self.env).await
    }

    /// The ledger rule for orders 1 to `orders`, all sent and committed: nothing lost, nothing double, no ghost; and nothing is left
    /// anywhere.
    pub(crate) async fn assert_exact(&self, orders: u32) {
        orders::assert_exact(&self.env, orders).await;
        // Deletes are on their way.
        for queue in [&self.queue, &self.dead()] {
            self.settles_at(queue, 0).await;
        }
    }
}
