//! A file to which a queue is to be added.

use std::path::PathBuf;

use super::*;
use crate::config::{Draft, lines};

const NEW: &str = "[queues.orders]\ntable = \"t\"\nstatus = { column = \"s\", new = 0, done = 1 }\nowner = \"o\"\n";

/// A folder, and a file in it with this text.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ichido.toml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn draft(text: &str) -> (tempfile::TempDir, Draft) {
    let (folder, path) = file(text);
    (folder, Draft::open(&path, None, nothing_set).unwrap())
}

#[test]
fn an_action_may_name_the_queue_that_is_to_come_and_no_other() {
    let (_folder, draft) = draft("[actions.A]\nfrom = \"orders\"\nsql = [\"select 1\"]\n");
    let config = draft.config("orders").unwrap();
    assert!(config.queues.is_empty() && config.actions.contains_key("A"));
    let error = draft.config("order").unwrap_err().to_string();
    assert!(error.contains("ichido.toml:2: actions.A.from") && error.contains("did you mean `order`"), "{error}");
}

#[test]
fn every_other_mistake_is_told_as_it_stands_in_the_file() {
    for (text, part) in [
        ("[actions.A]\nfrom = \"orders\"\nconcurency = 1\n", "ichido.toml:3: actions.A.concurency"),
        ("[queues.orders]\n[actions.A]\nfrom = \"ordres\"\n", "ichido.toml:3: actions.A.from"),
        ("[queues.orders]\nx = ", "ichido.toml:2"),
    ] {
        let (_folder, draft) = draft(text);
        let error = draft.config("orders").unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn what_is_added_comes_after_what_was_there() {
    for text in ["# mine\n[queues.mail]", "# mine\n[queues.mail]\n", ""] {
        let (_folder, path) = file(text);
        let draft = Draft::open(&path, None, nothing_set).unwrap();
        draft.check(NEW).unwrap();
        draft.append(NEW).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.starts_with(text) && written.ends_with(NEW), "{written}");
        assert!(parse(&written).unwrap().queues.contains_key("orders"));
    }
}

#[test]
fn a_file_that_cannot_take_it_is_left_alone() {
    let (_folder, draft) = draft("queues = { mail = {} }\n");
    let error = draft.check(NEW).unwrap_err().to_string();
    assert!(error.contains("ichido.toml: queues: cannot append a queue"), "{error}");
}

#[test]
fn a_new_file_says_where_the_database_is_and_no_password_of_the_environment() {
    let set = |name: &str| (name == "ICHIDO_DATABASE_URL").then(|| "postgres://me:secret@host/db".to_owned());
    let path = tempfile::tempdir().unwrap().path().join("nothing.toml");
    let from_variable = Draft::open(&path, None, set).unwrap();
    assert_eq!(from_variable.config("q").unwrap().database.url.as_str(), "postgres://me:secret@host/db");
    assert!(!format!("{from_variable:?}").contains("secret"));
    let given = Draft::open(&path, Some("sqlite://a${b}\"c.db"), nothing_set).unwrap();
    assert_eq!(given.config("q").unwrap().database.url.as_str(), "sqlite://a${b}\"c.db");
    let error = Draft::open(&path, None, nothing_set).unwrap_err().to_string();
    assert!(error.contains("nothing.toml") && error.contains("--database-url"), "{error}");
}

#[test]
fn texts_are_read_back_as_they_were_meant() {
    for value in ["", "it's", "\"", "\\", "${HOME}", "$${HOME}", "$", "tab\there", "日本", "\u{7f}", "#"] {
        let text = format!(
            "[queues.q]\ntable = \"t\"\nowner = \"o\"\nstatus = {{ column = \"s\", new = {}, done = \"other\" }}",
            lines::text(value)
        );
        let config = parse(&text).unwrap_or_else(|error| panic!("{value:?}: {error}\n{text}"));
        let crate::config::QueueKind::Table(table) = &config.queues["q"].kind else { panic!("{config:?}") };
        assert_eq!(table.status.new, value);
    }
}
