//! Pages that refresh themselves: what they show is the present, or they say that it is not.

use ichido::{Client, Due, Messages as _, Operate as _};
use ichido_test_servers::Look;
use ichido_testkit::eventually;
use serde_json::json;

use crate::{stage::Stage, visitor::Visitor};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_refreshes_itself_until_it_is_hidden() {
    let stage = Stage::open().await;
    let visitor = Visitor::new(&stage, Look::default()).await;
    visitor.go("/").await;
    visitor.sees("#problems", "Nothing has failed").await;
    visitor.browser.run("window.stays = true").await;
    stage.failed_order("4711").await;
    visitor.sees("#problems", "1 message in orders has failed").await;
    visitor.sees("nav .count", "1").await;
    assert_eq!(visitor.browser.run("return window.stays").await, true, "the page was not loaded again");
    let doctor = "return (async () => { const asked = { headers: { Accept: 'text/event-stream' } }; \
                  return (await fetch('/doctor', asked)).headers.get('content-type'); })()";
    assert_eq!(visitor.browser.run(doctor).await, "text/html; charset=utf-8", "the doctor looks once");
    let hide = "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true }); \
                document.dispatchEvent(new Event('visibilitychange')); \
                return document.documentElement.classList.contains('is-live')";
    assert_eq!(visitor.browser.run(&hide.replace("arguments[0]", "true")).await, false);
    visitor.browser.run(&hide.replace("arguments[0]", "false")).await;
    eventually("it is live again", async || {
        visitor.browser.run("return document.documentElement.classList.contains('is-live')").await == true
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_come_and_go_without_a_reload() {
    let stage = Stage::open().await;
    let (failed, message) = tokio::join!(Visitor::new(&stage, Look::default()), Visitor::new(&stage, Look::default()),);
    failed.go("/failed").await;
    failed.sees("#failed", "Nothing has failed").await;
    let id = stage.failed_order("4711").await;
    failed.sees("#groups", "customer … has no address").await;

    message.message(&id).await;
    message.sees("#life", "Failed for good").await;
    message.browser.run("window.stays = true").await;
    stage.addresses.lock().expect("nobody panics with it").insert("4711".to_owned());
    assert!(stage.store.retry(&id).await.expect("a retry"));
    message.sees("main", "It is done and gone").await;
    assert_eq!(message.browser.run("return window.stays").await, true, "the page was not loaded again");
    failed.sees("#failed", "Nothing has failed").await;
    assert!(!failed.browser.has("#groups").await, "no group is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_that_is_being_typed_is_not_lost() {
    let stage = Stage::open().await;
    let client = Client::new(stage.store.clone());
    let id = client.queue("invoices").send_and_commit(&json!({})).await.expect("sent");
    let visitor = Visitor::new(&stage, Look::default()).await;
    visitor.message(&id).await;
    visitor.browser.type_into("#act input[name=reason]", "because").await;
    let later = Due::After(std::time::Duration::from_hours(1));
    assert!(stage.store.reschedule(&id, later).await.expect("it waits").is_yes());
    visitor.sees("#life", "Waiting").await;
    let typed = visitor.browser.run("return document.querySelector('#act input[name=reason]').value").await;
    assert_eq!(typed, "because");
}

/// In place of the browser's own: a test says what the console sends.
const FAKE: &str = "window.EventSource = class extends EventTarget { static CLOSED = 2; readyState = 1; \
    constructor() { super(); window.source = this; } close() {} }";

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_not_refreshed_says_why() {
    let stage = Stage::open().await;
    let visitor = Visitor::new(&stage, Look::default()).await;
    visitor.browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": FAKE })).await;
    visitor.go("/").await;
    let send = async |event: &str, data: &str| {
        let script = format!("source.dispatchEvent(Object.assign(new Event('{event}'), {{ data: {data:?} }}))");
        visitor.browser.run(&script).await;
    };
    let is_live = "return document.documentElement.classList.contains('is-live')";
    send("open", "").await;
    assert_eq!(visitor.browser.run(is_live).await, true);
    send("away", "cannot connect to the database").await;
    visitor.sees("#stale", "Not refreshed: cannot connect to the database").await;
    assert_eq!(visitor.browser.run(is_live).await, false);
    send("page", "<main id=main></main>").await;
    assert_eq!(visitor.browser.text("#stale").await.as_deref(), Some(""), "it is back");
    send("error", "").await;
    visitor.sees("#stale", "Not refreshed: the console does not answer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_can_be_frozen() {
    let stage = Stage::open().await;
    let visitor = Visitor::new(&stage, Look::default()).await;
    visitor.go("/").await;
    visitor.sees("#problems", "Nothing has failed").await;
    visitor.click("#freeze").await;
    visitor.sees("#freeze", "Unfreeze").await;
    // Another page, which is not frozen, is refreshed twice meanwhile.
    let beside = Visitor::new(&stage, Look::default()).await;
    beside.go("/").await;
    beside.sees("#problems", "Nothing has failed").await;
    stage.failed_order("4711").await;
    beside.sees("#problems", "1 message in orders has failed").await;
    stage.failed_order("4712").await;
    beside.sees("#problems", "2 messages in orders have failed").await;
    visitor.sees("#problems", "Nothing has failed").await;
    visitor.click("#freeze").await;
    visitor.sees("#problems", "2 messages in orders have failed").await;
}
