//! A client of the API of Amazon SQS that blocks, for tests that look at queues from outside: at a server directly, or through an
//! injector. Anything that the API has can be asked, in its JSON protocol.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

/// A region for which clients may sign: the server has them all.
pub const REGION: &str = "eu-central-1";

/// How many messages are where, in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Can be received now.
    pub visible: u32,
    /// Received, and neither deleted nor visible again.
    pub in_flight: u32,
    /// Not yet to be received.
    pub delayed: u32,
}

impl Waiting {
    /// All of them.
    #[must_use]
    pub fn all(self) -> u32 {
        self.visible + self.in_flight + self.delayed
    }
}

/// Where the API is.
#[derive(Debug, Clone, Copy)]
pub struct Api(SocketAddr);

impl Api {
    /// The API at this address.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self(address)
    }

    /// Carries out an action of the API, such as `SendMessage`.
    ///
    /// # Panics
    ///
    /// If the server refuses it; the message has its answer.
    #[allow(clippy::must_use_candidate, reason = "most calls are made for what they do")]
    pub fn call(&self, action: &str, request: &Value) -> Value {
        self.try_call(action, request).unwrap_or_else(|answer| panic!("{action} of {request}: {answer}"))
    }

    /// The same, with the server's answer if it refuses it.
    ///
    /// # Errors
    ///
    /// What the server says; null if it hangs up without a word.
    pub fn try_call(&self, action: &str, request: &Value) -> Result<Value, Value> {
        let answer = post(self.0, action, request).unwrap_or_default();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let body: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        if head.split(' ').nth(1) == Some("200") { Ok(body) } else { Err(body) }
    }

    /// The address of a queue, if there is one of this name.
    #[must_use]
    pub fn queue_url(&self, name: &str) -> Option<String> {
        let found = self.try_call("GetQueueUrl", &json!({ "QueueName": name })).ok()?;
        found["QueueUrl"].as_str().map(str::to_owned)
    }

    /// What is in a queue; nothing in one that is not there.
    #[must_use]
    pub fn waiting(&self, name: &str) -> Waiting {
        let Some(url) = self.queue_url(name) else { return Waiting::default() };
        let found = self.call("GetQueueAttributes", &json!({ "QueueUrl": url, "AttributeNames": ["All"] }));
        let count = |suffix: &str| {
            let text = found["Attributes"][format!("ApproximateNumberOfMessages{suffix}")].as_str();
            text.and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        Waiting { visible: count(""), in_flight: count("NotVisible"), delayed: count("Delayed") }
    }
}

/// The whole answer, head and body, to a request of the API's JSON protocol.
fn post(address: SocketAddr, action: &str, request: &Value) -> io::Result<String> {
    let body = request.to_string();
    let head = format!(
        "POST / HTTP/1.0\r\nHost: {address}\r\nX-Amz-Target: AmazonSQS.{action}\r\n\
         Content-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/sqs/aws4_request, \
         SignedHeaders=host, Signature=0\r\n\r\n",
        body.len()
    );
    let mut answer = String::new();
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
