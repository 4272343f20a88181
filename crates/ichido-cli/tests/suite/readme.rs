//! The README: every code block and every command in it is run by a test, and no text that users read has one of the words that we have
//! given up.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::testenv::{Env, Kind};

const README: &str = include_str!("../../../../README.md");

/// Where each kind of block is tested: a block of another kind needs a test of its own.
const TESTED: [(&str, &str); 5] = [
    ("console", "`every_command_of_the_readme_runs`, and adopt::the_readme_is_right"),
    ("text", "a picture"),
    ("rust,no_run", "a doc test of ichido-cli"),
    ("toml", "commands::the_demo_is_exact"),
    ("", "the end of a block"),
];

/// Words of our own making, and what the field says.
const GIVEN_UP: [(&str, &str); 20] = [
    ("sign of life", "heartbeat"),
    ("signs of life", "heartbeats"),
    ("look around", "poll"),
    ("give back", "release"),
    ("gives back", "releases"),
    ("given back", "released"),
    ("take leave", "deregister"),
    ("takes leave", "deregisters"),
    ("turn to publish", "relay lease"),
    ("patience", "timeout"),
    (" bell", "wake-up"),
    (" beat ", "heartbeat"),
    ("the letter", "the dead letter"),
    ("job processor", "messages, not jobs"),
    (" zombie", "parked"),
    ("revive", "retry"),
    ("nobody can tell", "unknown"),
    ("has no company", "runs in a transaction of its own"),
    ("stayed away", "unreachable"),
    ("lacks to be a queue", "is missing"),
];

#[test]
fn every_kind_of_block_in_the_readme_has_a_test() {
    let kinds: BTreeSet<&str> = README.lines().filter_map(|line| line.strip_prefix("```")).collect();
    let tested: BTreeSet<&str> = TESTED.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, tested);
}

/// The commands in console blocks and in the running text.
fn commands() -> BTreeSet<String> {
    let shown = README.lines().filter_map(|line| line.strip_prefix("$ "));
    let shown = shown.map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned());
    let named = README.split('`').skip(1).step_by(2).filter(|code| code.starts_with("ichido ") && !code.contains('\n'));
    shown.chain(named.map(ToOwned::to_owned)).collect()
}

/// Commands that have tests of their own: `adopt`, and, because they run until they are stopped, `serving` and `browser`.
const ELSEWHERE: [&str; 6] = [
    "./test",
    "ichido adopt",
    "ichido adopt --table purchase_order",
    "ichido adopt --table purchase_order --apply",
    "ichido demo --serve",
    "ichido serve",
];

#[tokio::test]
async fn every_command_of_the_readme_runs() {
    let env = Env::bare(Kind::Sqlite).await;
    env.ok(&["demo", "--orders", "100", "--keep", "my-demo"]).await;
    for command in commands() {
        let arguments = match command.strip_prefix("ichido ").or(command.strip_prefix("cargo run --release -- ")) {
            _ if ELSEWHERE.contains(&command.as_str()) => continue,
            Some(arguments) => arguments.replace("my-demo", "another-demo"),
            None => panic!("{command} is not run by any test"),
        };
        let words: Vec<&str> = arguments.split(' ').collect();
        let own = matches!(words[0], "demo" | "init");
        let place = ["--config", "my-demo/ichido.toml", "--database-url", "sqlite://my-demo/demo.db"];
        let place = if own { ["--config", "new.toml", "--database-url", "sqlite://new.db"] } else { place };
        // The demo's own size is for commands::the_demo_is_exact.
        let small: &[&str] = if words[0] == "demo" { &["--orders", "100"] } else { &[] };
        env.ok(&[&place[..], &words[..], small].concat()).await;
    }
}

#[test]
fn no_text_that_users_read_has_a_word_that_was_given_up() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")];
    texts.push(root.join("crates/ichido-cli/src/args.rs"));
    texts.push(root.join("crates/ichido-cli/src/config/template.toml"));
    files(&root.join("docs"), "md", &mut texts);
    for file in texts {
        let text = std::fs::read_to_string(&file).unwrap().to_lowercase();
        for (word, better) in GIVEN_UP {
            assert!(!text.contains(word), "{}: `{word}`; write `{better}`", file.display());
        }
    }
}

/// The files with this ending below a folder.
fn files(folder: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, into);
        } else if path.extension().is_some_and(|found| found == ending) {
            into.push(path);
        }
    }
}

/// A text was changed or added: `docs/messages.py` writes the list anew.
#[test]
fn the_list_of_messages_is_up_to_date() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/messages.py");
    let checked = std::process::Command::new("python3").arg(script).arg("--check").output().expect("python3");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// A test that GUARDS.md names, whole or with `…` for a part of it, is there.
#[test]
fn guards_are_caught_by_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    files(&root.join("crates"), "rs", &mut sources);
    let sources: String = sources.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let functions: BTreeSet<&str> = sources.split("fn ").skip(1).map(word).collect();
    let guards = std::fs::read_to_string(root.join("GUARDS.md")).unwrap();
    let codes = guards.split('`').skip(1).step_by(2).flat_map(|code| code.split([' ', ':', ',']));
    let mut seen = 0;
    for name in codes.filter(|code| code.matches('_').count() >= 3) {
        let parts: Vec<&str> = name.split('…').filter(|part| !part.is_empty()).collect();
        let whole = !name.contains('…');
        let found =
            |function: &&str| if whole { *function == name } else { parts.iter().all(|part| function.contains(part)) };
        assert!(functions.iter().any(found), "GUARDS.md names `{name}`, and there is no such test");
        seen += 1;
    }
    assert!(seen > 100, "{seen} names: how they are written has changed");
}

/// The identifier at the beginning of a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}
