//! A process's own probes, asked from outside: `/livez` and `/readyz` of `ichido run --health`, and systemd's notifications. What is not
//! live is made so by an action that blocks its threads; a test starts its own binary again for that, as in `programs.rs`.

use std::{os::unix::net::UnixDatagram, process::Stdio, time::Duration};

use crate::testenv::{Env, Kind, Process, database::Database};
use ichido::{Context, Outcome, Result};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;
use ichido_testkit::eventually;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const ARGUMENTS: &str = "ICHIDO_TEST_BLOCKING";
pub(crate) const HEALTH: [&str; 3] = ["run", "--health", "127.0.0.1:0"];

/// Where a process answers probes.
pub(crate) async fn address(process: &Process) -> String {
    process.until_logged("answering probes").await;
    let log = process.log();
    let (_, rest) = log.split_once("127.0.0.1:").unwrap();
    format!("127.0.0.1:{}", rest.chars().take_while(char::is_ascii_digit).collect::<String>())
}

/// Status and body.
pub(crate) async fn ask(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(format!("{request} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.trim().to_owned())
}

async fn until(address: &str, path: &str, expected: (u16, &str)) {
    eventually(format!("{expected:?} from {path}"), async || {
        let (status, body) = ask(address, &format!("GET {path}")).await;
        if status == expected.0 && body.contains(expected.1) { Ok(()) } else { Err(format!("{status} {body}")) }
    })
    .await;
}

on_all!(a_process_is_ready_while_it_claims);
on_servers!(a_database_that_is_away_is_no_reason_to_restart);

async fn a_process_is_ready_while_it_claims(kind: Kind) {
    let env = Env::new(kind).await;
    let mut process = env.start("process", &["run", "ProjectCreation/R1", "--health", "127.0.0.1:0"]);
    let address = address(&process).await;
    until(&address, "/readyz", (200, "ok")).await;
    assert_eq!(ask(&address, "GET /livez").await, (200, "ok".into()));
    env.ok(&["pause", "R1"]).await;
    until(&address, "/readyz", (503, "paused")).await;
    assert_eq!(ask(&address, "GET /livez").await.0, 200);
    env.ok(&["resume", "R1"]).await;
    until(&address, "/readyz", (200, "ok")).await;
    assert_eq!(ask(&address, "HEAD /livez").await, (200, String::new()));
    assert_eq!(ask(&address, "POST /livez").await.0, 405);
    assert_eq!(ask(&address, "GET /").await.0, 404);
    let second = env.run(&["run", "--health", &address]).await;
    second.assert_refused(127, &["--health", &address, "in use"]);
    process.stop().await;
}

async fn a_database_that_is_away_is_no_reason_to_restart(kind: Kind) {
    let server = Database::start(kind);
    let env = Env::with_url(kind, server.fresh_database()).await;
    env.ok(&["migrate"]).await;
    env.configure(|config| config.replace("count = 20", "count = 1000"));
    let mut process = env.start("process", &HEALTH);
    let address = address(&process).await;
    until(&address, "/readyz", (200, "ok")).await;
    server.end(true);
    until(&address, "/readyz", (503, "")).await;
    assert_eq!(ask(&address, "GET /livez").await, (200, "ok".into()));
    // A scrape asks no database either; it tells how old the last heartbeat is.
    eventually("the heartbeat grows old", async || {
        let (status, text) = ask(&address, "GET /metrics").await;
        let age = text.lines().find_map(|line| line.strip_prefix("ichido_heartbeat_age_seconds "));
        match age.and_then(|age| age.parse::<f64>().ok()) {
            Some(age) if age > 1.0 => Ok(()),
            _ => Err(format!("{status} {text}")),
        }
    })
    .await;
    server.start_again();
    until(&address, "/readyz", (200, "ok")).await;
    process.stop().await;
}

#[derive(Deserialize)]
struct Nap {
    blocks: bool,
}

/// Blocks every thread of the runtime, if there are enough such messages: a mistake that users make.
async fn nap(_: &mut Context<Sqlite>, nap: Nap) -> Result<Outcome> {
    if nap.blocks {
        loop {
            std::thread::park();
        }
    }
    Ok(Outcome::Done)
}

/// Not a test: the program.
#[test]
#[ignore = "run by other tests, in processes of their own"]
fn child() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let program = Program::<Sqlite>::new().action_fn("Nap", nap);
    let words = std::iter::once("program").chain(arguments.split('\n')).map(Into::into);
    std::process::exit(program.run(words).into())
}

async fn naps(concurrency: u32) -> Env {
    let env = Env::new(Kind::Sqlite).await;
    let action = format!("\n[actions.Nap]\nfrom = \"mail\"\nconcurrency = {concurrency}\n");
    env.configure(|config| config + &action);
    env
}

fn start(env: &Env, name: &str, action: &str) -> Process {
    let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "probes::child", "--ignored", "--nocapture"]).current_dir(env.folder());
    command.env(ARGUMENTS, ["run", action, "--health", "127.0.0.1:0"].join("\n")).env("ICHIDO_LOG", "info");
    let log = std::fs::File::create(env.folder().join(name)).unwrap();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn().unwrap();
    Process::new(child, env.folder().join(name))
}

#[tokio::test]
async fn a_process_whose_workers_hang_is_not_live_while_its_sibling_is() {
    let env = naps(64).await;
    let stuck = start(&env, "stuck", "Nap");
    let stuck_at = address(&stuck).await;
    until(&stuck_at, "/readyz", (200, "ok")).await;
    let messages = vec![r#"{"blocks":true}"#; 64].join("\n");
    env.run_with_input(&["send", "mail", "--file", "-"], messages.as_bytes()).await;
    until(&stuck_at, "/livez", (503, "blocked")).await;
    let sibling = start(&env, "sibling", "ProjectCreation");
    let sibling_at = address(&sibling).await;
    until(&sibling_at, "/readyz", (200, "ok")).await;
    assert_eq!(ask(&sibling_at, "GET /livez").await, (200, "ok".into()));
    assert_eq!(ask(&stuck_at, "GET /livez").await.0, 503);
}

#[tokio::test]
async fn one_worker_that_blocks_its_thread_is_found() {
    let env = naps(1).await;
    let stuck = start(&env, "stuck", "Nap");
    let address = address(&stuck).await;
    env.ok(&["send", "mail", r#"{"blocks":true}"#]).await;
    until(&address, "/livez", (503, "a worker has blocked its thread for")).await;
}

#[tokio::test]
async fn systemd_is_told_that_a_process_is_ready_and_lives() {
    let env = Env::new(Kind::Sqlite).await;
    let path = env.folder().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    let mut command = env.command(&["run", "ProjectCreation"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "600000").stderr(Stdio::null());
    let process = Process::new(command.spawn().unwrap(), env.folder().join("log"));
    let told = tokio::task::spawn_blocking(move || {
        let mut told = Vec::new();
        while !(told.contains(&"READY=1".to_owned()) && told.iter().filter(|line| *line == "WATCHDOG=1").count() > 1) {
            let mut text = [0; 256];
            let length = socket.recv(&mut text).expect("systemd is told something");
            told.extend(String::from_utf8_lossy(&text[..length]).lines().map(str::to_owned));
        }
    });
    told.await.unwrap();
    process.kill().await;
}
