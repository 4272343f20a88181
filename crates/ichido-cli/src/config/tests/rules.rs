//! The rules that values must keep beyond their type.

use ichido::message::ClaimBy;

use super::super::Config;
use super::{accepted, refused, with_action, with_queue, with_table};

#[test]
fn an_unknown_from_names_the_nearest_queue_or_lane_set() {
    refused(
        "[queues.orders]\n[queues.mail]\n[actions.A]\nfrom = \"order\"",
        &[
            "ichido.toml:4: actions.A.from: no queue or lane set \"order\"; did you mean `orders`?",
            "known: mail, orders",
        ],
    );
    refused("[actions.A]\nfrom = \"x\"", &["actions.A.from: no queue", "known: none; add one with [queues.NAME]"]);
}

#[test]
fn numbers_stay_in_their_ranges() {
    let process = |line: &str| format!("[process]\n{line}");
    let database = |line: &str| format!("[database]\n{line}");
    let cases = [
        (with_action("concurrency = 0"), "found 0, expected a whole number from 1 to 1024"),
        (with_action("concurrency = 1025"), "found 1025, expected a whole number from 1 to 1024"),
        (with_action("concurrency = -1"), "found -1, expected a whole number from 1 to 1024"),
        (with_action("commit_interval = 0"), "found 0, expected a whole number from 1"),
        (with_action("retry = { attempts = 0 }"), "retry.attempts: found 0, expected a whole number from 1"),
        (with_action("retry = { factor = 0.5 }"), "retry.factor: found 0.5, expected a number from 1"),
        (with_action("retry = { factor = 0 }"), "retry.factor: found 0, expected a number from 1"),
        (database("pool = 0"), "pool: found 0, expected a whole number from 1 to 1000"),
        (database("pool = 1001"), "pool: found 1001, expected a whole number from 1 to 1000"),
        (database("pool = 2"), "pool: found 2, expected at least 3: ichido itself uses two connections"),
        (process("read_ahead = 65"), "read_ahead: found 65, expected a whole number from 0 to 64"),
        (process("retry = { exit = 99 }"), "retry.exit: found 99, expected a whole number from 100 to 199"),
        (process("retry = { exit = 200 }"), "retry.exit: found 200"),
        (process("exit_duplicate = 0"), "exit_duplicate: found 0, expected a whole number from 1 to 199"),
        (process("exit_duplicate = 200"), "exit_duplicate: found 200"),
        (with_queue("payload_limit = 0"), "found 0, expected a size from 1 byte to 16MiB"),
        (with_queue("payload_limit = -1"), "found -1, expected a size from 1 byte to 16MiB"),
        (with_queue("payload_limit = \"17MiB\""), "found \"17MiB\", expected a size from 1 byte to 16MiB"),
    ];
    for (text, message) in cases {
        refused(&text, &[message]);
    }
}

#[test]
fn durations_are_long_enough() {
    let cases = [
        ("lease = \"999ms\"", "process.lease: found \"999ms\", expected a duration of at least \"1s\""),
        ("poll = \"9ms\"", "process.poll: found \"9ms\", expected a duration of at least \"10ms\""),
        ("check = \"0s\"", "process.check: found \"0s\", expected a duration of at least \"1ms\""),
        ("retry = { interval = \"0s\" }", "process.retry.interval: found \"0s\""),
    ];
    for (line, message) in cases {
        refused(&format!("[process]\n{line}"), &[message]);
    }
    refused("[log]\nprogress = \"0s\"", &["log.progress: found \"0s\""]);
    refused(&with_action("timeout = \"0s\""), &["actions.A.timeout: found \"0s\""]);
}

#[test]
fn the_first_pause_is_not_longer_than_the_longest() {
    refused(
        &with_action("retry = { first = \"10m\" }"),
        &["ichido.toml:4: actions.A.retry.first: \"10m\" is longer than `max`, which is \"5m\""],
    );
    refused(&with_action("retry = { max = \"500ms\" }"), &["actions.A.retry.first: \"1s\" is longer than `max`"]);
    accepted(&with_action("retry = { first = \"5m\" }"));
}

#[test]
fn the_retry_window_is_longer_than_all_retries_together() {
    let retry = |keys: &str| format!("[process]\nretry = {{ {keys} }}");
    let too_short = "process.retry.window: \"50s\" is too short; \
        it must be longer than count × interval (\"50s\")";
    refused(&retry("window = \"50s\""), &[too_short]);
    accepted(&retry("window = \"51s\""));
    refused(&retry("time = \"15m\""), &["window: \"15m\" is too short; it must be longer than time (\"15m\")"]);
    refused(&retry("count = 1000000, interval = \"36500d\", window = \"36500d\""), &["is too short"]);
    refused(&retry("count = 3, time = \"1m\""), &["process.retry.time: write either `count` or `time`"]);
    accepted(&retry("count = 0"));
}

#[test]
fn a_queue_has_one_kind() {
    let broker = "{ url = \"amqp://h\", queue = \"x\" }";
    let both = with_table(&format!("rabbitmq = {broker}"));
    refused(&both, &["ichido.toml:5: queues.q.rabbitmq: a queue can have only one of `table`, `rabbitmq` and `sqs`"]);
    let both = with_queue(&format!("rabbitmq = {broker}\nsqs = {{ queue = \"x\" }}"));
    refused(&both, &["ichido.toml:3: queues.q.sqs: a queue can have only one of"]);
}

/// Two queues at brokers, with these keys.
fn brokers(first: &str, second: &str) -> String {
    format!("[queues.a]\nrabbitmq = {{ {first} }}\n[queues.b]\nrabbitmq = {{ {second} }}\n")
}

#[test]
fn two_queues_are_not_one_at_the_broker() {
    let (h, g) = ("url = \"amqp://h\"", "url = [\"amqp://g\", \"amqp://h\"]");
    let queue = |broker: &str, rest: &str| format!("{broker}, {rest}");
    let same = brokers(&queue(h, "queue = \"x\""), &queue(g, "queue = \"x\""));
    refused(
        &same,
        &["ichido.toml:4: queues.b.rabbitmq.queue: the queue `a` already uses this queue at the same broker"],
    );
    let of =
        |name: &str, key: &str| queue(h, &format!("queue = \"{name}\", exchange = \"e\", routing_key = \"{key}\""));
    refused(
        &brokers(&of("x", "k"), &of("y", "k")),
        &["queues.b.rabbitmq.routing_key: messages with this routing key also reach the queue `a`", "different keys"],
    );
    accepted(&brokers(&of("x", "k"), &of("y", "l")));
    accepted(&brokers(&queue(h, "queue = \"x\""), &queue("url = \"amqp://g\"", "queue = \"x\"")));
    let astray = with_queue(&format!("rabbitmq = {{ {h}, queue = \"x\", routing_key = \"y\" }}"));
    refused(
        &astray,
        &["queues.q.rabbitmq.routing_key: without `exchange`, the routing key must be the queue's name, \"x\""],
    );
}

#[test]
fn a_row_is_locked_only_where_rows_have_locks() {
    let with = |claim: &str| with_queue(&format!("rabbitmq = {{ url = \"amqp://h\", queue = \"x\"{claim} }}"));
    let claim = |config: &Config| config.claim(&config.rabbitmq().next().unwrap().1.mutex);
    let mut config = accepted(&with(", claim = \"lock\""));
    let refused = config.check_claims("ichido.toml").unwrap_err().to_string();
    assert_eq!(
        refused,
        "ichido.toml: queues.q.rabbitmq.claim: SQLite has no row locks; write claim = \"lease\", or remove this key"
    );
    config.override_url("postgres://h/d", "--database-url").unwrap();
    config.check_claims("ichido.toml").unwrap();
    assert_eq!(claim(&config), ClaimBy::Lock);
    let mut config = accepted(&with(""));
    config.check_claims("ichido.toml").unwrap();
    assert_eq!(claim(&config), ClaimBy::Lease);
    config.override_url("mysql://h/d", "--database-url").unwrap();
    assert_eq!(claim(&config), ClaimBy::Lock);
}

#[test]
fn an_action_has_one_kind_and_something_to_do() {
    let text = with_action("sql = [\"select 1\"]\nexec = [\"true\"]");
    refused(&text, &["ichido.toml:5: actions.A.exec: an action can have only one of `sql`, `http` and `exec`"]);
    refused(&with_action("sql = []"), &["actions.A.sql: the list is empty"]);
    refused(&with_action("sql = [\" \"]"), &["actions.A.sql[0]: the value is empty"]);
    refused(&with_action("exec = []"), &["actions.A.exec: the list is empty"]);
    refused(&with_action("exec = [\"\", \"x\"]"), &["actions.A.exec: the first element, the program, is empty"]);
    refused(&with_action("exec = [\"a\\u0000\"]"), &["actions.A.exec[0]: the value contains a NUL character"]);
}

#[test]
fn a_program_gets_variables_by_their_names() {
    refused(&with_action("exec = [\"a\"]\nenv = [\"A=b\"]"), &["actions.A.env[0]: a name without `=`"]);
    refused(&with_action("exec = [\"a\"]\nenv = [\"\"]"), &["actions.A.env[0]: the value is empty"]);
    refused(&with_action("sql = [\"a\"]\nenv = [\"A\"]"), &["actions.A.env: only an action with `exec`"]);
    refused(
        &with_action("exec = [\"a\"]\nenv = [\"HOST\", \"ICHIDO_DATABASE_URL\"]"),
        &["actions.A.env[1]: ichido sets the variables of this name itself"],
    );
}

#[test]
fn a_header_cannot_smuggle_in_another() {
    let headers = |headers: &str| with_action(&format!("http = {{ url = \"http://h\", headers = {{ {headers} }} }}"));
    refused(&headers("idempotency-Key = \"a\""), &["headers.idempotency-Key: ichido sets this header itself"]);
    refused(&headers("X = \"a\\r\\nY: b\""), &["actions.A.http.headers.X: the value contains a control character"]);
    refused(&headers("\"X Y\" = \"a\""), &["invalid header name"]);
    refused(&headers("\"\" = \"a\""), &["invalid header name"]);
}

#[test]
fn a_handler_is_placed_before_or_after_another() {
    let text = with_action("handlers = [{ name = \"a\", before = \"b\", after = \"c\" }]");
    refused(&text, &["actions.A.handlers[0].after: write either `before` or `after`, not both"]);
    refused(&with_action("handlers = [\"\"]"), &["actions.A.handlers[0]: \"\" is not a valid name"]);
}
