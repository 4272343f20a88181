//! What comes from outside changes no terminal and fakes no line, whichever command shows it; `--json` still says exactly what it was.

use serde_json::Value;

use crate::testenv::{Env, Kind};

/// Clears the screen, rings, begins a colour as C1 does, turns the text around.
const HOSTILE: &str = "\u{1b}[2J\u{7}\u{9b}31m\u{202e}txet\u{2066}";

fn is_hostile(c: char) -> bool {
    c.is_control() && c != '\n'
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn assert_plain(shown: &str) {
    assert!(!shown.contains(is_hostile), "{shown:?}");
    assert!(shown.contains("\\u{202e}txet"), "{shown:?}");
}

/// A message that has failed, with hostile texts wherever others can write.
async fn failed() -> Env {
    let env = Env::new(Kind::Sqlite).await;
    env.configure(|config| config + "\n[actions.Do]\nfrom = \"mail\"\nexec = [\"sh\", \"-c\", \"exit 65\"]\n");
    env.ok(&["send", "mail", &format!("\"{HOSTILE}\"").replace('\u{1b}', "\\u001b").replace('\u{7}', "\\u0007")]).await;
    let ended = env.run(&["run", "Do", "--drain"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains(is_hostile), "the log: {:?}", ended.stderr);
    assert!(ended.stderr.contains("\\u{202e}txet"), "the log: {:?}", ended.stderr);
    env.sql(&format!("update ichido_message set payload = '{HOSTILE}\nattempts  99'")).await;
    env.sql(&format!(
        "update ichido_parked set history = json_set(history, '$[0].error', '{HOSTILE}\nattempt 7 at noon')"
    ))
    .await;
    env
}

#[tokio::test]
async fn what_came_from_outside_is_shown_with_escapes() {
    let env = failed().await;
    assert_plain(&env.ok(&["failed", "list"]).await);
    let shown = env.ok(&["failed", "show", "mail/1"]).await;
    assert_plain(&shown);
    assert!(shown.contains("\\u{1b}[2J\\u{7}\\u{9b}31m"), "{shown}");
    for faked in ["attempts  99", "attempt 7 at noon"] {
        assert!(!shown.lines().any(|line| line == faked), "{shown}");
    }
    assert_plain(&env.ok(&["messages", "list"]).await);
    let shown = env.ok(&["messages", "show", "mail/1"]).await;
    assert_plain(&shown);
    assert!(!shown.lines().any(|line| line == "attempts  99" || line == "attempt 7 at noon"), "{shown}");
    let mut running = env.start("log", &["run", "ProjectCreation/R1"]);
    env.until("select count(*) from ichido_process", 1).await;
    env.sql(&format!("update ichido_process set host = '{HOSTILE}'")).await;
    assert_plain(&env.ok(&["status"]).await);
    running.stop().await;
}

#[tokio::test]
async fn json_is_exact_and_as_harmless() {
    let env = failed().await;
    let json = env.ok(&["failed", "show", "mail/1", "--json"]).await;
    assert!(!json.contains(is_hostile), "{json:?}");
    let shown: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(shown["payload"], format!("{HOSTILE}\nattempts  99"));
    assert_eq!(shown["error"], format!("{HOSTILE}\nattempt 7 at noon"));
}

#[tokio::test]
async fn errors_are_shown_with_escapes_too() {
    let env = Env::new(Kind::Sqlite).await;
    let refused = env.run(&["failed", "show", &format!("mail{HOSTILE}/1")]).await;
    assert_eq!(refused.code, Some(127), "{refused:?}");
    assert_plain(&refused.stderr);
}
