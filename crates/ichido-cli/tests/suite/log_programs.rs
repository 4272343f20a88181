//! The log of a program with Rust actions: the ids reach every task that a message spawns, each message of a batch has its own,
//! a panic is told like any failure, and the context knows language and time zone. A test starts its own binary again, as in
//! `programs.rs`.

use std::process::Stdio;

use crate::testenv::{Env, Kind};
use ichido::{Context, Outcome, Result};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;
use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;
use tracing::Instrument;

const ARGUMENTS: &str = "ICHIDO_TEST_ARGUMENTS";
const CANARY: &str = "c4nary";

#[derive(Deserialize)]
struct Letter {
    how: String,
    card: Option<String>,
}

#[derive(Debug)]
struct Outer(std::num::ParseIntError);

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the letter has no number")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

async fn write(cx: &mut Context<Sqlite>, letter: Letter) -> Result<Outcome> {
    let card = letter.card.unwrap_or_default();
    match letter.how.as_str() {
        "panic" => panic!("no such card: {card}"),
        "chain" => Err(Outer("x".parse::<u8>().unwrap_err()).into()),
        _ => {
            let inner = async { tokio::spawn(async { tracing::info!("task of a task") }.in_current_span()).await };
            let task = cx.spawn(async {
                tracing::warn!("task");
                inner.await
            });
            task.await??;
            let (execution, letter) = (cx.execution_id(), cx.message_id()?.to_string());
            tracing::info!(execution, letter, "action");
            Ok(Outcome::Done)
        }
    }
}

/// Not a test: the program.
#[test]
#[ignore = "run by other tests, in processes of their own"]
fn child() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let program = Program::<Sqlite>::new().action_fn("Write", write);
    let words = std::iter::once("program").chain(arguments.split('\n')).map(Into::into);
    std::process::exit(program.run(words).into())
}

/// A world with the action `Write`, and these letters sent.
async fn world(settings: &str, letters: &[&str]) -> Env {
    let env = Env::new(Kind::Sqlite).await;
    let action = format!("[actions.Write]\nfrom = \"mail\"\nconcurrency = 1\nretry = {{ attempts = 1 }}\n{settings}");
    env.configure(|config| format!("{config}\n{action}\n[log]\nformat = \"json\"\nmask = [\"card\"]\n"));
    env.run_with_input(&["send", "mail", "--file", "-"], letters.join("\n").as_bytes()).await;
    env
}

/// Runs the program until everything is done; its log, and whatever else it said.
async fn run(env: &Env, variables: &[(&str, &str)], args: &[&str]) -> (Vec<Value>, String) {
    let args = [&["run", "Write/W1", "--drain"], args].concat().join("\n");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "log_programs::child", "--ignored", "--nocapture"])
        .current_dir(env.folder())
        .env(ARGUMENTS, args);
    for name in ["LANG", "LC_ALL", "TZ", "ICHIDO_LOG"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let lines = stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {stderr}")));
    (lines.collect(), format!("{stdout}{stderr}"))
}

fn saying<'a>(lines: &'a [Value], text: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["message"] == text).collect()
}

#[tokio::test]
async fn the_ids_of_a_message_are_on_the_lines_of_the_tasks_that_it_spawns() {
    assert_ids_of_tasks("").await;
}

/// Their tasks run in spans that the log does not show.
#[tokio::test]
async fn ids_are_on_the_lines_of_tasks_where_traces_are_collected() {
    assert_ids_of_tasks("[telemetry]\notlp = \"http://127.0.0.1:9\"").await;
}

async fn assert_ids_of_tasks(settings: &str) {
    let env = world(settings, &[r#"{"how":"spawn"}"#, r#"{"how":"spawn"}"#]).await;
    let (lines, _) = run(&env, &[], &["--user-id", "ito"]).await;
    let actions = saying(&lines, "action");
    assert_eq!(actions.len(), 2);
    for action in actions {
        assert_eq!((&action["execution"], action["user_id"].as_str()), (&action["execution_id"], Some("ito")));
        for text in ["task", "task of a task"] {
            let tasks = saying(&lines, text);
            let of_this = |task: &&&Value| task["execution_id"] == action["execution_id"];
            let task = tasks.iter().find(of_this).unwrap_or_else(|| panic!("no `{text}` in {lines:?}"));
            for id in ["message_id", "process_id", "request_id", "user_id", "language", "time_zone"] {
                assert!(task[id].is_string() && task[id] == action[id], "{id}: {task}");
            }
        }
    }
}

#[tokio::test]
async fn every_message_of_a_batch_has_ids_of_its_own() {
    let env = world("commit_interval = 3", &[r#"{"how":"spawn"}"#; 3]).await;
    let (lines, said) = run(&env, &[], &[]).await;
    let mut ids = Vec::new();
    for action in saying(&lines, "action") {
        assert_eq!((&action["letter"], &action["execution"]), (&action["message_id"], &action["execution_id"]));
        assert_eq!(action["together"], 3, "{action}");
        ids.push((action["message_id"].to_string(), action["execution_id"].to_string()));
    }
    ids.sort();
    ids.dedup_by(|one, other| one.0 == other.0 || one.1 == other.1);
    assert_eq!(ids.len(), 3, "{said}");
}

#[tokio::test]
async fn a_panic_is_told_once_and_masked() {
    let letter = format!(r#"{{"how":"panic","card":"{CANARY}"}}"#);
    let env = world("", &[&letter]).await;
    let (lines, said) = run(&env, &[], &["-v"]).await;
    assert!(!said.contains(CANARY) && !said.contains("panicked at"), "{said}");
    let told: Vec<_> = lines.iter().filter(|line| line["code"] == "panic").collect();
    assert_eq!(told.len(), 2, "for the monitor and for analysis: {said}");
    let analysis = told[1]["message"].as_str().unwrap();
    assert!(analysis.contains("no such card: ***") && analysis.contains("log_programs.rs:"), "{analysis}");
}

#[tokio::test]
async fn the_whole_chain_of_an_error_is_for_analysis() {
    let env = world("", &[r#"{"how":"chain"}"#]).await;
    let (lines, said) = run(&env, &[], &[]).await;
    let analysis: Vec<_> = lines.iter().filter(|line| line["target"] == "ichido::analysis").collect();
    assert_eq!(analysis.len(), 1, "{said}");
    assert_eq!(analysis[0]["message"], "the letter has no number: invalid digit found in string");
}

#[tokio::test]
async fn language_and_time_zone_are_those_of_the_command_line_the_handler_or_the_environment() {
    let place = async |settings: &str, variables: &[(&str, &str)], args: &[&str]| {
        let env = world(settings, &[r#"{"how":"spawn"}"#]).await;
        let (lines, said) = run(&env, variables, args).await;
        let action = *saying(&lines, "action").first().unwrap_or_else(|| panic!("{said}"));
        (action["language"].as_str().unwrap().to_owned(), action["time_zone"].as_str().unwrap().to_owned())
    };
    let pair = |language: &str, zone: &str| (language.to_owned(), zone.to_owned());
    assert_eq!(place("", &[], &[]).await, pair("en", "UTC"));
    assert_eq!(place("", &[("LANG", "C.UTF-8"), ("TZ", "")], &[]).await, pair("en", "UTC"));
    let around = [("LANG", "ja_JP.UTF-8"), ("TZ", ":Asia/Tokyo")];
    assert_eq!(place("", &around, &[]).await, pair("ja-JP", "Asia/Tokyo"));
    assert_eq!(place("", &[("LC_ALL", "pt_BR@x"), ("LANG", "ja_JP")], &[]).await, pair("pt-BR", "UTC"));
    let handler = r#"handlers = [{ name = "context", after = "context", options = { language = "fr", time_zone = "Europe/Paris" } }]"#;
    assert_eq!(place(handler, &around, &[]).await, pair("fr", "Europe/Paris"));
    let args = ["--", "--language", "de", "--time-zone=Europe/Berlin"];
    assert_eq!(place(handler, &around, &args).await, pair("de", "Europe/Berlin"));
    let env = world("", &[]).await;
    let (_, said) = run(&env, &[], &["--", "--language", "two words"]).await;
    assert!(said.contains("is not a valid language"), "{said}");
}
