//! The fields of a message as the built-in action `sql` binds them. A field of a table's row goes back as what it came from; of any other
//! message it is what its JSON says, and the server makes of it what it needs.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::value::RawValue;

use crate::{
    Error, Message, Payload,
    error::Result,
    message::{FieldKind, Kinds},
};

/// The fields of a message, each as it was written.
#[derive(Debug)]
pub struct Fields {
    queue: Arc<str>,
    values: HashMap<String, Box<RawValue>>,
    kinds: Kinds,
}

impl Payload for Fields {
    fn decode(message: &Message) -> Result<Self> {
        let values = serde_json::from_slice(&message.payload);
        let values = values.map_err(|why| Error::Undecodable(format!("not a JSON object: {why}")))?;
        Ok(Fields { queue: message.queue.clone(), values, kinds: message.kinds.clone() })
    }
}

/// A field's value, ready to be bound; a number keeps its digits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(&'a str),
    /// A binary fraction of a row.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes of a row.
    Bytes(Vec<u8>),
    /// An object or an array, or what is JSON in a row, as it was written.
    Json(&'a str),
}

impl Fields {
    /// The queue that the message waited in.
    #[must_use]
    pub fn queue(&self) -> &Arc<str> {
        &self.queue
    }

    /// The value of a field.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if the message has no such field.
    pub fn value(&self, name: &str) -> Result<Value<'_>> {
        let raw = self.values.get(name).ok_or_else(|| Error::Undecodable(format!("there is no field `{name}`")))?;
        let value = Value::read(raw)?;
        match self.kinds.get(name) {
            Some(kind) => value.of_row(*kind, raw.get()).map_err(|why| Error::Undecodable(format!("`{name}`: {why}"))),
            None => Ok(value),
        }
    }

    /// The JSON text of a field.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if the message has no such field.
    pub fn json(&self, name: &str) -> Result<&str> {
        self.value(name)?;
        Ok(self.values[name].get())
    }

    /// The names of all fields, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.values.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

impl<'a> Value<'a> {
    fn read(raw: &'a RawValue) -> Result<Self> {
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'n') => Value::Null,
            Some(b't') => Value::Bool(true),
            Some(b'f') => Value::Bool(false),
            Some(b'"') => Value::Text(serde_json::from_str(text).map_err(|why| Error::Undecodable(why.to_string()))?),
            Some(b'{' | b'[') => Value::Json(text),
            _ => Value::Number(text),
        })
    }

    /// What the column of the row had.
    fn of_row(self, kind: FieldKind, raw: &'a str) -> Result<Self, String> {
        Ok(match (kind, self) {
            (_, Value::Null) => Value::Null,
            (FieldKind::Json, _) => Value::Json(raw),
            (FieldKind::Bytes, Value::Text(text)) => {
                Value::Bytes(BASE64_STANDARD.decode(text).map_err(|why| why.to_string())?)
            }
            (FieldKind::Real, Value::Text(text)) => Value::Real(text.parse().map_err(|_| "not a number")?),
            (FieldKind::Real, Value::Number(digits)) => Value::Real(digits.parse().map_err(|_| "not a number")?),
            (FieldKind::Moment, Value::Text(text)) => Value::Text(text.trim_end_matches('Z').to_owned()),
            (_, value) => value,
        })
    }

    /// The value as plain text; none for null.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Value::Null => None,
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(text) | Value::Json(text) => Some((*text).to_owned()),
            Value::Real(number) => Some(number.to_string()),
            Value::Text(text) => Some(text.clone()),
            Value::Bytes(bytes) => Some(BASE64_STANDARD.encode(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn fields(json: &str) -> Result<Fields> {
        Fields::decode(&Message::new("q", Key::new(["1"]), json.as_bytes()))
    }

    #[test]
    fn numbers_keep_every_digit() {
        let fields = fields(r#"{"price": 12345678901234567890.123456789012345678, "n": -0}"#).unwrap();
        assert_eq!(fields.value("price").unwrap(), Value::Number("12345678901234567890.123456789012345678"));
        assert_eq!(fields.value("n").unwrap(), Value::Number("-0"));
    }

    #[test]
    fn each_kind_of_json_value_is_told_apart() {
        let fields = fields(r#"{"a":null,"b":true,"c":"x\"y","d":[1, 2],"e":{"f":1}}"#).unwrap();
        assert_eq!(fields.value("a").unwrap(), Value::Null);
        assert_eq!(fields.value("b").unwrap(), Value::Bool(true));
        assert_eq!(fields.value("c").unwrap(), Value::Text("x\"y".into()));
        assert_eq!(fields.value("d").unwrap(), Value::Json("[1, 2]"));
        assert_eq!(fields.value("e").unwrap(), Value::Json(r#"{"f":1}"#));
    }

    #[test]
    fn a_field_of_a_row_is_what_its_column_was() {
        use FieldKind::{Bytes, Json, Moment, Real};
        let json = r#"{"b":"AP8=","r":0.1,"i":"-Infinity","j":"x","t":"2026-01-01T00:00:00Z","n":null,"bad":"?"}"#;
        let mut message = Message::new("q", Key::new(["1"]), json.as_bytes());
        let kinds = [("b", Bytes), ("r", Real), ("i", Real), ("j", Json), ("t", Moment), ("n", Bytes), ("bad", Bytes)];
        message.kinds = Kinds::new(kinds.map(|(name, kind)| (name.to_owned(), kind)).into());
        let fields = Fields::decode(&message).unwrap();
        assert_eq!(fields.value("b").unwrap(), Value::Bytes(vec![0, 255]));
        assert_eq!(fields.value("r").unwrap(), Value::Real(0.1));
        assert_eq!(fields.value("i").unwrap(), Value::Real(f64::NEG_INFINITY));
        assert_eq!(fields.value("j").unwrap(), Value::Json("\"x\""));
        assert_eq!(fields.value("t").unwrap(), Value::Text("2026-01-01T00:00:00".into()));
        assert_eq!(fields.value("n").unwrap(), Value::Null);
        assert!(fields.value("bad").unwrap_err().is_hopeless());
    }

    #[test]
    fn what_is_not_an_object_or_lacks_a_field_is_hopeless() {
        for json in ["[1]", "3", "", "{", "\u{0}", r#"{"a":1}"#] {
            let missing = fields(json).and_then(|fields| fields.value("b").map(|_| ()));
            assert!(missing.unwrap_err().is_hopeless(), "{json}");
        }
    }
}
