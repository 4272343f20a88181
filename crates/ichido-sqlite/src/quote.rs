//! Identifiers and literals for SQL text. Identifiers come from the configuration only; values are bound wherever the planner
//! does not need to see them.

use ichido::{Error, error::Result};

/// A quoted identifier.
pub(crate) fn name(text: &str) -> Result<String> {
    if text.is_empty() || text.contains('\0') {
        return Err(Error::Setup(format!("`{text}` cannot be a name: it must not be empty or contain NUL")));
    }
    Ok(format!("\"{}\"", text.replace('"', "\"\"")))
}

/// A string literal.
pub(crate) fn literal(text: &str) -> Result<String> {
    if text.contains('\0') {
        return Err(Error::Setup("a value in the configuration contains NUL".into()));
    }
    Ok(format!("'{}'", text.replace('\'', "''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_cannot_be_left() {
        assert_eq!(name("a\"; drop table b; --").unwrap(), "\"a\"\"; drop table b; --\"");
        assert_eq!(literal("it's \\").unwrap(), "'it''s \\'");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        assert!(name("").is_err());
        assert!(name("a\0b").is_err());
        assert!(literal("a\0").is_err());
    }
}
