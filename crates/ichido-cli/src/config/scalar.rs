//! A value that a column or an option can have. Table queues compare columns with it.

/// A text, a whole number or a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar {
    /// A text in quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Flag(bool),
}

impl Scalar {
    /// The value as text, such as `0` for both `"0"` and `0`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}
