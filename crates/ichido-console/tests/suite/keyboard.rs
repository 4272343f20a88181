//! Everything that a mouse can do, a keyboard can: each control is reached, in the order of the page, and seen when it is.

use std::time::Duration;

use ichido::{Client, inspect::MessageState};
use ichido_test_servers::Look;
use serde_json::{Value, json};

use crate::{stage::Stage, visitor::Visitor};

/// Numbers what can be used, and holds the page as it is meanwhile; how many there are.
const NUMBER: &str = "const freeze = document.getElementById('freeze'); if (freeze && !freeze.hidden) freeze.click(); \
    const all = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex=\"0\"]'; \
    const used = [...document.querySelectorAll(all)].filter((one) => one.checkVisibility() && !one.disabled); \
    used.forEach((one, at) => one.dataset.at = at); return used.length";

/// A form that is submitted is told of, and stays.
const TELL: &str = "const freeze = document.getElementById('freeze'); if (freeze && !freeze.hidden) freeze.click(); \
    document.addEventListener('submit', (event) => { event.preventDefault(); document.title = 'submitted'; })";

/// What has the focus, and whether that is to be seen.
const FOCUSED: &str = "const it = document.activeElement; const seen = getComputedStyle(it); const place = it.getBoundingClientRect(); \
    const isSeen = seen.outlineStyle !== 'none' && parseFloat(seen.outlineWidth) >= 2 && place.bottom > 0 && place.right > 0; \
    return { at: it.dataset.at === undefined ? null : Number(it.dataset.at), isSeen, what: it.outerHTML.slice(0, 200), \
        name: (it.labels?.[0]?.textContent || it.getAttribute('aria-label') || it.textContent || it.title).trim() }";

async fn press(visitor: &Visitor<'_>, key: &str, code: u32) {
    for kind in ["keyDown", "keyUp"] {
        let text = if key == "Enter" { "\r" } else { "" };
        let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        visitor.browser.devtools("Input.dispatchKeyEvent", event).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tab_reaches_every_control_in_order() {
    let stage = Stage::open().await;
    let failed = stage.failed_order("4711").await;
    let visitor = Visitor::new(&stage, Look::default()).await;
    let message = format!("/message?id={}", failed.to_string().replace('/', "%2F"));
    for path in [
        "/",
        "/queue?name=orders&state=failed",
        &message,
        "/failed",
        "/failed/all?verb=retry",
        "/processes",
        "/lanes",
        "/send",
    ] {
        visitor.go(path).await;
        let count = visitor.browser.run(NUMBER).await.as_u64().expect("a number");
        for at in 0..count {
            press(&visitor, "Tab", 9).await;
            let focused = visitor.browser.run(FOCUSED).await;
            let what = &focused["what"];
            // What is not in the list is a part that can be moved by the keyboard.
            assert_eq!(focused["at"], at, "{path}: {what}");
            assert_eq!(focused["isSeen"], true, "{path}: the focus is not to be seen: {what}");
            let is_named = focused["name"].as_str().is_some_and(|name| !name.is_empty());
            assert!(is_named || what.as_str().is_some_and(|what| what.starts_with("<pre")), "{path}: no name: {what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_link_skips_the_menu() {
    let stage = Stage::open().await;
    let visitor = Visitor::new(&stage, Look::default()).await;
    visitor.go("/send").await;
    press(&visitor, "Tab", 9).await;
    press(&visitor, "Enter", 13).await;
    let focused = "return document.activeElement.id";
    assert_eq!(visitor.browser.run(focused).await, Value::from("main"));
    press(&visitor, "Tab", 9).await;
    let inside = "return document.querySelector('main').contains(document.activeElement)";
    assert_eq!(visitor.browser.run(inside).await, true);
}

/// The browser would take Enter for a click on the form's first button, even for one that is not to be seen before somebody asked for it.
#[tokio::test(flavor = "multi_thread")]
async fn enter_in_a_reason_decides_nothing() {
    let stage = Stage::open().await;
    let failed = stage.failed_order("4711").await;
    let client = Client::new(stage.store.clone());
    let invoice = client.queue("invoices").delay(Duration::from_hours(1));
    let waiting = invoice.send_and_commit(&json!({})).await.expect("sent");
    let visitor = Visitor::new(&stage, Look::default()).await;
    let forms = [
        ("/failed", "#failed form", "input[name=reason]"),
        ("/queue?name=invoices&state=waiting", "#messages form", "input[name=reason]"),
        ("/processes", "form.filter:has(button)", "input[name=request_id]"),
    ];
    for (path, form, field) in forms {
        visitor.go(path).await;
        visitor.browser.run(TELL).await;
        visitor.browser.type_into(&format!("main {form} {field}"), "because").await;
        press(&visitor, "Enter", 13).await;
        assert_ne!(visitor.browser.run("return document.title").await, "submitted", "{path}");
        let click =
            format!("document.querySelector('main {form} button:not([disabled])').click(); return document.title");
        assert_eq!(visitor.browser.run(&click).await, "submitted", "{path}: the test would see it");
    }
    stage.reaches(&failed, MessageState::Failed).await;
    stage.reaches(&waiting, MessageState::Waiting).await;
}
