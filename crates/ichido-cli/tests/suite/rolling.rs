//! A rolling deploy: processes of two versions on one database under load. A newer ichido migrates, its processes start, and
//! the old ones are stopped one by one with SIGTERM.
//!
//! In the full size the newer version is built: this source with one more migration and the next schema number. In the small
//! size this version migrates to the next one, as it would if it knew it, and the processes that follow are of the same version:
//! what is shown then is that a version works, and starts, on tables one version newer.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use ichido::{CancellationToken, store::MigrateOptions};
use ichido_testkit::size;
use tokio::{process::Command, sync::OnceCell};

use crate::testenv::{Env, Kind, Process, next};

on_all!(a_rolling_deploy_loses_nothing_doubles_nothing_and_fails_nothing);

const RUN: &[&str] = &["run"];

/// What the next version adds.
const NAME: &str = "of_the_next_version";

/// `letter` is the ledger of the managed queue.
const MAIL: &str = r#"
[actions.Mail]
from = "mail"
sql = ["insert into letter (n) values (:n)"]
"#;

async fn a_rolling_deploy_loses_nothing_doubles_nothing_and_fails_nothing(kind: Kind) {
    let rounds = size(12, 300);
    let env = Env::new(kind).await;
    let next = next_version(&env).await;
    env.sql("create table letter (n integer)").await;
    env.slow_down(2);
    env.reconfigure(|config| config + MAIL);
    let mut old = ["old 1", "old 2", "old 3"].map(|name| env.start(name, RUN));
    let deploy = async {
        env.until("select count(*) from project", 20).await;
        migrate(&env, &next).await;
        // One that dies and is started anew by its service manager while the deploy is under way.
        let restarted = env.start("restarted", RUN);
        until_it_serves(&env, &restarted).await;
        let mut new = Vec::new();
        for (at, old) in old.iter_mut().enumerate() {
            new.push(env.start_program(&next, &format!("new {at}"), RUN));
            until_it_serves(&env, new.last().unwrap()).await;
            stop(old).await;
        }
        stop(&mut { restarted }).await;
        new
    };
    let deployed = CancellationToken::new();
    let deploy = async {
        let new = deploy.await;
        deployed.cancel();
        new
    };
    let (mut new, sent) = tokio::join!(deploy, send(&env, rounds, &deployed));
    env.until("select count(*) from received_order where status = '1'", sent).await;
    env.until("select count(*) from letter", sent).await;
    for process in &mut new {
        stop(process).await;
    }
    assert_exact(&env, sent).await;
    println!("{kind:?}: {} messages over a rolling deploy: LOST 0, DOUBLE 0, failed 0", 2 * sent);
}

const PER_ROUND: u32 = 20;

/// The load: orders and mails, a few at a time, before, during and after the deploy; says how many of each.
async fn send(env: &Env, least: u32, deployed: &CancellationToken) -> i64 {
    let mut round = 0;
    while round < least || !deployed.is_cancelled() {
        let ids = round * PER_ROUND + 1..=(round + 1) * PER_ROUND;
        let mails: Vec<_> = ids.clone().map(|n| format!(r#"{{"n":{n}}}"#)).collect();
        env.send_orders(ids).await;
        let sent = env.run_with_input(&["send", "mail", "--file", "-"], mails.join("\n").as_bytes()).await;
        assert_eq!(sent.code, Some(0), "{sent:?}");
        round += 1;
    }
    i64::from(round * PER_ROUND)
}

/// The ledger rule for orders and mails: all done, once, and nothing left behind.
pub(crate) async fn assert_exact(env: &Env, messages: i64) {
    env.assert_exact(messages).await;
    for (what, query, expected) in [
        ("DOUBLE mails", "select count(*) - count(distinct n) from letter", 0),
        ("mails", "select count(*) from letter", messages),
        ("mails left", "select count(*) from ichido_message", 0),
        ("failed orders", "select count(*) from received_order where status = '2'", 0),
        ("failures", "select count(*) from ichido_parked", 0),
        ("groups", "select count(*) from ichido_group", 0),
        ("processes", "select count(*) from ichido_process", 0),
    ] {
        assert_eq!(env.number(query).await, expected, "{what} on {:?}", env.kind);
    }
}

/// Resolves when it is known as alive.
async fn until_it_serves(env: &Env, process: &Process) {
    env.until(&format!("select count(*) from ichido_process where pid = {}", process.pid()), 1).await;
}

async fn stop(process: &mut Process) {
    process.signal("-TERM").await;
    let code = process.exit_code().await;
    let log = process.log();
    assert_eq!(code, 0, "{log}");
    assert!(!log.contains("ERROR") && !log.contains("runs again"), "something failed:\n{log}");
}

/// The program that knows the next version; in the small size there is none.
async fn next_version(env: &Env) -> PathBuf {
    let known = env.number("select count(*) from ichido_schema").await;
    if size(0, 1) == 0 { env!("CARGO_BIN_EXE_ichido").into() } else { built_next_version(known).await.into() }
}

/// Brings the tables to the next version.
async fn migrate(env: &Env, next: &Path) {
    let known = env.number("select count(*) from ichido_schema").await;
    if size(0, 1) == 0 {
        let options = MigrateOptions::default().next(next::next_version(env.kind, NAME));
        let migrated = next::migrate(env, options).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(i64::from(migrated.to), known + 1);
        return;
    }
    let run = async |word| Command::new(next).arg(word).current_dir(env.folder()).output().await.unwrap();
    let version = run("--version").await;
    assert!(String::from_utf8_lossy(&version.stdout).contains(&format!("(schema {})", known + 1)), "{version:?}");
    let migrated = run("migrate").await;
    assert!(migrated.status.success(), "{migrated:?}");
    assert_eq!(env.number("select count(*) from ichido_schema").await, known + 1);
}

/// This source with one migration more, built once in a folder of its own.
async fn built_next_version(known: i64) -> &'static Path {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let build = async || {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("next-version");
        let source = own.join("source");
        let _ = std::fs::remove_dir_all(&source);
        std::fs::create_dir_all(&source).unwrap();
        for part in ["Cargo.toml", "Cargo.lock", "README.md", "crates"] {
            // With their times, so that only what differs is built anew.
            let copied = Command::new("cp").args(["-r", "-p"]).arg(workspace.join(part)).arg(&source).status();
            assert!(copied.await.unwrap().success());
        }
        for (store, kind) in [("sqlite", Kind::Sqlite), ("postgres", Kind::Postgres), ("mysql", Kind::MariaDb)] {
            add_version(&source.join("crates").join(format!("ichido-{store}")).join("src"), kind, known);
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--offline", "-p", "ichido-cli", "--target-dir"]).arg(own.join("target"));
        let built = cargo.current_dir(&source).stdin(Stdio::null()).status().await.unwrap();
        assert!(built.success(), "the next version does not build");
        own.join("target/debug/ichido")
    };
    BUILT.get_or_init(build).await
}

/// One version more in a store's `schema.rs`.
fn add_version(store: &Path, kind: Kind, known: i64) {
    let (file, next) = (store.join("schema.rs"), known + 1);
    let text = std::fs::read_to_string(&file).unwrap();
    let start = text.find("static VERSIONS").expect("a store has its versions there");
    let end = start + text[start..].find("\n];").expect("they end");
    let line = format!("\n    Version::new({next}, {known}, include_str!(\"migrations/next.sql\")),");
    let changed = format!("{}{line}{}", &text[..end], &text[end..])
        .replace(&format!("VERSION: u32 = {known};"), &format!("VERSION: u32 = {next};"))
        .replace(&format!("[Version; {known}]"), &format!("[Version; {next}]"));
    std::fs::write(store.join("migrations/next.sql"), next::additions(kind, NAME)).unwrap();
    std::fs::write(&file, changed).unwrap();
}
