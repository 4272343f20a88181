//! The section `[serve]`: who may use the console.

use super::super::{Serve, ServeRole};
use super::{accepted, refusal, refused};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn serve(text: &str) -> Serve {
    accepted(&format!("[database]\nurl = \"sqlite://x.db\"\n[serve]\n{text}\n")).serve
}

#[test]
fn by_default_only_this_host_is_served() {
    let serve = serve("");
    assert_eq!(serve.listen.to_string(), "127.0.0.1:7070");
    assert!(serve.tokens.is_empty() && serve.tls.is_none() && !serve.behind_proxy && serve.docs);
}

#[test]
fn a_token_has_a_name_and_a_role_and_is_not_printed() {
    let serve = serve(&format!("tokens = [{{ name = \"anna\", role = \"operate\", token = \"{TOKEN}\" }}]"));
    assert_eq!((serve.tokens[0].name.as_str(), serve.tokens[0].role), ("anna", ServeRole::Operate));
    assert!(!format!("{serve:?}").contains(TOKEN), "{serve:?}");
}

#[test]
fn what_would_let_anybody_in_is_refused_without_showing_it() {
    for (text, why) in [
        ("tokens = [{ name = \"a\", role = \"read\", token = \"s3cret\" }]", "at least 32 characters"),
        ("tokens = [{ name = \"a\", role = \"read\", token = \"\" }]", "serve.tokens"),
        ("tokens = [{ name = \"a\", role = \"root\", token = \"x\" }]", "admin"),
        ("tokens = [{ name = \"a\", role = \"read\" }]", "token"),
        ("listen = \"everywhere\"", "127.0.0.1:7070"),
        ("tls = { cert = \"c.pem\" }", "key"),
        ("password = \"s3cret\"", "serve"),
    ] {
        let told = refusal(&format!("[database]\nurl = \"sqlite://x.db\"\n[serve]\n{text}\n"));
        assert!(told.contains(why) && !told.contains("s3cret"), "{text}: {told}");
    }
    let twice = format!("{{ name = \"a\", role = \"read\", token = \"{TOKEN}\" }}");
    let text = format!("[database]\nurl = \"sqlite://x.db\"\n[serve]\ntokens = [{twice}, {twice}]\n");
    refused(&text, &["used twice"]);
}
