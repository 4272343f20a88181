//! Every kind of queue with all its keys, and with as few as possible.

use std::time::Duration;

use ichido::message::{ClaimBy, GuardBy, OnBusy, OnDone, Order, Table};

use super::super::{QueueKind, RabbitMqType, TableName, Url};
use super::{accepted, refusal, refused, with_table};

const SECOND: Duration = Duration::from_secs(1);

fn table(text: &str) -> Table {
    match accepted(text).queues.remove("q").map(|queue| queue.kind) {
        Some(QueueKind::Table(table)) => *table,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_key_of_a_table_queue_is_read() {
    let table = table(
        r#"
[queues.q]
table = "shop.received_order"
key = ["tenant", "id"]
status = { column = "state", new = 0, done = true, failed = "failed" }
owner = "process_id"
order_by = ["-priority", "id"]
sent_at = "created_at"
group_by = "customer"
on_done = "delete"
only = { kind = "order", shop = 7, live = true }
payload_limit = "1MiB"
"#,
    );
    assert_eq!((table.schema.as_deref(), table.name.as_str()), (Some("shop"), "received_order"));
    assert_eq!(table.key, ["tenant", "id"]);
    assert_eq!(table.status.new, "0");
    assert_eq!(table.status.done.as_deref(), Some("true"));
    let order = |column: &str, descending| Order { column: column.to_owned(), descending };
    assert_eq!(table.order_by, [order("priority", true), order("id", false)]);
    assert_eq!(table.sent_at.as_deref(), Some("created_at"));
    assert_eq!(table.group_by.as_deref(), Some("customer"));
    assert_eq!(table.on_done, OnDone::Delete);
    let only = [("kind", "order"), ("live", "true"), ("shop", "7")];
    assert_eq!(table.only, only.map(|(column, value)| (column.to_owned(), value.to_owned())));
}

#[test]
fn a_done_value_may_be_left_out_where_done_rows_are_deleted() {
    let text = "[queues.q]\ntable = \"t\"\nowner = \"o\"\non_done = \"delete\"\n\
                status = { column = \"s\", new = \"0\" }";
    assert_eq!(table(text).status.done, None);
    assert!(table(&with_table("")).key.is_empty());
}

#[test]
fn a_quoted_part_of_a_table_name_may_contain_dots_and_quotes() {
    let name = |text: &str| TableName::parse(text).unwrap();
    let both = |schema: &str, name: &str| TableName { schema: Some(schema.to_owned()), name: name.to_owned() };
    assert_eq!(name(r#""a.b".c"#), both("a.b", "c"));
    assert_eq!(name(r#"a."b.c""#), both("a", "b.c"));
    assert_eq!(name(r#""say ""hi""".t"#), both("say \"hi\"", "t"));
    assert_eq!(name(r#""a.b""#), TableName { schema: None, name: "a.b".into() });
    assert_eq!(name("order line"), TableName { schema: None, name: "order line".into() });
}

#[test]
fn every_key_of_a_rabbitmq_queue_is_read() {
    let text = r#"
[queues.q.rabbitmq]
url = ["amqp://a/", "amqps://b/"]
queue = "orders"
exchange = "shop"
routing_key = "order.new"
type = "mirrored"
management = "http://a:15672"
prefetch = 100
declare = false
publish_deadline = "10s"
guard = "inbox"
claim = "lease"
on_busy = "dead-letter"
busy_delay = "1s"
relay_after = "2s"
"#;
    let QueueKind::RabbitMq(queue) = accepted(text).queues.remove("q").unwrap().kind else {
        panic!("no RabbitMQ queue");
    };
    assert_eq!(queue.url.iter().map(Url::scheme).collect::<Vec<_>>(), ["amqp", "amqps"]);
    assert_eq!((queue.exchange.as_str(), queue.routing_key.as_str()), ("shop", "order.new"));
    assert_eq!((queue.r#type, queue.prefetch), (RabbitMqType::Mirrored, Some(100)));
    assert!(!queue.declare && queue.management.is_some());
    assert_eq!((queue.mutex.guard, queue.mutex.claim), (GuardBy::Inbox, Some(ClaimBy::Lease)));
    assert_eq!(queue.mutex.on_busy, OnBusy::DeadLetter);
    assert_eq!(queue.mutex.publish_deadline, 10 * SECOND);
}

#[test]
fn a_rabbitmq_queue_needs_only_its_address_and_name() {
    let text = "[queues.q]\nrabbitmq = { url = \"amqp://host\", queue = \"orders\" }";
    let QueueKind::RabbitMq(queue) = accepted(text).queues.remove("q").unwrap().kind else {
        panic!("no RabbitMQ queue");
    };
    assert_eq!((queue.exchange.as_str(), queue.routing_key.as_str()), ("", "orders"));
    assert_eq!((queue.r#type, queue.prefetch, queue.declare), (RabbitMqType::Quorum, None, true));
    assert_eq!((queue.mutex.guard, queue.mutex.claim), (GuardBy::Mutex, None));
    assert_eq!((queue.mutex.on_busy, queue.mutex.busy_delay), (OnBusy::Delay, 5 * SECOND));
    assert_eq!(queue.mutex.relay_after, 5 * SECOND);
}

#[test]
fn lock_timeout_is_refused_as_removed() {
    let text = "[queues.q.rabbitmq]\nurl = \"amqp://h\"\nqueue = \"x\"\nlock_timeout = \"5s\"";
    assert_eq!(
        refusal(text),
        "ichido.toml:4: queues.q.rabbitmq.lock_timeout: removed; delete this line: ichido never waits for a row \
         that another process holds; `on_busy` decides what happens to the delivery"
    );
    let sqs = text.replace("rabbitmq", "sqs").replace("amqp", "http");
    refused(&sqs, &["ichido.toml:4: queues.q.sqs.lock_timeout: removed; delete this line"]);
}

#[test]
fn every_key_of_an_sqs_queue_is_read() {
    let text = r#"
[queues.q]
payload_limit = 1024
[queues.q.sqs]
queue = "orders.fifo"
region = "eu-central-1"
endpoint = "http://127.0.0.1:4566"
fifo = true
visibility = "2m"
wait = "10s"
dead_letter = "failed.fifo"
declare = false
guard = "inbox"
claim = "lease"
on_busy = "delay"
busy_delay = "1s"
relay_after = "2s"
publish_deadline = "3s"
"#;
    let queue = accepted(text).queues.remove("q").unwrap();
    assert_eq!(queue.payload_limit, 1024);
    let QueueKind::Sqs(sqs) = queue.kind else { panic!("no SQS queue") };
    assert_eq!((sqs.queue.as_str(), sqs.mutex.publish_deadline), ("orders.fifo", 3 * SECOND));
    assert_eq!((sqs.region.as_deref(), sqs.declare), (Some("eu-central-1"), false));
    assert_eq!(sqs.endpoint.as_ref().map(Url::as_str), Some("http://127.0.0.1:4566"));
    assert_eq!((sqs.visibility, sqs.wait, sqs.is_fifo()), (120 * SECOND, 10 * SECOND, true));
    assert_eq!(sqs.dead_letters(), "failed.fifo");
}

#[test]
fn an_sqs_queue_needs_only_its_name() {
    let text = "[queues.q]\nsqs = { queue = \"orders\" }";
    let QueueKind::Sqs(sqs) = accepted(text).queues.remove("q").unwrap().kind else { panic!("no SQS queue") };
    assert_eq!((sqs.visibility, sqs.wait, sqs.declare), (60 * SECOND, 20 * SECOND, true));
    assert_eq!((&sqs.region, &sqs.endpoint, sqs.is_fifo()), (&None, &None, false));
    assert_eq!((sqs.dead_letters().as_str(), sqs.mutex.busy_delay), ("orders-dead", 5 * SECOND));
    let fifo = accepted(&text.replace("orders", "orders.fifo"));
    assert_eq!(fifo.sqs().next().unwrap().1.dead_letters(), "orders-dead.fifo");
}

#[test]
fn what_sqs_does_not_have_is_refused() {
    let sqs = |keys: &str| format!("[queues.q]\nsqs = {{ queue = \"orders\"{keys} }}");
    refused(&sqs(", fifo = true"), &["queues.q.sqs.fifo: the name of a FIFO queue ends with `.fifo`"]);
    refused(&sqs(", visibility = \"13h\""), &["queues.q.sqs.visibility", "at most 12h"]);
    refused(&sqs(", visibility = \"1500ms\""), &["queues.q.sqs.visibility", "whole seconds"]);
    refused(&sqs(", wait = \"21s\""), &["queues.q.sqs.wait", "at most 20s"]);
    refused("[queues.q]\nsqs = { queue = \"a b\" }", &["queues.q.sqs.queue", "letters, digits"]);
    let two = |a: &str, b: &str| format!("[queues.a]\nsqs = {{ {a} }}\n[queues.b]\nsqs = {{ {b} }}");
    refused(&two("queue = \"x\"", "queue = \"x\""), &["queues.b.sqs.queue: the queue `a` already uses this queue"]);
    refused(&two("queue = \"x\"", "queue = \"x-dead\""), &["queues.b.sqs.queue", "the dead-letter queue of the other"]);
    accepted(&two("queue = \"x\"", "queue = \"x\", region = \"eu-west-1\""));
}
