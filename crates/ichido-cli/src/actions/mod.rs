//! The built-in actions that leave the database: `http` posts a message, `exec` runs a program. Both pass it on as JSON and open no
//! transaction while they wait; what they do elsewhere happens at least once, with the message's id as the key.

pub(crate) mod exec;
mod groups;
pub(crate) mod http;
mod output;
mod retry_after;

/// So much of what somebody else says is kept in the reason of a failure, in bytes.
const REASON: usize = 1000;

/// A foreign text on one line, without control characters.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<_> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
