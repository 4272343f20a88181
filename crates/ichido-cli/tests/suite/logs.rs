//! What a process says: the lines at its start and end, failures for the monitor and for analysis, progress, the ids on every
//! line of a message; and that no command ever shows a password or a masked value.

use crate::testenv::{Ended, Env, Kind};
use ichido_test_servers as servers;
use serde_json::Value;

on_all!(
    no_command_shows_a_password_or_a_masked_value,
    a_process_tells_its_start_its_settings_and_its_end,
    a_failure_is_told_once_to_the_monitor_and_once_for_analysis,
    progress_is_told_while_there_is_any,
);

/// In the password, in the masked column and in masked fields.
const CANARY: &str = "c4nary";

/// The address with the canary for a password; `SQLite` has none.
fn url_with_canary(kind: Kind) -> String {
    match kind {
        Kind::Sqlite => "sqlite://test.db".into(),
        // The test's server trusts everybody, whatever the password.
        Kind::Postgres => servers::Postgres::shared().fresh_database().replacen('@', &format!(":{CANARY}@"), 1),
        Kind::MariaDb => {
            let (server, url) = (servers::MariaDb::shared(), servers::MariaDb::shared().fresh_database());
            let user = "create user if not exists c4@'%' identified by 'c4nary'; grant all on *.* to c4@'%'";
            server.client(&url, user);
            let (_, place) = url.split_once('@').unwrap();
            format!("mysql://c4:{CANARY}@{place}")
        }
    }
}

/// Orders with a card, and mails with one deep inside; both actions fail, with an error that repeats the card if it can.
async fn world(kind: Kind, log: &str) -> Env {
    let env = Env::with_url(kind, url_with_canary(kind)).await;
    env.sql("alter table received_order add column card varchar(100)").await;
    env.sql("create unique index received_order_card on received_order (card)").await;
    env.configure(|config| {
        let config = config.replace("attempts = 3", "attempts = 2");
        let bad = r#"sql = ["insert into burnt (n) values (:card)", "insert into project (id, name, made_by) values (:id, null, 'x')"]"#;
        let start = config.find("sql         =").unwrap();
        let mail = "[actions.Mail]\nfrom = \"mail\"\nretry = { attempts = 1 }\nsql = [\"insert into project (id, name, made_by) values (:n, null, :to)\"]";
        format!("{}{bad}\n{mail}\n[log]\n{log}\n", &config[..start])
    });
    env.ok(&["migrate"]).await;
    for order in 1..=2 {
        let message = format!(r#"{{"id":{order},"name":"x","card":"{CANARY}-{order}"}}"#);
        env.ok(&["send", "orders", &message]).await;
    }
    let deep =
        format!(r#"{{"n":1,"to":{{"all":[{{"Card":{{"number":"{CANARY}"}}}}]}},"text":"{{\"card\":\"{CANARY}\"}}"}}"#);
    env.ok(&["send", "mail", &deep]).await;
    env.ok(&["send", "mail", &format!(r#"{{"card":"{CANARY}"}}"#)]).await;
    let headers = format!(r#"{{"card":"{CANARY}","to":"header"}}"#);
    env.sql(&format!("insert into ichido_message (queue, payload, headers) values ('mail', '{{}}', '{headers}')"))
        .await;
    env
}

async fn no_command_shows_a_password_or_a_masked_value(kind: Kind) {
    for log in ["format = \"text\"", "format = \"json\""] {
        let env = world(kind, &format!("{log}\nmask = [\"CARD\"]")).await;
        let (secret, unreachable) = (format!("ftp://u:{CANARY}@h"), format!("postgres://u:{CANARY}@127.0.0.1:1/x"));
        let wrong = env.url.replacen(CANARY, "c4nary-no", 1);
        let twice = format!(r#"{{"id":9,"name":"x","card":"{CANARY}-1"}}"#);
        let torn = format!(r#"{{"id":9,"card":"{CANARY}-1""#);
        let commands: &[&[&str]] = &[
            &["run", "--drain", "-v", "--user-id", "ito", "--", "--card", CANARY, "--api-token", CANARY],
            &["failed", "retry", "--all"],
            &["run", "ProjectCreation", "--drain", "-vv"],
            &["failed", "list"],
            &["failed", "list", "--waiting", "--json"],
            &["failed", "show", "orders/1"],
            &["failed", "show", "orders/1", "--json", "-v"],
            &["messages", "list"],
            &["messages", "list", "--json", "-v"],
            &["messages", "show", "orders/1"],
            &["messages", "show", "orders/1", "--json", "-v"],
            &["messages", "run-now", "orders/1"],
            &["failed", "discard", "orders/2"],
            &["send", "orders", &twice],
            &["send", "orders", &torn],
            &["check", "--sql", "-vv"],
            &["status", "-vv"],
            &["adopt", "--table", "received_order", "-v"],
            &["health", "ProjectCreation"],
            &["--database-url", &secret, "status"],
            &["--database-url", &wrong, "status", "-v"],
            // A server that is not there is waited for, and is the same for whoever names it.
            &["--database-url", &unreachable, "status", "-vv"],
            &["--database-url", &unreachable, "check"],
        ];
        let commands = if kind == Kind::Postgres { commands } else { &commands[..commands.len() - 2] };
        let mut failures = 0;
        for command in commands {
            let ended = env.run(command).await;
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(!said.contains(CANARY), "{kind:?} {log} {command:?}: {said}");
            failures += said.matches("***").count();
        }
        assert!(failures > 8, "the messages are there, and masked: {failures}");
    }
    let env = world(kind, "mask = []").await;
    let control = env.run(&["run", "--drain"]).await.stderr;
    assert!(control.contains(&format!(r#""card":"{CANARY}","to":"header""#)), "headers are told: {control}");
    assert!(control.contains(&format!("{CANARY}-1")), "without the mask it is there: {control}");
    let shown = env.ok(&["failed", "show", "orders/1"]).await;
    assert!(shown.contains(&format!("{CANARY}-1")), "{shown}");
}

/// The log of a command, as JSON.
fn lines(ended: &Ended) -> Vec<Value> {
    ended.stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

async fn a_process_tells_its_start_its_settings_and_its_end(kind: Kind) {
    let env = Env::with_url(kind, url_with_canary(kind)).await;
    env.reconfigure(|config| config + "\n[log]\nformat = \"json\"\n");
    env.ok(&["migrate"]).await;
    env.send_orders(1..=3).await;
    let args = ["run", "ProjectCreation/R1", "--drain", "--user-id", "ito", "--", "--language", "ja", "--time-zone"];
    let ended = env.run(&[&args[..], &["Asia/Tokyo"]].concat()).await;
    let lines = lines(&ended);
    let start = &lines[0];
    assert_eq!((start["message"].as_str(), start["level"].as_str()), (Some("ichido starts"), Some("INFO")));
    assert_eq!((start["request_id"].as_str(), start["user_id"].as_str()), (Some("R1"), Some("ito")));
    assert_eq!((start["language"].as_str(), start["time_zone"].as_str()), (Some("ja"), Some("Asia/Tokyo")));
    assert!(start["version"].is_string() && start["pid"].is_u64());
    let settings = lines[1]["message"].as_str().unwrap();
    let url = env.url.replacen(CANARY, "***", 1);
    for part in ["settings: ", &format!("database.url={url} "), "process.lease=1s", "from orders, concurrency 4"] {
        assert!(settings.contains(part), "`{part}`: {settings}");
    }
    let end = lines.last().unwrap();
    assert_eq!((end["message"].as_str(), end["exit_code"].as_i64()), (Some("ichido ends"), Some(0)));
    assert_eq!((end["done"].as_i64(), end["failed"].as_i64(), end["retried"].as_i64()), (Some(3), Some(0), Some(0)));
    assert!(end["elapsed_seconds"].as_f64().unwrap() > 0.0, "{end}");
    let unknown = env.run(&["run", "Nobody"]).await;
    assert!(!unknown.stderr.contains("ichido starts"), "what is refused has not started: {}", unknown.stderr);
}

async fn a_failure_is_told_once_to_the_monitor_and_once_for_analysis(kind: Kind) {
    let env = world(kind, "format = \"json\"\nlevel = \"debug\"\nmask = [\"card\"]").await;
    // A value that does not fit would not be tried a second time.
    env.reconfigure(|config| config.replacen(r#""insert into burnt (n) values (:card)", "#, "", 1));
    let ended = env.run(&["run", "ProjectCreation/R1", "--drain", "--user-id", "ito"]).await;
    let lines = lines(&ended);
    let of = |target: &str| lines.iter().filter(|line| line["target"] == target).collect::<Vec<_>>();
    let (monitor, analysis) = (of("ichido::monitor"), of("ichido::analysis"));
    assert_eq!((monitor.len(), analysis.len()), (4, 4), "two messages, two attempts: {}", ended.stderr);
    for line in &monitor {
        assert_eq!(line["code"], "error");
        assert!(line["payload"].is_null() && !line.to_string().contains("***"), "{line}");
        let for_good = line["attempt"] == 2;
        assert_eq!(line["level"], if for_good { "ERROR" } else { "WARN" });
        assert_eq!(line["message"].as_str().unwrap().contains("failed for good"), for_good, "{line}");
    }
    for line in monitor.iter().chain(&analysis) {
        assert_eq!((line["request_id"].as_str(), line["user_id"].as_str()), (Some("R1"), Some("ito")));
        assert!(line["message_id"].as_str().unwrap().starts_with("orders/"), "{line}");
        let process = line["process_id"].as_str().unwrap();
        let (of_process, number) = line["execution_id"].as_str().unwrap().split_once('-').unwrap();
        assert!(process.ends_with(of_process) && number.parse::<u64>().unwrap() > 0, "{line}");
    }
    let mut executions: Vec<_> = analysis.iter().map(|line| line["execution_id"].to_string()).collect();
    executions.sort();
    executions.dedup();
    assert_eq!(executions.len(), 4, "one per run of a message");
    for line in &analysis {
        let error = line["message"].as_str().unwrap();
        let payload: Value = serde_json::from_str(line["payload"].as_str().unwrap()).unwrap();
        assert_eq!((payload["card"].as_str(), payload["name"].as_str()), (Some("***"), Some("x")));
        let repeats = |other: &&Value| other["message"].as_str().is_some_and(|text| text.contains(error));
        assert_eq!(lines.iter().filter(repeats).count(), 4, "`{error}` once per failure");
    }
    let end = lines.last().unwrap();
    assert_eq!((end["failed"].as_i64(), end["retried"].as_i64()), (Some(2), Some(2)), "{end}");
}

#[tokio::test]
async fn a_process_without_a_server_tells_when_it_started_and_why_it_ends() {
    let env = Env::bare(Kind::Sqlite).await;
    env.reconfigure(|config| config.replace("count = 20", "count = 1") + "\n[log]\nformat = \"json\"\n");
    let unreachable = format!("postgres://u:{CANARY}@127.0.0.1:1/x");
    let ended = env.run(&["--database-url", &unreachable, "run", "ProjectCreation/R1", "-v"]).await;
    assert!(ended.code == Some(180) && !ended.stderr.contains(CANARY), "{ended:?}");
    let lines = lines(&ended);
    assert_eq!(lines[0]["message"], "ichido starts");
    let monitor: Vec<_> = lines.iter().filter(|line| line["target"] == "ichido::monitor").collect();
    assert_eq!((monitor.len(), &monitor[0]["code"], monitor[0]["status"].as_i64()), (1, &"process".into(), Some(180)));
    let analysis: Vec<_> = lines.iter().filter(|line| line["target"] == "ichido::analysis").collect();
    assert!(analysis.len() == 1 && analysis[0]["message"].as_str().unwrap().contains("127.0.0.1:1"), "{ended:?}");
    let end = lines.last().unwrap();
    assert_eq!((end["message"].as_str(), end["exit_code"].as_i64()), (Some("ichido ends"), Some(180)));
}

/// Long payloads are cut, and whatever a message contains, a line of text stays one line.
#[tokio::test]
async fn a_line_stays_a_line_and_is_not_too_long() {
    let env = Env::new(Kind::Sqlite).await;
    env.reconfigure(|config| {
        config.replace("attempts = 3", "attempts = 1").replacen(":name, :process_id", "null, :process_id || :name", 1)
    });
    let name = format!("a\\nERROR forged\\u001b[31m{}", "x".repeat(20_000));
    env.ok(&["send", "orders", &format!(r#"{{"id":1,"name":"{name}"}}"#)]).await;
    let ended = env.run(&["run", "--drain"]).await;
    assert!(ended.stderr.lines().all(|line| line.starts_with("20") && line.len() < 6000), "{}", ended.stderr);
    assert!(ended.stderr.contains("bytes)") && !ended.stderr.contains('\x1b'), "{}", ended.stderr);
}

async fn progress_is_told_while_there_is_any(kind: Kind) {
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 20 } else { 100 });
    env.reconfigure(|config| config + "\n[log]\nformat = \"json\"\nprogress = \"50ms\"\n");
    let mut idle = env.start("idle", &["run", "ProjectCreation/R1"]);
    idle.until_logged("process starts").await;
    env.send_orders(1..=100).await;
    idle.until_logged("seconds_left").await;
    env.until("select count(*) from received_order where status = '1'", 100).await;
    idle.stop().await;
    let log = idle.log();
    let progress: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|l| l["message"] == "progress")
        .collect();
    let estimated = progress.iter().find(|line| line["seconds_left"].is_u64()).expect("an estimate");
    assert!(estimated["left"].as_u64().unwrap() > 0 && estimated["per_second"].as_f64().unwrap() > 0.0, "{estimated}");
    let news = |line: &Value| line["left"].as_u64() > Some(0) || line["per_second"].as_f64() > Some(0.0);
    assert!(progress.iter().all(news), "nothing happened and nothing waits: {log}");
}

#[tokio::test]
async fn a_quiet_command_says_only_what_went_wrong() {
    let env = Env::bare(Kind::Sqlite).await;
    for command in [&["migrate", "-q"][..], &["check", "-q"], &["stop", "R1", "-q"], &["unstop", "R1", "-q"]] {
        let ended = env.run(command).await;
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{command:?}");
    }
    env.send_orders(1..=3).await;
    let ended = env.run(&["run", "ProjectCreation/R1", "--drain", "-q"]).await;
    assert_eq!((ended.code, &*ended.stderr, &*ended.stdout), (Some(0), "", ""));
    env.reconfigure(|config| config.replace(":name, :process_id", "null, :process_id"));
    env.ok(&["send", "orders", r#"{"id":9,"name":"x"}"#]).await;
    let ended = env.run(&["run", "ProjectCreation/R1", "--drain", "-q"]).await;
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "for the monitor and for analysis, when it failed for good: {}", ended.stderr);
    assert!(lines.iter().all(|line| line.contains("ERROR") && line.contains("message_id=orders/9")), "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("request_id=R1") && line.contains("execution_id=")), "{lines:?}");
}

#[tokio::test]
async fn colours_are_for_terminals_and_not_for_who_wants_none() {
    let env = Env::new(Kind::Sqlite).await;
    let on_terminal = async |no_color: Option<&str>| {
        let binary = format!("'{}' run --drain", env!("CARGO_BIN_EXE_ichido"));
        let mut command = tokio::process::Command::new("script");
        command.args(["-qec", &binary, "/dev/null"]).current_dir(env.folder()).env_remove("NO_COLOR");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let ended = Ended::of(command.stdin(std::process::Stdio::null()).output().await.unwrap());
        assert!(ended.stdout.contains("ichido ends"), "{ended:?}");
        ended.stdout
    };
    assert!(on_terminal(None).await.contains("\x1b[32m INFO\x1b[0m"));
    assert!(on_terminal(Some("")).await.contains("\x1b["), "an empty one says nothing");
    assert!(!on_terminal(Some("1")).await.contains('\x1b'));
    let ended = env.run(&["run", "--drain"]).await;
    assert!(ended.stderr.contains("ichido ends") && !ended.stderr.contains('\x1b'), "no terminal: {}", ended.stderr);
}
