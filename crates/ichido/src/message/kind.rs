//! The field of a payload that says its kind: read without reading the rest, and written into what is sent. Knows JSON and nothing
//! else; `action/kinds.rs` chooses an action by it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::{Error, error::Result};

/// The kind that this field of the payload says: a text as it is, a number or a boolean as it is written. None if the field is not
/// there, or null.
pub(crate) fn read(field: &str, payload: &[u8]) -> Result<Option<String>> {
    match find(field, payload)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(kind)) => Ok(Some(kind)),
        Some(kind @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(kind.to_string())),
        Some(_) => Err(Error::Undecodable(format!("the field `{field}` must be a text"))),
    }
}

/// The payload with its kind in it, which must be an object.
pub(crate) fn write(field: &str, kind: &str, payload: Vec<u8>) -> Result<Vec<u8>> {
    let Some(fields) = payload.strip_prefix(b"{") else {
        return Err(Error::Refused(format!("a message with a kind must be a JSON object with room for `{field}`")));
    };
    match find(field, &payload)? {
        Some(Value::String(own)) if own == kind => return Ok(payload),
        Some(own) => {
            return Err(Error::Refused(format!(
                "the message's own field `{field}` is {own}, but its kind is `{kind}`"
            )));
        }
        None => {}
    }
    let mut written = b"{".to_vec();
    serde_json::to_writer(&mut written, field)?;
    written.push(b':');
    serde_json::to_writer(&mut written, kind)?;
    if fields != b"}" {
        written.push(b',');
    }
    written.extend_from_slice(fields);
    Ok(written)
}

/// This field of an object, if it is there.
fn find(field: &str, payload: &[u8]) -> Result<Option<Value>> {
    let mut json = serde_json::Deserializer::from_slice(payload);
    let undecodable = |why: serde_json::Error| Error::Undecodable(why.to_string());
    let found = Field(field).deserialize(&mut json).map_err(undecodable)?;
    json.end().map_err(undecodable)?;
    Ok(found)
}

/// Finds one field of an object.
struct Field<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with a field `{}`", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            if name == self.0 && found.is_none() {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_read_wherever_it_is() {
        for (payload, kind) in [
            (r#"{"kind":"a"}"#, Some("a")),
            (r#"{"n":{"kind":"inner"},"x":[1,{"kind":"b"}],"kind":"a\"é"}"#, Some("a\"é")),
            (r#"{"kind":7}"#, Some("7")),
            (r#"{"kind":true}"#, Some("true")),
            (r#"{"kind":null}"#, None),
            ("{}", None),
        ] {
            assert_eq!(read("kind", payload.as_bytes()).unwrap().as_deref(), kind, "{payload}");
        }
        for payload in ["", "[]", "\"kind\"", "{", r#"{"kind":"a"}x"#, r#"{"kind":{}}"#, r#"{"kind":["a"]}"#] {
            assert!(matches!(read("kind", payload.as_bytes()), Err(Error::Undecodable(_))), "{payload}");
        }
    }

    #[test]
    fn the_kind_is_written_into_an_object_once() {
        let written =
            |payload: &str| write("kind", "a\"b", payload.into()).map(|json| String::from_utf8(json).unwrap());
        assert_eq!(written("{}").unwrap(), r#"{"kind":"a\"b"}"#);
        assert_eq!(written(r#"{"id":1.10}"#).unwrap(), r#"{"kind":"a\"b","id":1.10}"#);
        assert_eq!(written(r#"{"id":1,"kind":"a\"b"}"#).unwrap(), r#"{"id":1,"kind":"a\"b"}"#);
        for refused in ["1", "[]", "null", "\"{}\"", r#"{"kind":"b"}"#, r#"{"kind":null}"#] {
            assert!(matches!(written(refused), Err(Error::Refused(_))), "{refused}");
        }
    }
}
