//! What belongs to an installed program: a first configuration, its version, manual pages, completions.

use crate::testenv::{Env, Kind};

/// What `ichido --help` lists.
async fn commands(env: &Env) -> Vec<String> {
    let help = env.ok(&["--help"]).await;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let word = |line: &str| {
        let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        name.split(' ').next().map(str::to_owned)
    };
    let commands: Vec<_> = list.lines().filter_map(word).filter(|name| name != "help").collect();
    assert!(commands.len() >= 15 && commands.contains(&"run".to_owned()), "{commands:?}");
    commands
}

#[tokio::test]
async fn a_new_configuration_leads_from_nothing_to_done() {
    let env = Env::new(Kind::Sqlite).await;
    let refused = env.run(&["init"]).await;
    refused.assert_refused(127, &["ichido.toml already exists", "--force"]);
    let written = env.run(&["init", "--force"]).await;
    assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{written:?}");
    let talked: Vec<_> = written.stderr.lines().skip(1).map(|line| line.split('#').next().unwrap().trim()).collect();
    assert_eq!(talked.len(), 5, "{written:?}");
    for command in &talked[..4] {
        let arguments: Vec<_> = command.strip_prefix("ichido ").unwrap().split(' ').collect();
        let arguments: Vec<_> = arguments.iter().map(|word| word.trim_matches('\'')).collect();
        env.ok(&arguments).await;
    }
    let status: serde_json::Value = serde_json::from_str(&env.ok(&["status", "--json"]).await).unwrap();
    assert_eq!((&status["queues"][0]["ready"], &status["queues"][0]["failed"]), (&0.into(), &0.into()), "{status}");
}

#[tokio::test]
async fn a_new_configuration_is_for_its_owner_and_for_the_database_that_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let env = Env::new(Kind::Sqlite).await;
    env.ok(&["--config", "other.toml", "--database-url", "postgres://me:secret@db/x", "-q", "init"]).await;
    let file = env.folder().join("other.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().contains("\nurl = \"postgres://me:secret@db/x\"\n"));
    let refused = env.run(&["--config", "third.toml", "--database-url", "oracle://me:secret@db/x", "init"]).await;
    refused.assert_refused(127, &["third.toml", "database.url"]);
    assert!(!refused.stderr.contains("secret") && !env.folder().join("third.toml").exists());
}

#[tokio::test]
async fn the_version_names_the_schema() {
    let env = Env::new(Kind::Sqlite).await;
    let schema = env.number("select max(version) from ichido_schema").await;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        env.ok(&["--version"]).await,
        format!(
            "ichido {version} (schema {schema}) with sqlite, postgres, mysql, rabbitmq, sqs, metrics, telemetry, console, tls-rustls-ring\n"
        )
    );
}

#[tokio::test]
async fn the_stores_know_the_same_schema() {
    assert_eq!(ichido_sqlite::VERSION, ichido_postgres::VERSION);
    assert_eq!(ichido_sqlite::VERSION, ichido_mysql::VERSION);
}

#[tokio::test]
async fn completions_and_manual_pages_name_every_command() {
    let env = Env::new(Kind::Sqlite).await;
    let commands = commands(&env).await;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = env.ok(&["completions", shell]).await;
        for command in &commands {
            assert!(text.contains(command.as_str()), "{shell}: {command}");
        }
    }
    env.run(&["completions", "tcsh"]).await.assert_refused_by_clap();
    let page = env.ok(&["man"]).await;
    env.ok(&["man", "--to", "share/man/man1"]).await;
    for command in &commands {
        assert!(page.contains(&format!("ichido\\-{command}(1)")), "{command} in:\n{page}");
        let file = env.folder().join(format!("share/man/man1/ichido-{command}.1"));
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(text.contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(env.folder().join("share/man/man1/ichido-failed-retry.1").exists());
}

const UNIT: &str = include_str!("../../../../deploy/ichido@.service");

#[test]
fn the_unit_gives_running_messages_more_than_their_grace() {
    let seconds = UNIT.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")?.strip_suffix('s')).unwrap();
    let grace = ichido::process::Settings::default().grace.as_secs();
    assert!(seconds.parse::<u64>().unwrap() > grace + 10, "{seconds}s after a grace of {grace}s");
    for line in [
        "Type=notify",
        "TimeoutStartSec=infinity",
        "KillSignal=SIGTERM",
        "Restart=on-failure",
        "RestartPreventExitStatus=13 127",
    ] {
        assert!(UNIT.lines().any(|there| there == line), "{line}");
    }
}

#[tokio::test]
async fn systemd_understands_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ichido@.service");
    std::fs::write(&file, UNIT.replace("/usr/local/bin/ichido", env!("CARGO_BIN_EXE_ichido"))).unwrap();
    let mut verify = tokio::process::Command::new("systemd-analyze");
    let said = verify.args(["verify", "--man=no"]).arg(&file).output().await;
    let said = said.expect("systemd-analyze is needed, from the package systemd: ./test installs it");
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && !text.contains(&*file.to_string_lossy()), "{text}");
}
