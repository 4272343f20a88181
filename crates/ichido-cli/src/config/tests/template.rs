//! What `ichido init` writes is true: each key that is commented out has its default behind it, and no key is forgotten.

use super::super::{
    Config, TEMPLATE, action, action_kind, broker, built, database, dispatch, lanes, log, process, queue, serve, table,
    telemetry, with_url,
};
use super::parse;

/// The file with every key and section in force: `#key`, where prose is `# text`.
fn in_force() -> String {
    let line = |line: &'static str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest,
        _ => line,
    };
    TEMPLATE.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What has no default and must be said.
const NEEDED: &str = r#"
[queues.hello]
[queues.orders]
table = "received_order"
status = { column = "status", new = "0", done = "1", failed = "2" }
owner = "process_id"
[queues.shipments]
rabbitmq = { url = "amqp://localhost", queue = "shipments" }
[queues.invoices]
sqs = { queue = "invoices", dead_letter = "invoices-dead" }
[lanes.site]
policy = "strict"
levels = [{ level = "member", queue = "members" }, { level = "free", queue = "everybody" }]
[actions.Hello]
from = "hello"
sql = ["select :name"]
"#;

#[test]
fn every_key_in_force_is_its_default() {
    let all: Config = parse(&in_force()).unwrap();
    assert_eq!(all, parse(NEEDED).unwrap());
    assert_ne!(in_force(), TEMPLATE);
}

#[test]
fn the_file_is_right_as_it_is_written_and_no_line_is_too_long() {
    let config = parse(TEMPLATE).unwrap();
    assert_eq!((config.queues.len(), config.actions.len()), (1, 1));
    assert_eq!(config.database.url.as_str(), "sqlite://ichido.db");
    assert_eq!(parse(&with_url("postgres://x/y\"z")).unwrap().database.url.as_str(), "postgres://x/y\"z");
    for line in TEMPLATE.lines() {
        assert!(line.len() <= 120, "{line}");
    }
}

/// The lines of a section, also of those inside it.
fn section(name: &str) -> String {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in TEMPLATE.lines() {
        if let Some(head) = line.trim_start_matches('#').strip_prefix('[') {
            inside = head.split([']', '.']).next() == Some(name);
            // A section of its own is a key of the one around it.
            lines.extend(inside.then(|| head.replace(['.', ']'], "\n")));
        } else if inside {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

/// Is it a key here: at the beginning of a line, commented out or told of?
fn mentions(text: &str, key: &str) -> bool {
    text.lines().any(|line| {
        let word = line.trim_start_matches(['#', ' ']).split([' ', ':', '=']).next();
        word == Some(key)
    })
}

#[test]
fn no_key_is_forgotten() {
    let sections: [(&str, Vec<&str>); 11] = [
        ("database", database::KEYS.to_vec()),
        ("process", [&process::KEYS[..], &process::RETRY_KEYS[..]].concat()),
        ("log", log::KEYS.to_vec()),
        ("telemetry", telemetry::KEYS.to_vec()),
        ("serve", serve::KEYS.to_vec()),
        ("dispatch", dispatch::KEYS.to_vec()),
        ("queues", [&table::KEYS[..], &queue::KEYS[..]].concat()),
        ("queues", [&broker::RABBITMQ_KEYS[..], &broker::MUTEX_KEYS[..]].concat()),
        ("queues", [&broker::SQS_KEYS[..], &broker::MUTEX_KEYS[..]].concat()),
        ("lanes", lanes::KEYS.to_vec()),
        ("actions", [&action::KEYS[..], &action_kind::KEYS[..]].concat()),
    ];
    for (name, keys) in sections {
        let text = section(name);
        for key in keys {
            let told = mentions(&text, key) || key == "time"; // in the prose above [process.retry]
            let built = !built::KEYS.iter().any(|path| path.ends_with(&format!(".{key}")));
            assert_eq!(
                told,
                built,
                "{name}.{key} is {} the template",
                if told { "not built, and in" } else { "not in" }
            );
        }
    }
}
