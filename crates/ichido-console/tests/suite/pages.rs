//! What people do with the pages, in a real browser: read, mend, retry, stop and resume, simulate; with a script and without one; and what they may
//! not do.

use std::time::Duration;

use ichido::{
    Client, Messages as _, Operate as _,
    inspect::{Listed, MessageFilter, MessageState},
    process::Flag,
};
use ichido_test_servers::Look;
use ichido_testkit::eventually;
use serde_json::json;

use crate::{
    stage::{ADMIN, OPERATOR, READER, Stage},
    visitor::Visitor,
};

const WITHOUT_SCRIPTS: Look = Look { width: 1280, height: 1600, dark: false, scripts: false };

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_read_mended_and_retried() {
    let stage = Stage::guarded().await;
    let id = stage.failed_order("4711").await;
    let operator = Visitor::signed_in(&stage, Look::default(), OPERATOR).await;
    operator.sees("#problems", "1 message in orders has failed and waits for you.").await;
    operator.click("#problems a.button").await;
    operator.sees("#groups", "customer … has no address").await;
    operator.click("#failed tbody a").await;
    operator.sees("#life", "customer 4711 has no address: cannot ship the order").await;
    operator.sees("#payload", r#""card": "***""#).await;

    stage.addresses.lock().expect("nobody panics with it").insert("4711".to_owned());
    operator.browser.type_into("input[name=reason]", "the address is entered").await;
    operator.click("#retry").await;
    operator.sees(".flash", &format!("{id} retried.")).await;
    stage.is_done(&id).await;
    operator.go("/failed").await;
    operator.sees("#failed", "Nothing has failed").await;
    operator.go("/audit").await;
    operator.sees("tbody", "the address is entered").await;
    operator.sees("tbody", "otto@").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_paused_resumed_stopped_and_unstopped() {
    let stage = Stage::guarded().await;
    let operator = Visitor::signed_in(&stage, Look::default(), OPERATOR).await;
    operator.go("/processes").await;
    operator.sees("#requests", "running").await;
    operator.sees("#processes", "alive").await;
    for (verb, told, state) in [
        ("pause", "Ship is paused", "paused"),
        ("resume", "Ship is resumed", "running"),
        ("stop", "Ship is stopped", "stopped"),
    ] {
        if verb == "stop" {
            // It asks first: nobody can start them from here.
            operator.click("#requests details.ask summary").await;
        }
        operator.click(&format!("form[action$='/processes/{verb}'] button")).await;
        operator.sees(".flash", told).await;
        operator.sees("#requests .badge", state).await;
    }
    // It ends, and what is gone needs no process to be allowed again.
    operator.sees("#processes", "No process is known").await;
    operator.click("form[action$='/processes/unstop'] button").await;
    operator.sees(".flash", "Ship is allowed to start again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slider_changes_the_forecast() {
    let stage = Stage::open().await;
    let visitor = Visitor::new(&stage, Look::default()).await;
    visitor.go("/lanes").await;
    visitor.sees("#forecast h3", "weighted, 4 slots").await;
    let before = visitor.browser.text("#forecast tbody").await;
    // Home, then two steps to the right.
    visitor.browser.type_into("input[name=slots]", "\u{e011}\u{e014}\u{e014}").await;
    visitor.sees("#forecast h3", "weighted, 3 slots").await;
    assert_ne!(visitor.browser.text("#forecast tbody").await, before);
    visitor.sees("#simulate", "3").await;
    assert!(visitor.browser.url().await.contains("slots=3"), "it can be shared by its address");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_everything_and_changes_nothing() {
    let stage = Stage::guarded().await;
    let id = stage.failed_order("4711").await;
    let reader = Visitor::signed_in(&stage, Look::default(), READER).await;
    reader.message(&id).await;
    reader.sees("#act", "Changing messages needs “operate”").await;
    reader.go("/failed").await;
    reader.sees("#failed", &id.to_string()).await;
    for path in ["/failed", "/processes", "/doctor"] {
        reader.go(path).await;
        let forms =
            reader.browser.run("return document.querySelectorAll('main form button:not([disabled])').length").await;
        let expected = i32::from(path == "/failed");
        assert_eq!(forms, expected, "{path} has no button but the filter's");
    }
    let post = "return (async () => { const f = new URLSearchParams({ id: 'orders/1', csrf: 'x' }); \
                return (await fetch('/messages/retry', { method: 'POST', body: f })).status; })()";
    assert_eq!(reader.browser.run(post).await, 403);
    reader.go("/settings").await;
    reader.sees("main", "needs the role").await;
    stage.reaches(&id, MessageState::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_script_every_action_can_be_done() {
    let stage = Stage::guarded().await;
    let (retried, discarded) = (stage.failed_order("1").await, stage.failed_order("2").await);
    let admin = Visitor::signed_in(&stage, WITHOUT_SCRIPTS, ADMIN).await;
    stage.addresses.lock().expect("nobody panics with it").insert("1".to_owned());
    admin.message(&retried).await;
    admin.click("#retry").await;
    admin.sees(".flash", "retried").await;
    stage.is_done(&retried).await;

    admin.message(&discarded).await;
    admin.click("#act details:last-of-type summary").await;
    admin.click("#discard").await;
    admin.sees(".flash", "discarded").await;
    stage.is_done(&discarded).await;

    let client = Client::new(stage.store.clone());
    let later =
        client.queue("invoices").delay(Duration::from_hours(1)).send_and_commit(&json!({})).await.expect("sent");
    admin.message(&later).await;
    admin.click("#run-now").await;
    admin.sees(".flash", "is ready now").await;
    admin.browser.type_into("input[name=due]", "2h").await;
    admin.click("#reschedule").await;
    admin.sees(".flash", "rescheduled").await;
    admin.click("#act details:last-of-type summary").await;
    admin.click("#cancel").await;
    admin.sees(".flash", "cancelled").await;

    admin.go("/processes").await;
    admin.click("form[action$='/processes/pause'] button").await;
    admin.sees(".flash", "Ship is paused").await;
    admin.click("form[action$='/processes/resume'] button").await;
    admin.sees(".flash", "Ship is resumed").await;
    admin.go("/lanes?set=mail&slots=2").await;
    admin.click("#simulate button").await;
    admin.sees("#forecast h3", "weighted, 2 slots").await;
    admin.click("form[action$='/logout'] button").await;
    admin.sees("h1", "Sign in").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_script_messages_are_sent_chosen_and_cancelled_together() {
    let stage = Stage::guarded().await;
    let operator = Visitor::signed_in(&stage, WITHOUT_SCRIPTS, OPERATOR).await;
    operator.go("/queue?name=invoices").await;
    operator.click("a[href*='/send?to=invoices']").await;
    operator.browser.type_into("textarea[name=payload]", "{\"number\": 7").await;
    operator.browser.type_into("input[name=due]", "2h").await;
    operator.click("#send").await;
    operator.sees(".flash.bad", "Nothing was sent: the payload is not JSON").await;
    operator.browser.type_into("textarea[name=payload]", "}").await;
    operator.click("#send").await;
    operator.sees(".flash.ok", "Sent: invoices/").await;
    operator.sees("#payload", "\"number\": 7").await;
    operator.sees("#life", "waiting").await;

    let client = Client::new(stage.store.clone());
    for number in 0..5 {
        let invoice = client.queue("invoices").delay(Duration::from_hours(1));
        invoice.send_and_commit(&json!({ "number": number })).await.expect("sent");
    }
    let waiting = "/queue?name=invoices&state=waiting";
    operator.go(waiting).await;
    operator.click("tbody tr:nth-child(2) input[name=id]").await;
    operator.click("button[formaction$='/messages/run-now']").await;
    operator.sees(".flash", "is ready now").await;
    operator.click("tbody tr:nth-child(1) input[name=id]").await;
    operator.browser.type_into("#messages input[name=reason]", "entered twice").await;
    operator.confirm("button[formaction$='/messages/cancel']").await;
    operator.sees(".flash", "cancelled").await;
    operator.click("a[href*='/queue/cancel?']").await;
    operator.sees("h2", "4 waiting now").await;
    operator.click("#confirm").await;
    operator.sees(".flash", "cancelled").await;
    operator.sees("#messages", "No message is waiting").await;
    let left = stage.store.messages(&MessageFilter::new("invoices", Listed::Ready, 10)).await.expect("a list").messages;
    assert_eq!(left.len(), 1, "{left:?}");

    operator.go("/processes").await;
    operator.browser.type_into("input[name=request_id]:not([type=hidden])", "Later").await;
    operator.confirm("button[formaction$='/processes/stop']").await;
    operator.sees(".flash", "Later is stopped").await;
    operator.go("/audit").await;
    operator.sees("tbody", "entered twice").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_sends_one_message() {
    let stage = Stage::open().await;
    let visitor = Visitor::new(&stage, Look::default()).await;
    visitor.go("/send?to=invoices").await;
    // A double click, or a reload of the answer: the same form again.
    let twice = "return (async () => { const form = document.querySelector('form.sheet'); form.payload.value = '{}'; \
                 const send = () => fetch(form.action, { method: 'POST', body: new URLSearchParams(new FormData(form)) }); \
                 const told = await Promise.all([send(), send()]); \
                 return [...new Set(told.map((one) => one.url))].length; })()";
    assert_eq!(visitor.browser.run(twice).await, 1, "both lead to the same message");
    let sent = stage.store.messages(&MessageFilter::new("invoices", Listed::Ready, 10)).await.expect("a list").messages;
    assert_eq!(sent.len(), 1, "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_retried_only_after_their_number_was_shown() {
    let stage = Stage::open().await;
    for customer in ["1", "2", "3"] {
        stage.failed_order(customer).await;
        stage.addresses.lock().expect("nobody panics with it").insert(customer.to_owned());
    }
    let visitor = Visitor::new(&stage, WITHOUT_SCRIPTS).await;
    visitor.go("/failed?queue=orders").await;
    visitor.click("a[href*='/failed/all?verb=retry']").await;
    visitor.sees("h1", "Retry 3 messages?").await;
    visitor.browser.type_into("input[name=limit]", "2").await;
    visitor.browser.type_into("input[name=rate]", "100").await;
    visitor.click("#confirm").await;
    visitor.sees(".flash", "2 messages retried. There may be more.").await;
    assert!(visitor.browser.url().await.ends_with("/failed?queue=orders"), "the filter holds for the rest");
    visitor.go("/failed/all?verb=retry&queue=orders").await;
    visitor.click("#confirm").await;
    visitor.sees(".flash", "/3 retried.").await;
    eventually("all are done", async || {
        let failed = MessageFilter::new("orders", Listed::Failed, 10);
        stage.store.messages(&failed).await.expect("a list").messages.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_as_text() {
    const EVIL: &str = r#""><svg onload=document.title='evil'><script>document.title='evil'</script>'{{7*7}}"#;
    let stage = Stage::open().await;
    let id = stage.failed_order(EVIL).await;
    let client = Client::new(stage.store.clone());
    let grouped = client.queue("invoices").group(EVIL).send_and_commit(&json!({ EVIL: EVIL })).await.expect("sent");
    let invoice = client.queue("invoices").header("x-evil", EVIL).unique(EVIL);
    let with_header = invoice.send_and_commit(&json!({})).await.expect("sent");
    stage.hostile_rows(EVIL).await;
    stage.store.set_flag(EVIL, Flag::Pause, true).await.expect("a flag");
    let by = ichido::store::By::user(EVIL).because(Some(EVIL.to_owned()));
    ichido::store::Audit::by(&stage.store, by).set_flag(EVIL, Flag::Stop, true).await.expect("a flag");
    let visitor = Visitor::new(&stage, Look::default()).await;
    let escaped: String = EVIL.bytes().flat_map(|byte| format!("%{byte:02X}").into_bytes()).map(char::from).collect();
    let message = |id: &ichido::MessageId| format!("/message?id={}", id.to_string().replace('/', "%2F"));
    let shown = ["/".to_owned(), "/processes".into(), "/failed".into(), "/audit".into(), "/queue?name=invoices".into()];
    let asked = [
        "/failed?error=",
        "/failed?queue=",
        "/failed/all?verb=retry&error=",
        "/audit?queue=",
        "/queue?name=",
        "/message?id=",
        "/send?payload=",
        "/send?group=",
        "/queue/cancel?state=ready&name=",
        "/login?to=/",
    ]
    .map(|path| format!("{path}{escaped}"));
    let key = message(&ichido::MessageId { queue: "orders".into(), key: ichido::Key::new([EVIL]) });
    let pages = shown.into_iter().chain([message(&id), message(&grouped), message(&with_header), key]).chain(asked);
    for path in pages {
        visitor.go(&path).await;
        let evil = "return document.title === 'evil' || document.querySelector('svg[onload], main script') !== null";
        assert_eq!(visitor.browser.run(evil).await, false, "{path}");
        let text = "return document.body.textContent.includes('onload') || document.body.innerHTML.includes('onload') ";
        assert_eq!(visitor.browser.run(text).await, true, "{path} shows it as text");
    }
}
