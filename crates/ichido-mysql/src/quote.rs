//! Identifiers and literals for SQL text. Identifiers come from the configuration only; values are bound wherever the planner
//! does not need to see them.

use std::fmt::Write;

use ichido::{Error, error::Result};

/// Longer names are refused by the server.
const LONGEST_NAME: usize = 64;

/// A quoted identifier.
pub(crate) fn name(text: &str) -> Result<String> {
    if text.is_empty() || text.chars().count() > LONGEST_NAME || text.contains('\0') {
        return Err(Error::Setup(format!("`{text}` cannot be a name: 1 to {LONGEST_NAME} characters, no NUL")));
    }
    Ok(format!("`{}`", text.replace('`', "``")))
}

/// A string literal.
pub(crate) fn literal(text: &str) -> Result<String> {
    if text.contains('\0') {
        return Err(Error::Setup("a value in the configuration contains NUL".into()));
    }
    if !text.contains(['\\', '\'']) {
        return Ok(format!("'{text}'"));
    }
    // Whether a backslash escapes depends on the server's mode; bytes mean the same in every mode.
    let mut hex = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(format!("_utf8mb4 x'{hex}'"))
}

/// The parameters of a list; they are bound [`padded`](ichido_sql::padded).
pub(crate) fn places<T>(list: &[T]) -> String {
    vec!["?"; ichido_sql::padded_len(list.len())].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_cannot_be_left() {
        assert_eq!(name("a`; drop table b; --").unwrap(), "`a``; drop table b; --`");
        assert_eq!(literal("0").unwrap(), "'0'");
        assert_eq!(literal("\\'").unwrap(), "_utf8mb4 x'5c27'");
    }

    #[test]
    fn names_that_the_server_would_refuse_are_refused() {
        assert!(name("").is_err());
        assert!(name("a\0b").is_err());
        assert!(name(&"x".repeat(65)).is_err());
        assert!(literal("a\0").is_err());
    }
}
