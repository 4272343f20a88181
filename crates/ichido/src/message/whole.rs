//! A message as JSON, for actions that pass it on whole: the built-in `http` posts it, `exec` writes it to a program. The payload is
//! put in as it came, so every digit of a number stays as it is.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Error, Headers, Message, Payload, error::Result};

/// A message that can be passed on: its payload is JSON.
///
/// Of a table queue the payload is an object whose fields are the columns of the row, as its store writes them: decimals and big
/// integers are numbers with all their digits, bytes are base64, times RFC 3339 (without an offset where the column has none).
#[derive(Debug)]
pub struct Whole(Message);

/// What others get to see of a message.
#[derive(Serialize)]
struct Written<'a> {
    id: String,
    queue: &'a str,
    attempt: u32,
    headers: &'a Headers,
    payload: &'a RawValue,
}

impl Payload for Whole {
    fn decode(message: &Message) -> Result<Self> {
        payload(message)?;
        Ok(Whole(message.clone()))
    }
}

impl Whole {
    /// The message.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.0
    }

    /// `{"id", "queue", "attempt", "headers", "payload"}`.
    ///
    /// # Errors
    /// When it cannot be written, which its payload has excluded.
    pub fn json(&self, attempt: u32) -> Result<String> {
        let Message { queue, headers, .. } = &self.0;
        let written = Written { id: self.0.id().to_string(), queue, attempt, headers, payload: payload(&self.0)? };
        Ok(serde_json::to_string(&written)?)
    }
}

fn payload(message: &Message) -> Result<&RawValue> {
    serde_json::from_slice(&message.payload).map_err(|why| Error::Undecodable(format!("not JSON: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn whole(payload: &[u8]) -> Result<Whole> {
        let mut message = Message::new("orders", Key::new(["a/b", "7"]), payload);
        message.headers.insert("trace".into(), "x\"y".into());
        Whole::decode(&message)
    }

    #[test]
    fn the_payload_is_passed_on_as_it_came() {
        let payload = r#"{"price": 12345678901234567890.10, "big": 9007199254740993, "n": [1, null], "t": "é\u0000"}"#;
        assert_eq!(
            whole(payload.as_bytes()).unwrap().json(3).unwrap(),
            format!(
                r#"{{"id":"orders/a%2Fb/7","queue":"orders","attempt":3,"headers":{{"trace":"x\"y"}},"payload":{payload}}}"#
            )
        );
    }

    #[test]
    fn what_is_not_json_is_hopeless() {
        for payload in [&b""[..], b"{", b"{}x", b"\0", b"\"\xff\"", b"NaN"] {
            assert!(whole(payload).unwrap_err().is_hopeless(), "{payload:?}");
        }
    }
}
