//! Bad input: one clear message, the right exit code, nothing half-written.

use crate::testenv::{Env, Kind};

on_all!(
    a_bad_configuration_is_named_with_its_line_and_what_was_meant,
    what_is_not_in_the_database_is_named_with_what_was_meant,
    without_tables_the_way_out_is_named,
    a_bad_line_sends_nothing,
    a_bad_command_line_is_127,
);

async fn a_bad_configuration_is_named_with_its_line_and_what_was_meant(kind: Kind) {
    let env = Env::new(kind).await;
    let changes: [(&str, &str, &[&str]); 5] = [
        (
            "concurrency = 4",
            "concurency = 4",
            &["ichido.toml:", "actions.ProjectCreation.concurency", "did you mean `concurrency`"],
        ),
        ("concurrency = 4", "concurrency = \"many\"", &["ichido.toml:", "actions.ProjectCreation.concurrency"]),
        ("from        = \"orders\"", "from = \"ordres\"", &["actions.ProjectCreation.from", "did you mean `orders`"]),
        (
            "[queues.mail]",
            "[queues.mail]\nsqs = { queue = \"q\", visiblity = \"60s\" }",
            &["queues.mail.sqs.visiblity", "did you mean `visibility`"],
        ),
        ("url = \"", "url = \"ftp://", &["database.url"]),
    ];
    let all: [&[&str]; 6] =
        [&["check"], &["run"], &["send", "orders", "{}"], &["status"], &["failed", "list"], &["migrate"]];
    // The file is read before anybody knows which database it is: one of them has every command, the others two.
    let commands = if kind == Kind::Sqlite { &all[..] } else { &all[..2] };
    for (from, to, parts) in changes {
        env.configure(|config| config.replacen(from, to, 1));
        for command in commands {
            env.run(command).await.assert_refused(127, parts);
        }
    }
    env.configure(|config| config);
    env.run(&["--config", "nowhere.toml", "status"]).await.assert_refused(127, &["nowhere.toml"]);
    let away = env.run(&["--database-url", "postgres://u:canary@127.0.0.1:1/x", "status"]).await;
    away.assert_refused(20, &["127.0.0.1:1"]);
    assert!(!away.stderr.contains("canary"), "{away:?}");
}

async fn what_is_not_in_the_database_is_named_with_what_was_meant(kind: Kind) {
    let env = Env::new(kind).await;
    let changes: [(&str, &str, &[&str]); 5] = [
        (
            "\"received_order\"",
            "\"recieved_order\"",
            &["ichido.toml: queues.orders.table", "`recieved_order`", "`received_order`"],
        ),
        ("\"process_id\"", "\"proces_id\"", &["queues.orders", "`proces_id`", "`process_id`"]),
        ("column = \"status\"", "column = \"statos\"", &["`statos`", "`status`"]),
        (":name", ":nmae", &["ichido.toml: actions.ProjectCreation.sql", "`:nmae`", "`name`"]),
        ("into project", "into projcet", &["actions.ProjectCreation.sql", "projcet"]),
    ];
    for (from, to, parts) in changes {
        env.configure(|config| config.replacen(from, to, 1));
        let checked = env.run(&["check"]).await;
        checked.assert_refused(127, parts);
        assert!(kind != Kind::Postgres || !checked.stderr.contains(" at line "), "of the server's source: {checked:?}");
        env.run(&["run", "ProjectCreation/R1", "--drain"]).await.assert_refused(127, parts);
    }
    env.configure(|config| config);
    env.run(&["run", "ProjectDeletion/R1"]).await.assert_refused(13, &["ProjectDeletion", "ProjectCreation"]);
    env.ok(&["check"]).await;
}

async fn without_tables_the_way_out_is_named(kind: Kind) {
    let env = Env::bare(kind).await;
    for command in [&["run"][..], &["send", "orders", "{}"], &["status"], &["check"], &["failed", "list"]] {
        env.run(command).await.assert_refused(127, &["ichido migrate"]);
    }
}

async fn a_bad_line_sends_nothing(kind: Kind) {
    let env = Env::new(kind).await;
    let inputs: [(&[u8], &[&str]); 6] = [
        (b"{\"id\":1,\"name\":\"a\"}\n{\"id\":2,", &["message 2", "not JSON"]),
        (b"{\"id\":1,\"name\":\"a\"}\n\n{\"id\":3,\"nme\":\"b\"}\n", &["message 3: ", "`nme`", "did you mean `name`"]),
        (b"{\"id\":1,\"name\":\"a\"}\n[1]\n", &["message 2: ", "a JSON object"]),
        (b"{\"id\":1,\"name\":\"a\"}\n\xff\xfe\n", &["message 2"]),
        (b"{\"id\":1,\"name\":\"a\"}\n{\"id\":1,\"name\":\"b\"}\n", &["message 2: ", "nothing was sent"]),
        (b"{\"id\":1,\"name\":null}\n", &["nothing was sent"]),
    ];
    for (input, parts) in inputs {
        let ended = env.run_with_input(&["send", "orders", "--file", "-"], input).await;
        ended.assert_refused(127, parts);
        assert_eq!(env.number("select count(*) from received_order").await, 0, "{}", String::from_utf8_lossy(input));
    }
    env.run(&["send", "ordres", "{}"]).await.assert_refused(127, &["`ordres`", "did you mean `orders`"]);
    env.run(&["send", "mail", "{"]).await.assert_refused(127, &["not JSON"]);
    let large = format!("\"{}\"", "x".repeat(300_000));
    let large = env.run_with_input(&["send", "mail", "--file", "-"], large.as_bytes()).await;
    large.assert_refused(127, &["over the limit"]);
    env.run(&["send", "mail", "--file", "nowhere"]).await.assert_refused(127, &["nowhere"]);
    assert_eq!(env.number("select count(*) from ichido_message").await, 0);
}

async fn a_bad_command_line_is_127(kind: Kind) {
    let env = Env::new(kind).await;
    for args in [&["rnu"][..], &["run", "--drian"], &["send"], &["failed"], &[]] {
        let ended = env.run(args).await;
        assert_eq!(ended.code, Some(127), "{args:?}: {ended:?}");
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty());
    }
    for args in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let ended = env.run(args).await;
        assert_eq!((ended.code, ended.stdout.is_empty()), (Some(0), false), "{args:?}");
    }
}
