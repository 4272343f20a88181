//! `ichido status --watch` on a real terminal: what its screen shows, its keys, its size, a database that is away; and that the terminal
//! is given back however it ends. Without a terminal it prints, as it always did.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::testenv::{Env, Kind, Process, database::Database, tty::Tty};

on_all!(the_screen_shows_what_happens);
on_servers!(a_database_that_is_away_is_told_and_asked_again);

const WATCH: [&str; 2] = ["status", "--watch"];

/// Something runs, and something has failed with a text that would wipe the screen.
async fn busy(kind: Kind) -> (Env, Process) {
    let env = Env::new(kind).await;
    let actions = r#"
[queues.bad]
[actions.Sleep]
from = "mail"
exec = ["sleep", "600"]
[actions.Fail]
from = "bad"
exec = ["sh", "-c", "echo boo >&2; exit 65"]
"#;
    env.configure(|config| config + actions);
    for queue in ["mail", "bad"] {
        env.ok(&["send", queue, "{}"]).await;
    }
    let process = env.start("process", &["run"]);
    env.until("select count(*) from ichido_parked where state = 'dead'", 1).await;
    let error = r#"[{"attempt":1,"at":"today","error":"HOSTILE"}]"#.replace("HOSTILE", "\u{9b}2J\u{202e}oob");
    env.sql(&format!("update ichido_parked set history = '{error}' where state = 'dead'")).await;
    (env, process)
}

async fn the_screen_shows_what_happens(kind: Kind) {
    let (env, process) = busy(kind).await;
    let tty = Tty::run(&env, &WATCH, 40, 200);
    tty.until(&["ichido status", "QUEUE▼", "LAST 5 MIN", "PROCESS▼", "REQUEST ID", "q: quit"]).await;
    tty.until(&["RUNNING", "mail/1"]).await;
    tty.until(&["LAST ERRORS", "bad/2", "failed", "\\u{202e}oob"]).await;
    let order = |rows: &[String]| {
        let place = |queue: &str| rows.iter().position(|row| row.starts_with(queue)).expect("a queue");
        place("bad ") < place("orders ")
    };
    assert!(order(&tty.rows()), "by name: {:#?}", tty.rows());
    tty.press("S");
    tty.until(&["QUEUE▲"]).await;
    assert!(!order(&tty.rows()), "by name, reversed: {:#?}", tty.rows());
    tty.press("s");
    tty.until(&["READY▼"]).await;
    tty.press("p\u{1b}[Ap"); // an arrow is no key of ours
    tty.until(&["HOST▼"]).await;
    tty.resize(12, 50);
    tty.until(&["… ", "q: quit"]).await;
    let rows = tty.rows();
    assert!(rows[0].starts_with("ichido status") && rows[11].starts_with("q: quit"), "{rows:#?}");
    tty.resize(40, 200);
    tty.until(&["RUNNING", "LAST ERRORS", "HOST▼"]).await;
    let (wiped, frames) = tty.drawn();
    assert!(wiped == 1 && frames > 5, "wiped {wiped} times in {frames} frames: it flickers");
    tty.press("q");
    assert_eq!(tty.ends().await, Some(0));
    process.kill().await;
}

#[tokio::test]
async fn the_terminal_is_given_back_however_it_ends() {
    let env = Env::new(Kind::Sqlite).await;
    let tty = Tty::run(&env, &WATCH, 24, 80);
    tty.until(&["QUEUE▼"]).await;
    tty.press("\u{3}");
    assert_eq!(tty.ends().await, Some(0), "Ctrl-C");
    let tty = Tty::run(&env, &WATCH, 24, 80);
    tty.until(&["QUEUE▼"]).await;
    let pid = tty.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    assert_eq!(tty.ends().await, Some(143), "SIGTERM");
}

#[tokio::test]
async fn a_tiny_terminal_is_enough() {
    let env = Env::new(Kind::Sqlite).await;
    let tty = Tty::run(&env, &WATCH, 3, 10);
    tty.until(&["ichido sta", "QUEUE▼", "q: quit"]).await;
    tty.resize(1, 1);
    tty.until(&["q"]).await;
    tty.press("q");
    assert_eq!(tty.ends().await, Some(0));
}

async fn a_database_that_is_away_is_told_and_asked_again(kind: Kind) {
    let server = Database::start(kind);
    let env = Env::with_url(kind, server.fresh_database()).await;
    env.ok(&["migrate"]).await;
    let tty = Tty::run(&env, &WATCH, 30, 160);
    tty.until(&["QUEUE▼", "orders"]).await;
    server.end(true);
    tty.until(&["no answer from the database, trying again: ", "orders"]).await;
    tty.press("s");
    tty.until(&["READY▼", "no answer from the database"]).await;
    server.start_again();
    env.send_orders(1..=3).await;
    tty.until(&["orders  3"]).await;
    let screen = tty.rows().join("\n");
    assert!(!screen.contains("no answer"), "{screen}");
    tty.press("q");
    assert_eq!(tty.ends().await, Some(0));
}

#[tokio::test]
async fn what_is_wrong_from_the_start_needs_no_screen() {
    let env = Env::bare(Kind::Sqlite).await;
    let tty = Tty::run(&env, &WATCH, 24, 100);
    tty.until(&["ichido migrate"]).await;
    assert_eq!(tty.drawn(), (0, 0));
    assert_eq!(tty.ends().await, Some(127));
}

#[tokio::test]
async fn without_a_terminal_it_prints() {
    let env = Env::new(Kind::Sqlite).await;
    let mut watch = env.command(&WATCH).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut headings = 0;
    while headings < 2 {
        let line = lines.next_line().await.unwrap().expect("it repeats");
        assert!(!line.contains('\u{1b}'), "{line:?}");
        headings += usize::from(line.starts_with("QUEUE  "));
    }
    drop(lines);
    assert!(watch.wait().await.unwrap().success());
}
