//! The injector does what it says, and the server behind it shows it: what was sent is there once or twice, what was deleted is gone or
//! not, as the fault says.

use std::collections::BTreeSet;

use ichido_test_servers::injector::{Fault, Faults, Injector};
use ichido_test_servers::{Sqs, SqsApi, Waiting};
use serde_json::{Value, json};

/// A queue of the shared server, directly and through an injector.
struct Scene {
    injector: Injector,
    name: String,
    url: String,
}

impl Scene {
    fn new(faults: Faults) -> Self {
        let sqs = Sqs::shared();
        let (injector, name) = (Injector::start(sqs.address(), 7), sqs.fresh_name());
        let made = injector.api().call("CreateQueue", &json!({ "QueueName": name }));
        injector.forget_calls();
        injector.inject(faults);
        Self { injector, url: made["QueueUrl"].as_str().expect("an address").to_owned(), name }
    }

    fn api(&self) -> SqsApi {
        self.injector.api()
    }

    /// Sends so many in batches of ten, and returns how many succeeded and how many entries failed.
    fn send(&self, messages: usize) -> (usize, usize) {
        let (mut good, mut bad) = (0, 0);
        for batch in (0..messages).collect::<Vec<_>>().chunks(10) {
            let entries: Vec<_> =
                batch.iter().map(|n| json!({ "Id": n.to_string(), "MessageBody": format!("body {n}") })).collect();
            let request = json!({ "QueueUrl": self.url, "Entries": entries });
            let answer = self.api().call("SendMessageBatch", &request);
            good += count(&answer["Successful"]);
            bad += count(&answer["Failed"]);
        }
        (good, bad)
    }

    fn receive(&self) -> Vec<Value> {
        let request = json!({ "QueueUrl": self.url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600 });
        let answer = self.api().call("ReceiveMessage", &request);
        answer["Messages"].as_array().cloned().unwrap_or_default()
    }

    fn delete(&self, receipt: &Value) -> Result<Value, Value> {
        self.api().try_call("DeleteMessage", &json!({ "QueueUrl": self.url, "ReceiptHandle": receipt }))
    }

    /// What the server has, past the injector.
    fn waiting(&self) -> Waiting {
        Sqs::shared().api().waiting(&self.name)
    }

    fn times(&self, fault: Fault) -> usize {
        usize::try_from(self.injector.injected().get(&fault).copied().unwrap_or(0)).expect("few")
    }
}

fn count(results: &Value) -> usize {
    results.as_array().map_or(0, Vec::len)
}

fn only(set: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::none();
    set(&mut faults);
    faults
}

#[test]
fn without_faults_everything_passes_and_calls_are_counted() {
    let scene = Scene::new(Faults::none());
    assert_eq!(scene.send(20), (20, 0));
    let received = scene.receive();
    assert_eq!(received.len(), 10);
    scene.delete(&received[0]["ReceiptHandle"]).expect("deleted");
    assert_eq!(scene.waiting(), Waiting { visible: 10, in_flight: 9, delayed: 0 });
    let calls: Vec<_> = scene.injector.calls().into_iter().collect();
    let expected = [("DeleteMessage", 1), ("ReceiveMessage", 1), ("SendMessageBatch", 2)];
    assert_eq!(calls, expected.map(|(action, times)| (action.to_owned(), times)));
    assert!(scene.injector.injected().is_empty(), "{:?}", scene.injector.injected());
}

#[test]
fn every_fifth_message_is_sent_twice() {
    let scene = Scene::new(only(|faults| faults.duplicates = 20));
    assert_eq!(scene.send(200), (200, 0));
    let twice = scene.times(Fault::SentTwice);
    assert!((20..70).contains(&twice), "{twice} of 200");
    assert_eq!(scene.waiting().all() as usize, 200 + twice);
}

#[test]
fn a_received_message_comes_again_with_its_id_and_another_receipt() {
    let scene = Scene::new(Faults::none());
    scene.send(1);
    scene.injector.inject(only(|faults| faults.duplicates = 100));
    let [first, second] = [scene.receive(), scene.receive()].map(|messages| messages[0].clone());
    assert_eq!(first["MessageId"], second["MessageId"]);
    assert_ne!(first["ReceiptHandle"], second["ReceiptHandle"]);
}

#[test]
fn an_expired_receipt_deletes_nothing() {
    let scene = Scene::new(only(|faults| faults.expiry = 100));
    scene.send(1);
    let message = scene.receive().remove(0);
    let refused = scene.delete(&message["ReceiptHandle"]).expect_err("expired");
    assert!(refused["__type"].as_str().is_some_and(|name| name.ends_with("ReceiptHandleIsInvalid")), "{refused}");
    let entries = json!([{ "Id": "a", "ReceiptHandle": message["ReceiptHandle"] }]);
    let request = json!({ "QueueUrl": scene.url, "Entries": entries });
    let answer = scene.api().call("DeleteMessageBatch", &request);
    assert_eq!(answer["Failed"][0]["Code"], "ReceiptHandleIsInvalid");
    assert_eq!(scene.waiting(), Waiting { visible: 1, in_flight: 0, delayed: 0 });
}

#[test]
fn batches_come_in_another_order() {
    let scene = Scene::new(only(|faults| faults.reordering = 100));
    scene.send(10);
    let bodies: Vec<_> =
        scene.receive().iter().map(|message| message["Body"].as_str().expect("text").to_owned()).collect();
    let sorted: Vec<_> = bodies.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
    assert_eq!(sorted.len(), 10);
    assert_ne!(bodies, sorted);
}

#[test]
fn a_full_queue_looks_empty() {
    let scene = Scene::new(only(|faults| faults.false_empties = 100));
    scene.send(10);
    assert_eq!(scene.receive(), Vec::<Value>::new());
    assert_eq!(scene.waiting().visible, 10);
}

#[test]
fn entries_that_fail_are_named_and_some_of_them_lie() {
    let scene = Scene::new(only(|faults| faults.entries = 20));
    let (good, bad) = scene.send(200);
    let (failed, lies) = (scene.times(Fault::EntryFailed), scene.times(Fault::EntryFalselyFailed));
    assert_eq!((good, bad), (200 - failed - lies, failed + lies));
    assert!(failed > 0 && lies > 0);
    assert_eq!(scene.waiting().all() as usize, 200 - failed);
}

#[test]
fn an_entry_fails_only_so_often_as_it_may() {
    let scene = Scene::new(only(|faults| (faults.entries, faults.times_per_entry) = (100, 2)));
    assert_eq!(scene.send(10), (0, 10));
    assert_eq!(scene.send(10), (0, 10));
    assert_eq!(scene.send(10), (10, 0), "the same entries, for the third time");
    assert_eq!(scene.times(Fault::EntryFailed), 20);
}

#[test]
fn a_throttled_call_does_nothing_and_says_so() {
    let scene = Scene::new(only(|faults| faults.throttling = 100));
    let send = json!({ "QueueUrl": scene.url, "MessageBody": "x" });
    let codes: BTreeSet<_> = (0..20)
        .map(|_| scene.api().try_call("SendMessage", &send).expect_err("throttled")["__type"].to_string())
        .collect();
    assert!(codes.iter().any(|code| code.contains("RequestThrottled")), "{codes:?}");
    assert!(codes.iter().any(|code| code.contains("ServiceUnavailable")), "{codes:?}");
    assert_eq!(scene.waiting().all(), 0);
}

#[test]
fn a_cut_comes_before_or_after_the_server_has_acted() {
    let scene = Scene::new(only(|faults| faults.cuts = 50));
    let send = json!({ "QueueUrl": scene.url, "MessageBody": "x" });
    let heard = (0..60).filter(|_| scene.api().try_call("SendMessage", &send).is_ok()).count();
    let (before, after) = (scene.times(Fault::CutBefore), scene.times(Fault::CutAfter));
    assert!(before > 0 && after > 0 && heard > 0);
    assert_eq!(heard, 60 - before - after);
    assert_eq!(scene.waiting().all() as usize, heard + after);
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let faults = || {
        let scene = Scene::new(Faults { cuts: 0, throttling: 0, ..Faults::storm() });
        scene.send(100);
        scene.injector.injected()
    };
    assert_eq!(faults(), faults());
}

#[test]
fn a_fifo_queue_keeps_its_order_and_has_no_copies() {
    let scene = Scene::new(Faults::none());
    let name = format!("{}.fifo", scene.name);
    let attributes = json!({ "FifoQueue": "true" });
    let made = scene.api().call("CreateQueue", &json!({ "QueueName": name, "Attributes": attributes }));
    scene.injector.inject(only(|faults| (faults.duplicates, faults.reordering) = (100, 100)));
    let entry = |n: u32| {
        let id = n.to_string();
        json!({ "Id": id, "MessageBody": id, "MessageGroupId": "g", "MessageDeduplicationId": id })
    };
    let entries: Vec<_> = (0..10).map(entry).collect();
    scene.api().call("SendMessageBatch", &json!({ "QueueUrl": made["QueueUrl"], "Entries": entries }));
    assert_eq!(Sqs::shared().api().waiting(&name).all(), 10);
    let request = json!({ "QueueUrl": made["QueueUrl"], "MaxNumberOfMessages": 10 });
    let answer = scene.api().call("ReceiveMessage", &request);
    let bodies: Vec<_> = answer["Messages"].as_array().expect("messages").iter().map(|m| m["Body"].clone()).collect();
    assert_eq!(bodies, (0..10).map(|n| json!(n.to_string())).collect::<Vec<_>>());
}
