//! Values of the wrong type, and values that are written wrongly.

use std::time::Duration;

use super::super::parse_duration;
use super::{accepted, refusal, refused, with_action, with_queue, with_table};

#[test]
fn a_wrong_type_is_answered_with_what_was_found_and_what_is_allowed() {
    assert_eq!(
        refusal(&with_action("concurrency = \"8\"")),
        "ichido.toml:4: actions.A.concurrency: found \"8\", expected a whole number from 1 to 1024"
    );
    let cases = [
        ("[database]\nurl = 5", "database.url: found 5, expected a string in quotes"),
        ("[database]\npool = 4.5", "database.pool: found 4.5, expected a whole number"),
        ("database = 5", "ichido.toml:1: database: found 5, expected a table of keys"),
        ("database = []", "database: found a list, expected a table of keys"),
        ("queues = \"mail\"", "queues: found \"mail\", expected a table of keys"),
        ("[queues]\nmail = 1", "ichido.toml:2: queues.mail: found 1, expected a table of keys"),
        ("[process]\nnotify = 1", "process.notify: found 1, expected true or false"),
        ("[process]\nnotify = \"true\"", "process.notify: found \"true\", expected true or false"),
        ("[process]\nlease = true", "process.lease: found true, expected a duration like \"30s\""),
        ("[process]\nlease = 2020-01-01", "process.lease: found a date, expected a duration"),
        ("[process]\nexempt = \"a\"", "process.exempt: found \"a\", expected a list in square brackets"),
        ("[process]\nhandlers = [5]", "process.handlers[0]: found 5, expected a handler's name"),
        ("[log]\nformat = 1", "log.format: found 1, expected \"text\" or \"json\""),
        ("[log]\nlevel = \"inf\"", "found \"inf\", expected one of \"error\", \"warn\""),
        ("[log]\nmask = [1]", "log.mask[0]: found 1, expected a string in quotes"),
    ];
    for (text, message) in cases {
        refused(text, &[message]);
    }
    refused("[log]\nlevel = \"inf\"", &["did you mean `info`?"]);
}

#[test]
fn wrong_types_in_queues_and_actions_are_found() {
    refused(&with_table("key = \"id\""), &["ichido.toml:5: queues.q.key: found \"id\", expected a list"]);
    refused(&with_table("only = { a = 1.5 }"), &["queues.q.only.a: found 1.5, expected a string, a whole number"]);
    refused(&with_queue("rabbitmq = true"), &["queues.q.rabbitmq: found true, expected a table"]);
    refused(&with_action("sql = \"select 1\""), &["actions.A.sql: found \"select 1\", expected a list"]);
    refused(&with_action("sql = [\n\"select 1\",\n2]"), &["ichido.toml:6: actions.A.sql[1]: found 2"]);
    refused(&with_action("isolation = \"read commited\""), &["did you mean `read committed`?"]);
    refused(&with_action("commit_on = [\"errors\"]"), &["expected \"park\" or \"error\"; did you mean `error`?"]);
    refused(&with_action("retry = { factor = \"2\" }"), &["retry.factor: found \"2\", expected a number"]);
    refused(&with_action("retry = { factor = nan }"), &["retry.factor: found NaN, expected a number"]);
    refused(
        &with_action("concurrency = 99999999999999999999"),
        &["actions.A.concurrency: the number 99999999999999999999 is too large"],
    );
}

#[test]
fn a_duration_without_a_unit_is_answered_with_what_to_write() {
    refused("[process]\nlease = 30", &["process.lease: 30 has no unit; write it like \"30s\""]);
    refused("[process]\nlease = \"30\"", &["process.lease: \"30\" has no unit; write it like \"30s\""]);
    refused("[process]\nlease = 0", &["process.lease: 0 has no unit"]);
}

#[test]
fn durations_are_whole_numbers_with_units() {
    let millis = |text: &str| parse_duration(text).map(|duration| duration.as_millis());
    assert_eq!(millis("20ms"), Ok(20));
    assert_eq!(millis("30s"), Ok(30_000));
    assert_eq!(millis("15m"), Ok(900_000));
    assert_eq!(millis("1h30m"), Ok(5_400_000));
    assert_eq!(millis(" 1h 30 m "), Ok(5_400_000));
    assert_eq!(parse_duration("90d"), Ok(Duration::from_hours(90 * 24)));
    assert_eq!(parse_duration("36500d"), Ok(Duration::from_hours(36500 * 24)));
    for text in ["5M", "1.5s", "-1s", "s", "1 0s", "s1", "1s-", "½s", "1µs", "five", "1h 30", "\u{661}s"] {
        let error = parse_duration(text).unwrap_err();
        assert!(error.contains("write"), "{text}: {error}");
    }
    assert!(parse_duration(" ").unwrap_err().contains("empty"));
    for text in ["36501d", "18446744073709551615s 1000ms", "99999999999999999999d", "36500d1ms"] {
        let error = parse_duration(text).unwrap_err();
        assert!(error.contains("too long; the maximum is \"36500d\""), "{text}: {error}");
    }
}

#[test]
fn sizes_are_whole_numbers_with_or_without_units() {
    let limit = |value: &str| accepted(&with_queue(&format!("payload_limit = {value}"))).queues["q"].payload_limit;
    assert_eq!(limit("1"), 1);
    assert_eq!(limit("\"4096\""), 4096);
    assert_eq!(limit("\"10B\""), 10);
    assert_eq!(limit("\"256KiB\""), 256 << 10);
    assert_eq!(limit("\"16 MiB\""), 16 << 20);
    for value in
        ["\"256KB\"", "\"1.5MiB\"", "\"\"", "\"KiB\"", "\"-1B\"", "\"99999999999999999999B\"", "\"99999999999GiB\""]
    {
        let text = with_queue(&format!("payload_limit = {value}"));
        refused(
            &text,
            &["queues.q.payload_limit", "is not a valid size; write a whole number with B, KiB, MiB or GiB"],
        );
    }
    refused(&with_queue("payload_limit = true"), &["found true, expected a size like \"256KiB\""]);
}

#[test]
fn a_missing_key_names_the_table_that_needs_it() {
    refused("[actions.A]", &["ichido.toml:1: actions.A.from: missing; `actions.A` requires this key"]);
    let table = with_table("");
    refused(&table.replace("owner = \"o\"", ""), &["ichido.toml:1: queues.q.owner: missing"]);
    refused("[queues.q]\ntable = \"t\"\nowner = \"o\"", &["queues.q.status: missing"]);
    refused(&table.replace("column = \"s\", ", ""), &["ichido.toml:3: queues.q.status.column: missing"]);
    refused(&table.replace("new = 0, ", ""), &["queues.q.status.new: missing"]);
    refused(&with_queue("rabbitmq = { queue = \"x\" }"), &["queues.q.rabbitmq.url: missing"]);
    refused(&with_queue("rabbitmq = { url = \"amqp://h\" }"), &["queues.q.rabbitmq.queue: missing"]);
    refused(&with_queue("sqs = { region = \"x\" }"), &["queues.q.sqs.queue: missing"]);
    refused(&with_action("http = {}"), &["actions.A.http.url: missing"]);
    refused(&with_action("handlers = [{}]"), &["actions.A.handlers[0].name: missing"]);
}
