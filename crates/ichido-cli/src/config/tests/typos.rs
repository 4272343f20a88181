//! Unknown keys, at every level, and what is suggested for them.

use super::{EXAMPLE, refusal, refused, with_action, with_queue, with_table};

#[test]
fn a_mistyped_key_is_answered_with_file_line_path_and_what_was_meant() {
    let text = EXAMPLE.replace("concurrency", "concurency");
    assert_eq!(
        refusal(&text),
        "ichido.toml:14: actions.ProjectCreation.concurency: unknown key; \
         did you mean `concurrency`?\n  allowed: from, concurrency, retry, timeout, isolation, \
         commit_interval, commit_on, handlers, sql, http, exec, env"
    );
}

#[test]
fn a_typo_is_found_at_every_level() {
    let cases = [
        ("[databse]\nurl = \"x\"", "ichido.toml:1: databse", "database"),
        ("[database]\nulr = \"x\"", "ichido.toml:2: database.ulr", "url"),
        ("[process]\nleese = \"30s\"", "ichido.toml:2: process.leese", "lease"),
        ("[process.retry]\ncounts = 3", "ichido.toml:2: process.retry.counts", "count"),
        ("[log]\nformt = \"json\"", "log.formt", "format"),
        ("[retention]\naudits = \"1d\"", "retention.audits", "audit"),
        ("[dispatch]\nsufix = \"x\"", "dispatch.sufix", "suffix"),
        ("[queue.mail]", "ichido.toml:1: queue", "queues"),
        ("[lanes.l]\npolice = \"strict\"", "lanes.l.police", "policy"),
    ];
    for (text, place, meant) in cases {
        refused(text, &[place, ": unknown key", &format!("did you mean `{meant}`?"), "\n  allowed: "]);
    }
}

#[test]
fn a_typo_is_found_inside_inline_tables() {
    let status = with_table("").replace("done =", "doen =");
    refused(&status, &["ichido.toml:3: queues.q.status.doen", "`done`", "allowed: column, new, done, failed"]);
    let rabbit = with_queue("rabbitmq = { url = \"amqp://h\", queu = \"x\" }");
    refused(&rabbit, &["queues.q.rabbitmq.queu", "did you mean `queue`?"]);
    let sqs = with_queue("sqs = { queue = \"x\", exchange = \"\" }");
    refused(&sqs, &["queues.q.sqs.exchange: unknown key\n"]);
    refused(&with_action("retry = { atempts = 3 }"), &["actions.A.retry.atempts", "`attempts`"]);
    refused(&with_action("http = { uri = \"x\" }"), &["actions.A.http.uri", "`url`"]);
    let handler = with_action("handlers = [\"loop\", { nam = \"x\" }]");
    refused(&handler, &["actions.A.handlers[1].nam", "`name`"]);
    let level = "[lanes.l]\npolicy = \"strict\"\n\
        [[lanes.l.levels]]\nlevel = \"a\"\nqueue = \"q\"\nwieght = 2";
    refused(level, &["ichido.toml:6: lanes.l.levels[0].wieght", "did you mean `weight`?"]);
    let by = "[lanes.l]\npolicy = \"strict\"\n\
        levels = [{ level = \"a\", queue = \"a\" }, { level = \"b\", queue = \"b\" }]\n\
        level_by = { fild = \"x\" }";
    refused(by, &["ichido.toml:4: lanes.l.level_by.fild", "did you mean `field`?"]);
}

#[test]
fn nothing_is_suggested_for_a_key_that_is_like_no_other() {
    let message = refusal("[database]\nzzzzzz = 1");
    assert_eq!(
        message,
        "ichido.toml:2: database.zzzzzz: unknown key\n  allowed: url, pool, schema, single_writer, timeout"
    );
}

#[test]
fn of_several_typos_the_first_in_the_file_is_reported() {
    refused("[process]\nzoll = \"1s\"\naease = \"1s\"", &["ichido.toml:2: process.zoll"]);
}

#[test]
fn odd_keys_are_shown_quoted_and_without_control_characters() {
    refused("\"a.b\" = 1", &["ichido.toml:1: \"a.b\": unknown key"]);
    refused("\"\\u001b[2J\" = 1", &["\"\\u{1b}[2J\": unknown key"]);
    refused("\"\" = 1", &["ichido.toml:1: \"\": unknown key"]);
}

#[test]
fn a_key_of_a_table_queue_without_a_table_says_so() {
    for line in ["owner = \"o\"", "key = [\"id\"]", "only = {}", "on_done = \"delete\""] {
        let key = line.split(' ').next().unwrap();
        let place = format!("ichido.toml:2: queues.q.{key}: only table queues have this key");
        refused(&with_queue(line), &[&place, "add `table = \"…\"`"]);
    }
    let rabbit = "owner = \"o\"\nrabbitmq = { url = \"amqp://h\", queue = \"x\" }";
    refused(&with_queue(rabbit), &["queues.q.owner: only table queues have this key"]);
}
