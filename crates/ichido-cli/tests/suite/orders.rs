//! What tests with a broker share, whatever kind it is of: the configuration of a queue `orders` between a database and a broker, orders that are sent to
//! it through the binary, and the ledger rule. `rabbitmq::world` and `sqs::world` add their broker.

use crate::testenv::{Env, PROCESS, Process};

/// `project` has no unique key, so that a double effect is counted and not refused.
const CONFIG: &str = r#"
[database]
url = "DATABASE"

PROCESS

[queues.orders]
BROKER

[actions.Ship]
from        = "orders"
concurrency = 4
retry       = { attempts = 3, first = "10ms", max = "50ms" }
sql         = ["insert into project (id, name, made_by) values (:id, :name, 'broker')"SLOW]
"#;

/// Writes `ichido.toml` anew: with this line of the queue, and changed. What a change puts in the place of `SLOW` runs after the effect.
pub(crate) fn configure(env: &Env, broker: &str, change: impl FnOnce(String) -> String) {
    let config = CONFIG.replace("DATABASE", &env.url).replace("PROCESS", PROCESS).replace("BROKER", broker);
    env.configure(|_| change(config).replace("SLOW", ""));
}

/// The line of an order.
pub(crate) fn order(id: u32) -> String {
    format!(r#"{{"id":{id},"name":"order {id}"}}"#)
}

/// Sends orders with these ids through the binary, and returns their ids as messages.
pub(crate) async fn send(env: &Env, queue: &str, ids: impl IntoIterator<Item = u32>) -> Vec<String> {
    let lines = ids.into_iter().map(order).collect::<Vec<_>>().join("\n");
    let sent = env.run_with_input(&["send", queue, "--file", "-"], lines.as_bytes()).await;
    assert_eq!(sent.code, Some(0), "{sent:?}"); // what a fault kept back is published by whoever runs
    sent.stdout.lines().map(str::to_owned).collect()
}

/// Starts processes that run the action.
pub(crate) fn start<const N: usize>(env: &Env, names: [&str; N], args: &[&str]) -> [Process; N] {
    let args = [&["run", "Ship/R1"], args].concat();
    names.map(|name| env.start(name, &args))
}

/// Waits until so many orders have had their effect.
pub(crate) async fn shipped(env: &Env, orders: u32) {
    env.until("select count(*) from project", orders.into()).await;
}

/// Messages that are committed and not with the broker.
pub(crate) async fn unpublished(env: &Env) -> i64 {
    env.number("select count(*) from ichido_outbox where published_at is null").await
}

/// The ledger rule for orders 1 to `orders`, all sent and committed: nothing lost, nothing double, no ghost; and nothing is left in
/// ichido's tables.
pub(crate) async fn assert_exact(env: &Env, orders: u32) {
    let ledger = [
        ("EFFECTS", "select count(*) from project".to_owned(), orders),
        ("DOUBLE", "select count(*) from (select 1 from project group by id having count(*) > 1) d".to_owned(), 0),
        ("GHOST", format!("select count(*) from project where id < 1 or id > {orders}"), 0),
        ("MUTEX", "select count(*) from ichido_mutex".to_owned(), 0),
        ("OUTBOX", "select count(*) from ichido_outbox".to_owned(), 0),
    ];
    for (what, query, expected) in ledger {
        assert_eq!(env.number(&query).await, i64::from(expected), "{what} on {:?}", env.kind);
    }
}
