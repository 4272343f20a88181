//! Dead letters: they say why, keep what their sender wrote, and are read without being taken.

use ichido::broker::{Broker as _, RowName, Settlement, Source as _};
use ichido_sqs::Error;
use ichido_testkit::{
    fixture::{BrokerFixture as _, Part},
    run,
};

use crate::{
    fixture::AtSqs,
    seam::{next, outgoing, publish},
};

fn row(id: &str) -> RowName {
    RowName { origin: "here".into(), queue: "orders".into(), id: id.to_owned() }
}

#[test]
fn a_reading_leaves_what_it_does_not_delete() {
    run(async {
        let at = AtSqs::fresh().await;
        let queue = at.queue("orders");
        let messages: Vec<_> = (0..25).map(|n| outgoing("orders", &n.to_string())).collect();
        publish(&queue, &messages).await;
        let source = queue.receive(10);
        for _ in &messages {
            let received = next(&source).await;
            let failed = Settlement::Failed { reason: "a\u{0}b".into(), row: row(received.id.as_deref().unwrap()) };
            source.settle(received.tag, failed).await.expect("dead-lettered");
        }
        let mut reading = queue.dead_letters().await.expect("a reading");
        let first = reading.page(10).await.expect("a page");
        let told = first[0].dead_letter();
        assert_eq!((first.len(), told.reason.as_deref()), (10, Some("a b")), "what SQS does not take is a space");
        assert_eq!(told.row, Some(row(told.received.id.as_deref().unwrap())));
        assert!(matches!(queue.dead_letters().await, Err(Error::Busy(_))), "one at a time");
        assert!(reading.delete(&first[0]).await);
        let rest = reading.page(100).await.expect("a page");
        assert_eq!((rest.len(), reading.page(100).await.expect("the end").len()), (15, 0));
        reading.close().await;
        assert_eq!(at.depth("orders", Part::Dead).await, (24, 0));
    });
}

#[test]
fn a_foreign_message_with_ten_attributes_keeps_them() {
    run(async {
        let at = AtSqs::fresh().await;
        Box::pin(at.declare("orders")).await;
        let url = at.url("orders").await.expect("it was made");
        let text = |value: &str| {
            let value = aws_sdk_sqs::types::MessageAttributeValue::builder().data_type("String").string_value(value);
            value.build().expect("an attribute")
        };
        let call = at.client().await.send_message().queue_url(url).message_body("{}");
        let call = (0..10).fold(call, |call, n| call.message_attributes(format!("own{n}"), text(&n.to_string())));
        call.send().await.expect("sent");
        let queue = at.queue("orders");
        let source = queue.receive(1);
        let received = next(&source).await;
        let failed = Settlement::Failed { reason: "why".into(), row: row("1") };
        source.settle(received.tag, failed).await.expect("dead-lettered");
        let mut reading = queue.dead_letters().await.expect("a reading");
        let letter = reading.page(10).await.expect("a page").remove(0).dead_letter();
        reading.close().await;
        assert_eq!((letter.received.headers, letter.reason.as_deref()), (received.headers, Some("why")));
        assert_eq!(letter.row, Some(row("1")));
    });
}
