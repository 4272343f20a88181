//! The built-in action `sql`: statements from the configuration, run in the business transaction. `:name` is a column of the
//! row or a field of the message; the store binds it, typed by the server. Nothing from a message ever becomes SQL text.

use std::{collections::HashMap, sync::Arc};

use serde_json::value::RawValue;

mod template;

pub use template::{Part, Template};

use crate::{Action, Context, Error, Outcome, Payload, Result, Store};

/// What a store does for the built-in action.
pub trait RunSql: Store {
    /// Runs one statement with the fields of a message, in the caller's transaction.
    fn run_sql(
        &self,
        connection: &mut Self::Connection,
        statement: &Template,
        fields: &Fields,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Says at start what the server would say about a statement later.
    fn check_sql(&self, statement: &Template) -> impl Future<Output = Result<()>> + Send;
}

/// Statements to run for each message.
#[derive(Debug, Clone)]
pub struct SqlAction {
    statements: Arc<[Template]>,
}

impl SqlAction {
    /// An action that runs these statements, in order.
    ///
    /// # Errors
    /// [`Error::Setup`] if a string, a comment or a quoted name in one of them does not end.
    pub fn new<T: AsRef<str>>(statements: impl IntoIterator<Item = T>) -> Result<Self> {
        let statements = statements.into_iter().map(|text| Template::parse(text.as_ref())).collect::<Result<_>>()?;
        Ok(SqlAction { statements })
    }

    /// The statements.
    #[must_use]
    pub fn statements(&self) -> &[Template] {
        &self.statements
    }
}

impl<S: RunSql> Action<S> for SqlAction {
    type Message = Fields;

    async fn handle(&self, cx: &mut Context<S>, fields: Fields) -> Result<Outcome> {
        let store = cx.store().clone();
        for statement in &*self.statements {
            store.run_sql(cx.tx().await?, statement, &fields).await?;
        }
        Ok(Outcome::Done)
    }
}

/// The fields of a message, each as it was written.
#[derive(Debug)]
pub struct Fields(HashMap<String, Box<RawValue>>);

impl Payload for Fields {
    fn decode(message: &crate::Message) -> Result<Self> {
        let fields = serde_json::from_slice(&message.payload);
        fields.map(Fields).map_err(|why| Error::Undecodable(format!("not a JSON object: {why}")))
    }
}

/// A field's value, ready to be bound; a number keeps its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(&'a str),
    /// A text.
    Text(String),
    /// An object or an array, as it was written.
    Json(&'a str),
}

impl Fields {
    /// The value of a field.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if the message has no such field.
    pub fn value(&self, name: &str) -> Result<Value<'_>> {
        let raw = self.0.get(name).ok_or_else(|| Error::Undecodable(format!("it has no field `{name}`")))?;
        Value::read(raw)
    }

    /// The JSON text of a field.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if the message has no such field.
    pub fn json(&self, name: &str) -> Result<&str> {
        self.value(name)?;
        Ok(self.0[name].get())
    }

    /// The names of all fields, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.keys().map(String::as_str).collect();
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

    /// The value as plain text; none for null.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Value::Null => None,
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(text) | Value::Json(text) => Some((*text).to_owned()),
            Value::Text(text) => Some(text.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Message};

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
    fn what_is_not_an_object_or_lacks_a_field_is_hopeless() {
        for json in ["[1]", "3", "", "{", "\u{0}", r#"{"a":1}"#] {
            let missing = fields(json).and_then(|fields| fields.value("b").map(|_| ()));
            assert!(missing.unwrap_err().is_hopeless(), "{json}");
        }
    }
}
