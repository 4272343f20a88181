//! Every example runs, and prints what it promises. A new one fails here until somebody says what that is.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use ichido_test_servers::{RabbitMq, Sqs};

/// What each prints, in any order where its workers share the work.
const PRINTED: &[(&str, &[&str])] = &[
    (
        "typed_action",
        &[
            "orders/1 became the project Kai",
            "orders/3 became the project Umi",
            "orders/2 failed: cannot read the message: invalid type: string \"this is no order\", expected struct Order at line 1 column 18",
        ],
    ),
    ("batch_action", &["998 of 1000 orders are booked, and the two that cost nothing are not"]),
    (
        "send_in_transaction",
        &[
            "Anna has signed up",
            "Mallory has not: we do not take everybody",
            "Ben has signed up",
            "dear Anna (letter letters/1)",
            "dear Ben (letter letters/3)",
        ],
    ),
    (
        "adopt_table",
        &[
            "[queues.orders]",
            "status = { column = \"status\", new = \"new\", done = \"done\", failed = \"error\" }",
            "order 4 became the project Kai",
            "order 5 became the project Umi",
        ],
    ),
    (
        "late_transaction",
        &[
            "receipt of payments/1 for 100",
            "receipt of payments/2 for 250",
            "receipt of payments/3 for 75",
            "receipt of payments/4 for 900",
        ],
    ),
    (
        "order_service",
        &[
            "90 orders are taken, and their messages published",
            "18 messages are published a second time",
            "lost: 0",
            "shipped twice: 0",
            "shipped and never taken: 0",
        ],
    ),
    ("ordered_accounts", &["3 accounts, 0 left, and none of them was ever overdrawn"]),
];

/// Those that have the whole command line are run there, with a configuration.
const IN_PROGRAMS: &[&str] = &["directory", "elapsed", "rate_limit", "state", "statuses", "tenant"];

/// And these are servers.
const SERVICES: [&str; 2] = ["axum_service", "traced_service"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// An example as cargo has built it, before it ran this test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let time = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let fresh = time(&program) >= time(&folder().join(format!("{name}.rs")));
    assert!(
        fresh,
        "{name} is not built; `cargo test -p ichido-cli` builds the examples, `--test suite` alone does not"
    );
    program
}

#[test]
fn each_prints_what_it_promises() {
    for (name, expected) in PRINTED {
        let mut command = Command::new(built(name));
        if *name == "order_service" {
            command.env("AMQP_URL", RabbitMq::shared().fresh_vhost());
        }
        if *name == "ordered_accounts" {
            command.env("SQS_ENDPOINT", Sqs::shared().endpoint());
            command.envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]);
        }
        let ended = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(ended.status.success(), "{name}: {}\n{stdout}{stderr}", ended.status);
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        let mut printed: BTreeSet<_> = stdout.lines().collect();
        if *name == "adopt_table" {
            printed.retain(|line| expected.contains(line)); // what it adds to the table is adopt's to say
        }
        assert_eq!(printed, expected, "{name}\n{stderr}");
    }
}

#[test]
fn each_is_run_and_is_short() {
    let files = folder().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let names: BTreeSet<_> = files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let run = PRINTED.iter().map(|(name, _)| *name).chain(IN_PROGRAMS.iter().copied()).chain(SERVICES);
    assert_eq!(names, run.map(str::to_owned).collect(), "an example that nobody runs, or one that is gone");
    let programs = include_str!("programs.rs");
    for name in IN_PROGRAMS {
        assert!(programs.contains(&format!("{name}::")), "programs.rs does not run {name}");
    }
    // A reader of your own and a whole service are a little longer.
    for name in names.iter().filter(|name| name.as_str() != "directory" && !SERVICES.contains(&name.as_str())) {
        let text = std::fs::read_to_string(folder().join(format!("{name}.rs"))).unwrap();
        assert!(text.lines().count() < 60, "{name} has {} lines", text.lines().count());
    }
}
