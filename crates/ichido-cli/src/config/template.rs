//! The configuration that `ichido init` writes: every key with its default, commented out.

use super::lines;

/// Its text, for a SQLite database.
pub const TEMPLATE: &str = include_str!("template.toml");

/// The same for the database at this address.
#[must_use]
pub fn with_url(url: &str) -> String {
    TEMPLATE.replacen("\nurl = \"sqlite://ichido.db\"\n", &format!("\nurl = {}\n", lines::text(url)), 1)
}
