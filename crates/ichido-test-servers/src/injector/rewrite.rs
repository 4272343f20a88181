//! The texts of the API's JSON protocol, taken apart and put together for `exchange`. Pure.

use hyper::body::Bytes;
use hyper::http;
use serde_json::{Value, json};

pub(super) fn is_fifo(request: &Value) -> bool {
    request["QueueUrl"].as_str().is_some_and(|url| url.strip_suffix(".fifo").is_some())
}

/// The head of a request, for another action.
pub(super) fn with_action(head: &http::request::Parts, action: &str) -> http::request::Parts {
    let mut head = head.clone();
    let target = format!("AmazonSQS.{action}").parse().expect("a plain text");
    head.headers.insert("x-amz-target", target);
    head
}

/// Asks that what has these receipts can be received at once.
pub(super) fn visible_again(request: &Value, receipts: &[String]) -> Bytes {
    let entries = receipts.iter().enumerate();
    let entries =
        entries.map(|(at, receipt)| json!({ "Id": at.to_string(), "ReceiptHandle": receipt, "VisibilityTimeout": 0 }));
    let entries: Vec<_> = entries.collect();
    json!({ "QueueUrl": request["QueueUrl"], "Entries": entries }).to_string().into()
}

/// Takes the entries out of a batch.
pub(super) fn entries(request: &mut Value) -> Vec<Value> {
    match request["Entries"].take() {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    }
}

/// What an entry is known by when it comes again: what is sent by its body, anything else by its receipt.
pub(super) fn known_by(entry: &Value) -> String {
    let known = entry["MessageBody"].as_str().or_else(|| entry["ReceiptHandle"].as_str());
    known.unwrap_or_default().to_owned()
}

pub(super) fn with_entries(request: &Value, entries: Vec<Value>) -> Bytes {
    let mut request = request.clone();
    request["Entries"] = entries.into();
    request.to_string().into()
}

/// The result of an entry that has failed.
pub(super) fn failed(entry: &Value, code: &str) -> Value {
    let sender_fault = code == "ReceiptHandleIsInvalid";
    json!({ "Id": entry["Id"], "SenderFault": sender_fault, "Code": code, "Message": "injected" })
}

/// An answer to a batch in which these have failed too, `lies` in spite of their success.
pub(super) fn with_failures(mut answer: Value, failed: Vec<Value>, lies: Vec<Value>) -> Value {
    let of = |answer: &mut Value, part| match answer[part].take() {
        Value::Array(results) => results,
        _ => Vec::new(),
    };
    let (mut successful, mut all) = (of(&mut answer, "Successful"), of(&mut answer, "Failed"));
    successful.retain(|result| !lies.iter().any(|lie| lie["Id"] == result["Id"]));
    let really: Vec<_> = all.iter().map(|result| result["Id"].clone()).collect();
    all.extend(failed);
    all.extend(lies.into_iter().filter(|lie| !really.contains(&lie["Id"])));
    json!({ "Successful": successful, "Failed": all })
}
