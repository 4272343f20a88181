//! Identifiers and literals for SQL text. Identifiers come from the configuration only; values are bound wherever the planner
//! does not need to see them.

use ichido::{Error, error::Result};

/// PostgreSQL cuts longer names off silently, and two queues could become one.
const LONGEST_NAME: usize = 63;

/// A quoted identifier.
pub(crate) fn name(text: &str) -> Result<String> {
    if text.is_empty() || text.len() > LONGEST_NAME || text.contains('\0') {
        return Err(Error::Setup(format!("`{text}` cannot be a name: 1 to {LONGEST_NAME} bytes, no NUL")));
    }
    Ok(format!("\"{}\"", text.replace('"', "\"\"")))
}

/// A string literal.
pub(crate) fn literal(text: &str) -> Result<String> {
    if text.contains('\0') {
        return Err(Error::Setup("a value in the configuration contains NUL".into()));
    }
    // E'' reads backslashes the same way whatever standard_conforming_strings says.
    Ok(if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", text.replace('\'', "''"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_cannot_be_left() {
        assert_eq!(name("a\"; drop table b; --").unwrap(), "\"a\"\"; drop table b; --\"");
        assert_eq!(literal("it's").unwrap(), "'it''s'");
        assert_eq!(literal("\\'; drop").unwrap(), "E'\\\\''; drop'");
    }

    #[test]
    fn names_that_the_server_would_change_are_refused() {
        assert!(name("").is_err());
        assert!(name("a\0b").is_err());
        assert!(name(&"x".repeat(64)).is_err());
        assert!(literal("a\0").is_err());
    }
}
