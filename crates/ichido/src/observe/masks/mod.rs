//! What must not be seen: names of columns, fields and headers whose values no log line and no command shows. The journal and
//! `ichido failed` ask it for a message as it may be shown; an error that repeats a masked value is masked there too.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::Headers;

mod automaton;
mod hidden;

pub use hidden::Hidden;

/// What replaces a masked value.
pub const MASK: &str = "***";

/// What is nested deeper than this is masked as a whole.
const DEEPEST: usize = 64;

/// The names whose values are not shown. Case, `_` and `-` make no difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Masks {
    names: Arc<[String]>,
}

impl Masks {
    /// These names.
    pub fn new<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        Masks { names: names.into_iter().map(|name| plain(name.as_ref())).collect() }
    }

    /// Is nothing masked?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Is the value of this name masked?
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        !self.is_empty() && self.names.contains(&plain(name))
    }

    /// A payload as it may be shown. If anything is masked, a payload that is not JSON is not shown at all.
    #[must_use]
    pub fn payload<'a>(&self, payload: &'a [u8]) -> Cow<'a, str> {
        if self.is_empty() || payload.is_empty() {
            return String::from_utf8_lossy(payload);
        }
        match self.look_into(payload) {
            Some(looked) => Cow::Owned(looked.shown),
            None => Cow::Owned(format!("({} bytes, not JSON)", payload.len())),
        }
    }

    /// Headers as they may be shown.
    #[must_use]
    pub fn headers(&self, headers: &Headers) -> Headers {
        let shown = |(name, value): (&String, &String)| {
            let value = if self.covers(name) { MASK.to_owned() } else { self.inside(value).shown };
            (name.clone(), value)
        };
        headers.iter().map(shown).collect()
    }

    /// A text about a message, such as an error, without the masked values that it repeats.
    #[must_use]
    pub fn text(&self, text: &str, payload: &[u8], headers: &Headers) -> String {
        self.hidden(payload, headers).hide(text)
    }

    /// The values of a message to hide, for many texts about it.
    #[must_use]
    pub fn hidden(&self, payload: &[u8], headers: &Headers) -> Hidden {
        if self.is_empty() {
            return Hidden::default();
        }
        let mut secrets = match self.look_into(payload) {
            Some(looked) => looked.secrets,
            None if payload.is_empty() => Vec::new(),
            // Which values are masked cannot be told: whatever is quoted may be one.
            None => return Hidden::quoted(),
        };
        for (name, value) in headers {
            if self.covers(name) {
                secrets.push(value.clone());
            } else {
                secrets.extend(self.inside(value).secrets);
            }
        }
        Hidden::new(&secrets)
    }

    fn look_into(&self, payload: &[u8]) -> Option<Looked> {
        let value: &RawValue = serde_json::from_slice(payload).ok()?;
        let mut looked = Looked::default();
        self.look(&mut looked, value, 0).ok()?;
        Some(looked)
    }

    /// Looks at one value: writes it down as it may be shown, and collects what may not.
    fn look(&self, looked: &mut Looked, value: &RawValue, depth: usize) -> serde_json::Result<()> {
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'{' | b'[') if depth >= DEEPEST => looked.mask(),
            Some(b'{') => {
                looked.shown.push('{');
                for (at, (name, value)) in serde_json::from_str::<Fields>(text)?.0.into_iter().enumerate() {
                    looked.shown.push_str(if at > 0 { "," } else { "" });
                    looked.shown.push_str(&serde_json::to_string(&name)?);
                    looked.shown.push(':');
                    if self.covers(&name) {
                        looked.mask();
                        collect(&mut looked.secrets, value, depth + 1)?;
                    } else {
                        self.look(looked, value, depth + 1)?;
                    }
                }
                looked.shown.push('}');
            }
            Some(b'[') => {
                looked.shown.push('[');
                for (at, value) in serde_json::from_str::<Vec<&RawValue>>(text)?.into_iter().enumerate() {
                    looked.shown.push_str(if at > 0 { "," } else { "" });
                    self.look(looked, value, depth + 1)?;
                }
                looked.shown.push(']');
            }
            Some(b'"') => {
                let inside = self.inside(&serde_json::from_str::<String>(text)?);
                looked.shown.push_str(&serde_json::to_string(&inside.shown)?);
                looked.secrets.extend(inside.secrets);
            }
            _ => looked.shown.push_str(text),
        }
        Ok(())
    }

    /// A text that may be JSON itself: a column of a database that has no type for it, or a header.
    fn inside(&self, text: &str) -> Looked {
        if !self.is_empty() && text.trim_start().starts_with(['{', '[']) {
            if let Some(looked) = self.look_into(text.as_bytes()) {
                return looked;
            }
            let words = plain(text);
            if self.names.iter().any(|name| words.contains(name)) {
                return Looked { shown: MASK.to_owned(), secrets: vec![text.to_owned()] };
            }
        }
        Looked { shown: text.to_owned(), secrets: Vec::new() }
    }
}

/// A value as it may be shown, and what was left out.
#[derive(Default)]
struct Looked {
    shown: String,
    secrets: Vec<String>,
}

impl Looked {
    fn mask(&mut self) {
        self.shown.push('"');
        self.shown.push_str(MASK);
        self.shown.push('"');
    }
}

/// An object's fields as they stand there, also those that are there twice.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Each).map(Fields)
    }
}

/// All texts and numbers in a masked value.
fn collect(secrets: &mut Vec<String>, value: &RawValue, depth: usize) -> serde_json::Result<()> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') if depth < DEEPEST => {
            for (_, value) in serde_json::from_str::<Fields>(text)?.0 {
                collect(secrets, value, depth + 1)?;
            }
        }
        Some(b'[') if depth < DEEPEST => {
            for value in serde_json::from_str::<Vec<&RawValue>>(text)? {
                collect(secrets, value, depth + 1)?;
            }
        }
        Some(b'"') => {
            let inside: String = serde_json::from_str(text)?;
            if let Ok(value) = serde_json::from_str::<&RawValue>(&inside)
                && inside.trim_start().starts_with(['{', '['])
            {
                collect(secrets, value, depth + 1)?;
            }
            secrets.push(inside);
        }
        Some(b't' | b'f' | b'n') => {}
        _ => secrets.push(text.to_owned()),
    }
    Ok(())
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks() -> Masks {
        Masks::new(["card", "X-Api-Key"])
    }

    #[test]
    fn a_named_value_is_masked_wherever_it_is() {
        let cases = [
            (r#"{"id":1,"card":"4111"}"#, r#"{"id":1,"card":"***"}"#),
            (r#"{"CARD":4111,"Card":null}"#, r#"{"CARD":"***","Card":"***"}"#),
            (r#"{"a":[{"b":{"x_api_key":{"deep":1}}}],"n":1.50}"#, r#"{"a":[{"b":{"x_api_key":"***"}}],"n":1.50}"#),
            (r#"{"json":"{\"card\":\"4111\"}"}"#, r#"{"json":"{\"card\":\"***\"}"}"#),
            (r#"{"json":"{\"card\":\"4111\""}"#, r#"{"json":"***"}"#),
            (r#"["card", "4111"]"#, r#"["card","4111"]"#),
            ("7", "7"),
        ];
        for (payload, shown) in cases {
            assert_eq!(masks().payload(payload.as_bytes()), shown);
        }
    }

    #[test]
    fn what_cannot_be_looked_into_is_not_shown() {
        assert_eq!(masks().payload(br#"{"card":"4111""#), "(14 bytes, not JSON)");
        assert_eq!(Masks::default().payload(br#"{"card":"4111""#), r#"{"card":"4111""#);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(masks().payload(deep.as_bytes()).contains(MASK));
        assert_eq!(masks().text(r#"invalid type: string "4111""#, br#"{"card":"4111","#, &Headers::new()), {
            r#"invalid type: string "…""#
        });
    }

    #[test]
    fn an_error_does_not_repeat_a_masked_value() {
        let hidden = |card: &str, error: &str| {
            let payload = serde_json::to_vec(&serde_json::json!({ "card": card, "name": "it" })).unwrap();
            masks().text(error, &payload, &Headers::new())
        };
        assert_eq!(hidden("4111-2222", "Duplicate entry '4111-2222' for key"), "Duplicate entry '***' for key");
        assert_eq!(hidden("it's \"it\"", r#"bad "it's \"it\"" here"#), r#"bad "***" here"#);
        let (long, cut) = ("4111222233334444".repeat(4), "4111222233334444".repeat(2));
        assert_eq!(hidden(&long, &format!("bad {cut}...")), "bad ***...");
        assert_eq!(hidden("12", "line 12 of 312: it"), "line *** of 312: it");
        assert_eq!(hidden("", "nothing"), "nothing");
    }

    #[test]
    fn a_masked_value_is_found_however_it_is_written() {
        let hidden = |card: &str, text: &str| {
            let payload = serde_json::to_vec(&serde_json::json!({ "card": card })).unwrap();
            masks().text(text, &payload, &Headers::new())
        };
        let key = "-----BEGIN KEY-----\nMIIEvQ+IBA/DAN==\nkiG9w0\n-----END KEY-----\n";
        for line in key.lines() {
            assert_eq!(hidden(key, &format!("stderr: {line}")), "stderr: ***");
        }
        assert_eq!(hidden(key, &format!("it is {}.", key.trim().replace('\n', " "))), "it is ***.");
        assert_eq!(hidden("12345  Old Elm\tStreet", "no 12345 Old Elm Street"), "no ***");
        for text in [r#"{"card": "\u5c71\u7530"}"#, r#"{"card": "\u5C71\u7530"}"#, r#"{"card": "山田"}"#] {
            assert_eq!(hidden("山田", text), r#"{"card": "***"}"#);
        }
        assert_eq!(hidden("a\u{1}é😀", r"a\u0001\u00e9\ud83d\ude00"), "***");
        assert_eq!(hidden("a\u{1}é", r"a\u0001é"), "***");
    }

    #[test]
    fn many_values_that_are_alike_cost_no_more_than_their_length() {
        // 60,000 values over 700,000 bytes of text: one pass per value would take hours.
        let cards: Vec<_> = (0..60_000).map(|n| format!("{:08}", n * 1000)).collect();
        let payload = serde_json::to_vec(&serde_json::json!({ "card": cards })).unwrap();
        let text = "00000000 ".repeat(80_000);
        let shown = masks().text(&text, &payload, &Headers::new());
        assert_eq!(shown, "*** ".repeat(80_000));
        // The worst for a search that begins anew at every place.
        let payload = serde_json::to_vec(&serde_json::json!({ "card": ["a".repeat(200_000), "aaaab"] })).unwrap();
        let shown = masks().text(&"a".repeat(300_000), &payload, &Headers::new());
        assert_eq!(shown, MASK);
    }

    #[test]
    fn more_values_than_can_be_looked_for_hide_the_whole_text() {
        let cards: Vec<_> = (0..200_000).map(|n| format!("{n:08}")).collect();
        let payload = serde_json::to_vec(&serde_json::json!({ "card": cards })).unwrap();
        assert_eq!(masks().text("no such card: 00199999", &payload, &Headers::new()), MASK);
    }

    #[test]
    fn headers_are_masked_too() {
        let headers = Headers::from([("x-api-key".into(), "s3cret".into()), ("to".into(), r#"{"card":1}"#.into())]);
        let shown = masks().headers(&headers);
        assert_eq!((&*shown["x-api-key"], &*shown["to"]), (MASK, r#"{"card":"***"}"#));
        assert_eq!(masks().text("s3cret is wrong", b"1", &headers), "*** is wrong");
    }
}
