//! Tests of the configuration: what is accepted, and the words with which the rest is refused.

mod accepted;
mod built;
mod draft;
mod identifiers;
mod lanes;
mod queues;
mod rubbish;
mod rules;
mod secrets;
mod serve;
mod template;
mod typos;
mod values;
mod variables;

use super::document;
use super::file::KEYS;
use super::section::Section;
use super::{Config, ConfigError};

/// The example of the manual.
const EXAMPLE: &str = r#"[database]
url = "sqlite://ichido.db"

[queues.orders]                       # a table of your own
table  = "received_order"
key    = ["id"]
status = { column = "status", new = "0", done = "1", failed = "2" }
owner  = "process_id"

[queues.mail]                         # ichido's own table: just a name

[actions.ProjectCreation]
from        = "orders"                # a queue or a lane set
concurrency = 8
sql         = ["insert into project (id, name) values (:id, :name)"]
"#;

fn nothing_set(_: &str) -> Option<String> {
    None
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "ichido.toml", &nothing_set)
}

/// Reads everything, also what this version does not build yet.
fn understand(text: &str) -> Result<Config, ConfigError> {
    let document = document::parse(text, "ichido.toml", &nothing_set)?;
    Config::read(&Section::root("ichido.toml", &document).allow(&KEYS)?)
}

fn accepted(text: &str) -> Config {
    understand(text).unwrap_or_else(|error| panic!("refused:\n{error}\nin:\n{text}"))
}

/// What the user reads when `text` is refused.
#[track_caller]
fn refusal(text: &str) -> String {
    match understand(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that `text` is refused with a message that contains all the given parts.
#[track_caller]
fn refused(text: &str, parts: &[&str]) {
    let message = refusal(text);
    for part in parts {
        assert!(message.contains(part), "no {part:?} in:\n{message}");
    }
    assert!(message.starts_with("ichido.toml:"), "no file in:\n{message}");
    assert!(message.lines().count() <= 2, "too long:\n{message}");
}

/// A queue with these lines.
fn with_queue(lines: &str) -> String {
    format!("[queues.q]\n{lines}\n")
}

/// A table queue with everything it needs, and some lines more.
fn with_table(lines: &str) -> String {
    let needed = "table = \"t\"\nstatus = { column = \"s\", new = 0, done = 1 }\nowner = \"o\"";
    with_queue(&format!("{needed}\n{lines}"))
}

/// An action that has all it needs, and some lines more.
fn with_action(lines: &str) -> String {
    format!("[queues.q]\n[actions.A]\nfrom = \"q\"\n{lines}\n")
}
