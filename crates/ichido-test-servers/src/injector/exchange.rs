//! One request of a client and its answer: asks `ledger` what goes wrong, `rewrite` for the changed texts, and `upstream` for the truth.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, http};
use serde_json::{Value, json};

use super::faults::Fault;
use super::ledger::Ledger;
use super::rewrite;
use super::upstream::Upstream;

/// The exchanges of one connection, one after the other.
#[derive(Debug)]
pub(super) struct Exchange {
    upstream: Upstream,
    ledger: Arc<Ledger>,
}

type Answer = Response<Full<Bytes>>;

impl Exchange {
    pub(super) fn new(upstream: SocketAddr, ledger: Arc<Ledger>) -> Self {
        Self { upstream: Upstream::new(upstream), ledger }
    }

    /// What the client hears; an error is nothing, and the end of its connection.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> io::Result<Answer> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or("");
        let action = target.rsplit('.').next().unwrap_or("").to_owned();
        self.ledger.count_call(&action);
        if self.ledger.happens(Fault::CutBefore) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.ledger.happens(Fault::Throttled) {
            return Ok(throttled(self.ledger.even()));
        }
        let request = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let answer = self.act(&head, body, &action, request).await?;
        if self.ledger.happens(Fault::CutAfter) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(answer)
    }

    async fn act(
        &self,
        head: &http::request::Parts,
        body: Bytes,
        action: &str,
        mut request: Value,
    ) -> io::Result<Answer> {
        match action {
            "ReceiveMessage" if self.ledger.happens(Fault::FalselyEmpty) => Ok(said(StatusCode::OK, &json!({}))),
            "ReceiveMessage" => {
                let answer = self.upstream.ask(head, body).await?;
                self.received(head, &request, answer).await
            }
            "SendMessage" => {
                let answer = self.upstream.ask(head, body.clone()).await?;
                if !rewrite::is_fifo(&request) && self.ledger.happens(Fault::SentTwice) {
                    self.upstream.ask(head, body).await?;
                }
                Ok(answer.map(Full::new))
            }
            "DeleteMessage" | "ChangeMessageVisibility" if self.is_stale(&request) => Ok(stale()),
            "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch" => {
                self.batch(head, action, &mut request).await
            }
            _ => Ok(self.upstream.ask(head, body).await?.map(Full::new)),
        }
    }

    /// Messages that were received: some come again at once, some with a receipt that is of no use.
    async fn received(
        &self,
        head: &http::request::Parts,
        request: &Value,
        answer: Response<Bytes>,
    ) -> io::Result<Answer> {
        let mut found: Value = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
        let Some(messages) = found["Messages"].as_array_mut().filter(|_| answer.status() == StatusCode::OK) else {
            return Ok(answer.map(Full::new));
        };
        let mut again = Vec::new();
        for message in messages.iter() {
            let receipt = message["ReceiptHandle"].as_str().unwrap_or_default();
            let expired = self.ledger.happens(Fault::Expired);
            if expired {
                self.ledger.expire(receipt);
            }
            if expired || self.ledger.happens(Fault::ReceivedTwice) {
                again.push(receipt.to_owned());
            }
        }
        if !rewrite::is_fifo(request) && self.ledger.happens(Fault::Reordered) {
            self.ledger.shuffle(messages);
        }
        if !again.is_empty() {
            let head = rewrite::with_action(head, "ChangeMessageVisibilityBatch");
            self.upstream.ask(&head, rewrite::visible_again(request, &again)).await?;
        }
        Ok(said(StatusCode::OK, &found))
    }

    /// Each entry fails, or is carried out; what is sent may be sent twice, and in another order.
    async fn batch(&self, head: &http::request::Parts, action: &str, request: &mut Value) -> io::Result<Answer> {
        let (mut kept, mut copies, mut failed, mut lies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (sends, fifo) = (action == "SendMessageBatch", rewrite::is_fifo(request));
        for entry in rewrite::entries(request) {
            let known_by = rewrite::known_by(&entry);
            if self.is_stale(&entry) {
                failed.push(rewrite::failed(&entry, "ReceiptHandleIsInvalid"));
            } else if self.ledger.happens_to(&known_by, Fault::EntryFailed) {
                failed.push(rewrite::failed(&entry, "InternalError"));
            } else {
                if self.ledger.happens_to(&known_by, Fault::EntryFalselyFailed) {
                    lies.push(rewrite::failed(&entry, "InternalError"));
                }
                if sends && !fifo && self.ledger.happens(Fault::SentTwice) {
                    copies.push(entry.clone());
                }
                kept.push(entry);
            }
        }
        if sends && !fifo && self.ledger.happens(Fault::Reordered) {
            self.ledger.shuffle(&mut kept);
        }
        let mut said_by_server = json!({ "Successful": [], "Failed": [] });
        if !kept.is_empty() {
            let answer = self.upstream.ask(head, rewrite::with_entries(request, kept)).await?;
            if answer.status() != StatusCode::OK {
                return Ok(answer.map(Full::new));
            }
            said_by_server = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
        }
        if !copies.is_empty() {
            self.upstream.ask(head, rewrite::with_entries(request, copies)).await?;
        }
        Ok(said(StatusCode::OK, &rewrite::with_failures(said_by_server, failed, lies)))
    }

    fn is_stale(&self, request: &Value) -> bool {
        request["ReceiptHandle"].as_str().is_some_and(|receipt| self.ledger.has_expired(receipt))
    }
}

fn said(status: StatusCode, body: &Value) -> Answer {
    let answer = Response::builder().status(status).header("content-type", "application/x-amz-json-1.0");
    answer.body(Full::new(body.to_string().into())).expect("a plain answer")
}

fn throttled(sender: bool) -> Answer {
    if sender {
        let body = json!({ "__type": "com.amazonaws.sqs#RequestThrottled", "message": "Rate exceeded." });
        refused(StatusCode::BAD_REQUEST, "RequestThrottled;Sender", &body)
    } else {
        let body = json!({ "__type": "com.amazonaws.sqs#ServiceUnavailable", "message": "Try again." });
        refused(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable;Receiver", &body)
    }
}

fn stale() -> Answer {
    let body = json!({ "__type": "com.amazonaws.sqs#ReceiptHandleIsInvalid", "message": "The receipt has expired." });
    refused(StatusCode::BAD_REQUEST, "ReceiptHandleIsInvalid;Sender", &body)
}

fn refused(status: StatusCode, code: &'static str, body: &Value) -> Answer {
    let mut answer = said(status, body);
    answer.headers_mut().insert("x-amzn-query-error", http::HeaderValue::from_static(code));
    answer
}
