//! The private SQS keeps what the servers promise, and of Amazon's rules those on which other tests rely.

use ichido_test_servers::{Sqs, Waiting};
use serde_json::json;

fn queue(name: &str, attributes: &serde_json::Value) -> String {
    let made = Sqs::shared().api().call("CreateQueue", &json!({ "QueueName": name, "Attributes": attributes }));
    made["QueueUrl"].as_str().expect("an address").to_owned()
}

#[test]
fn a_server_that_was_killed_comes_back_empty() {
    let sqs = Sqs::start();
    sqs.api().call("CreateQueue", &json!({ "QueueName": "q" }));
    assert!(sqs.api().queue_url("q").is_some());
    sqs.kill();
    sqs.start_again();
    assert_eq!(sqs.api().queue_url("q"), None);
    let (address, folder) = (sqs.address(), sqs.folder().to_owned());
    drop(sqs);
    assert!(!folder.exists());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_deleted_message_is_gone_and_a_received_one_comes_back() {
    let (sqs, name) = (Sqs::shared().api(), Sqs::shared().fresh_name());
    let url = queue(&name, &json!({ "VisibilityTimeout": "1" }));
    sqs.call("SendMessage", &json!({ "QueueUrl": url, "MessageBody": "x" }));
    let receive = || sqs.call("ReceiveMessage", &json!({ "QueueUrl": url, "WaitTimeSeconds": 20 }));
    receive();
    assert_eq!(sqs.waiting(&name), Waiting { visible: 0, in_flight: 1, delayed: 0 });
    let again = receive();
    sqs.call("DeleteMessage", &json!({ "QueueUrl": url, "ReceiptHandle": again["Messages"][0]["ReceiptHandle"] }));
    assert_eq!(sqs.waiting(&name).all(), 0);
}

#[test]
fn a_fifo_queue_remembers_what_was_sent_after_it_was_deleted() {
    let (sqs, name) = (Sqs::shared().api(), format!("{}.fifo", Sqs::shared().fresh_name()));
    let url = queue(&name, &json!({ "FifoQueue": "true" }));
    let send = json!({ "QueueUrl": url, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "1" });
    sqs.call("SendMessage", &send);
    let message = sqs.call("ReceiveMessage", &json!({ "QueueUrl": url }));
    sqs.call("DeleteMessage", &json!({ "QueueUrl": url, "ReceiptHandle": message["Messages"][0]["ReceiptHandle"] }));
    sqs.call("SendMessage", &send);
    assert_eq!(sqs.waiting(&name).all(), 0);
}

#[test]
fn a_group_waits_while_any_of_its_messages_is_out_of_sight() {
    let (sqs, name) = (Sqs::shared().api(), format!("{}.fifo", Sqs::shared().fresh_name()));
    let url = queue(&name, &json!({ "FifoQueue": "true", "VisibilityTimeout": "600" }));
    for id in ["1", "2", "3"] {
        let send = json!({ "QueueUrl": url, "MessageBody": id, "MessageGroupId": "g", "MessageDeduplicationId": id });
        sqs.call("SendMessage", &send);
    }
    let receive = || {
        let found = sqs.call("ReceiveMessage", &json!({ "QueueUrl": url, "MaxNumberOfMessages": 10 }));
        found["Messages"].as_array().cloned().unwrap_or_default()
    };
    let show = |message: &serde_json::Value| {
        let receipt = &message["ReceiptHandle"];
        let request = json!({ "QueueUrl": url, "ReceiptHandle": receipt, "VisibilityTimeout": 0 });
        sqs.call("ChangeMessageVisibility", &request);
    };
    let all = receive();
    assert_eq!(all.len(), 3);
    show(&all[1]);
    show(&all[2]);
    assert_eq!(receive().len(), 0, "the first is out of sight");
    show(&all[0]);
    let bodies: Vec<_> = receive().iter().map(|message| message["Body"].clone()).collect();
    assert_eq!(bodies, ["1", "2", "3"]);
}

#[test]
fn moto_is_another_server_and_comes_back_empty_too() {
    let moto = Sqs::start_moto();
    moto.api().call("CreateQueue", &json!({ "QueueName": "q" }));
    let url = moto.api().queue_url("q").expect("it was made");
    assert!(url.contains("/123456789012/"), "moto's account: {url}");
    moto.kill();
    moto.start_again();
    assert_eq!(moto.api().queue_url("q"), None);
}
