//! Names, tables and columns that are refused.

use super::{accepted, refused, with_table};

#[test]
fn names_are_short_and_plain() {
    accepted("[queues._a]\n[queues.B-9_x]\n[queues.\"a.b\"]");
    let long = "a".repeat(65);
    for name in ["9a", "-a", "a b", "ä", "", "a/b", "a\\u0000", &long] {
        for section in ["queues", "actions", "lanes"] {
            let text = format!("[{section}.\"{name}\"]");
            refused(&text, &[&format!("ichido.toml:1: {section}."), "is not a valid name; a name has 1 to 64"]);
        }
    }
    accepted(&format!("[queues.{}]", "a".repeat(64)));
}

#[test]
fn identifiers_are_refused_when_empty_too_long_or_with_control_characters() {
    let long = "x".repeat(64);
    let odd = [
        ("", "is empty"),
        ("a\\nb", "contains a control character"),
        ("a\\u0007", "contains a control character"),
        ("a\\u0000b", "contains a NUL character"),
        (&long, "is longer than 63 bytes"),
    ];
    for (name, why) in odd {
        let keys = ["owner", "sent_at", "group_by"].map(|key| format!("{key} = \"{name}\""));
        let lists = [format!("key = [\"{name}\"]"), format!("order_by = [\"{name}\"]")];
        for line in keys.into_iter().chain(lists) {
            let text = with_table("").replace("owner = \"o\"", "");
            let owner = if line.starts_with("owner") { "" } else { "owner = \"o\"\n" };
            refused(&format!("{text}{owner}{line}"), &["queues.q.", why]);
        }
        refused(&with_table("").replace("\"t\"", &format!("\"{name}\"")), &["queues.q.table", why]);
        refused(&format!("[database]\nschema = \"{name}\""), &["database.schema", why]);
    }
    refused(&with_table("only = { \"\" = 1 }"), &["queues.q.only.\"\": the identifier \"\" is empty"]);
    refused(&with_table("only = { \"a\\u0000\" = 1 }"), &["contains a control character"]);
    refused(&with_table("order_by = [\"-\"]"), &["queues.q.order_by[0]: the identifier \"\" is empty"]);
}

#[test]
fn a_table_name_has_at_most_two_parts() {
    let table = |name: &str| with_table("").replace("\"t\"", &format!("'{name}'"));
    refused(&table("a.b.c"), &["ichido.toml:2: queues.q.table: \"a.b.c\" has more than two parts", "schema.name"]);
    refused(&table("a."), &["the identifier \"\" is empty"]);
    refused(&table(".a"), &["the identifier \"\" is empty"]);
    refused(&table("\"a"), &["a misplaced double quote"]);
    refused(&table("\"a\"b"), &["a misplaced double quote"]);
    refused(&table("\"\".a"), &["the identifier \"\" is empty"]);
    accepted(&table("\"a.b\".\"c.d\""));
}

#[test]
fn columns_are_not_named_twice() {
    refused(&with_table("key = [\"a\", \"b\", \"a\"]"), &["queues.q.key: \"a\" is used twice"]);
    refused(&with_table("order_by = [\"a\", \"-a\"]"), &["queues.q.order_by: \"a\" is used twice"]);
    refused(&with_table("key = []"), &["queues.q.key: the list is empty; fill it or remove the key"]);
    refused(&with_table("order_by = []"), &["queues.q.order_by: the list is empty"]);
    refused(&with_table("").replace("\"o\"", "\"s\""), &["queues.q.owner: \"s\" is already the status column"]);
    refused(&with_table("key = [\"o\"]"), &["queues.q.key: \"o\" is already the owner column"]);
    refused(&with_table("only = { s = 0 }"), &["queues.q.only: \"s\" is already the status column"]);
}

#[test]
fn the_values_of_the_status_differ_as_text() {
    let status = |values: &str| with_table("").replace("new = 0, done = 1", values);
    refused(&status("new = 0, done = \"0\""), &["ichido.toml:3: queues.q.status: \"0\" is used twice"]);
    refused(&status("new = 0, done = 1, failed = 1"), &["queues.q.status: \"1\" is used twice"]);
    refused(&status("new = 0, done = 1, failed = 0"), &["queues.q.status: \"0\" is used twice"]);
    refused(&status("new = \"true\", done = true"), &["\"true\" is used twice"]);
    accepted(&status("new = \"\", done = \" \""));
    refused(&status("new = 0"), &["queues.q.status.done: missing; it is optional only with `on_done = \"delete\"`"]);
}
