//! Every page in light, in dark and on a phone: nothing sticks out, nothing is broken. With `ICHIDO_SCREENSHOTS=docs/screenshots` the pictures are
//! kept there.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ichido::{
    Client, MessageId, Operate as _,
    process::Flag,
    store::{Audit, By},
};
use ichido_test_servers::{Browser, Chromium, Look};
use serde_json::json;

use crate::stage::Stage;

const LOOKS: [(&str, Look); 3] = [
    ("light", Look { width: 1280, height: 900, dark: false, scripts: true }),
    ("dark", Look { width: 1280, height: 900, dark: true, scripts: true }),
    ("phone", Look { width: 390, height: 844, dark: false, scripts: true }),
];

/// No picture is higher.
const HIGHEST: u32 = 1100;

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_in_light_dark_and_on_a_phone() {
    let stage = Stage::open().await;
    stage.history().await;
    let failed = stage.failed_order("4711").await;
    for number in 0..11 {
        stage.failed_order(&format!("{}", 5000 + number)).await;
    }
    by_hand(&stage).await;
    let message = format!("/message?id={}", failed.to_string().replace('/', "%2F"));
    let pages = [
        ("overview", "/"),
        ("queues", "/queues"),
        ("queue", "/queue?name=invoices"),
        ("cancel", "/queue/cancel?name=invoices&state=ready"),
        ("send", "/send?to=invoices"),
        ("message", &message),
        ("failed", "/failed"),
        ("failed-all", "/failed/all?verb=retry"),
        ("processes", "/processes"),
        ("lanes", "/lanes"),
        ("doctor", "/doctor"),
        ("handlers", "/handlers"),
        ("settings", "/settings"),
        ("audit", "/audit"),
        ("login", "/login"),
    ];
    show(&stage, &pages).await;
}

/// No word of a short cell is torn, and an error is read as far as its cause.
#[tokio::test(flavor = "multi_thread")]
async fn short_words_are_whole_and_errors_have_three_lines() {
    let stage = Stage::open().await;
    stage.orphan().await;
    stage.failed_order("who has a very long name").await;
    let [(_, light), _, (_, phone)] = LOOKS;
    let browser = Browser::open(Chromium::shared(), light).await;
    browser.go(&format!("{}/doctor", stage.url)).await;
    let torn = "const lines = (cell) => { const range = document.createRange(); range.selectNodeContents(cell); \
                return new Set([...range.getClientRects()].map((box) => box.top)).size; }; \
                const cells = [...document.querySelectorAll('td')].filter((cell) => /^[a-z]+$/.test(cell.textContent)); \
                return [cells.some((cell) => cell.textContent === 'unknown'), cells.filter((cell) => lines(cell) > 1).length]";
    assert_eq!(browser.run(torn).await, json!([true, 0]), "a word stands in one line");
    let browser = Browser::open(Chromium::shared(), phone).await;
    browser.go(&format!("{}/failed", stage.url)).await;
    let clip = "const clip = document.querySelector('td.error .clip'); \
                return [getComputedStyle(clip).webkitLineClamp, clip.offsetWidth > 0.8 * clip.closest('tr').clientWidth]";
    assert_eq!(browser.run(clip).await, json!(["3", true]), "three lines as wide as the row");
}

/// What an operator has done before: the audit has something to show.
async fn by_hand(stage: &Stage) {
    let otto = |reason: &str| Audit::by(&stage.store, By::user("otto").because(Some(reason.to_owned())));
    otto("the warehouse counts its stock").set_flag("Ship", Flag::Pause, true).await.expect("a flag");
    otto("counted").set_flag("Ship", Flag::Pause, false).await.expect("a flag");
    let wrong = stage.failed_order("6000").await;
    assert!(otto("ordered twice").discard(&wrong).await.expect("discarded"));
}

/// Words that nobody can break, texts that nobody reads to the end, lists that go on and on.
#[tokio::test(flavor = "multi_thread")]
async fn long_texts_fit_too() {
    let stage = Stage::open().await;
    let (long, word) = ("x".repeat(10_000), "0123456789abcdef".repeat(15));
    let failed = stage.failed_order(&long).await;
    let client = Client::new(stage.store.clone());
    let invoice = client.queue("invoices").group(&word).send_and_commit(&json!({ &word: long })).await.expect("sent");
    let by = By::user(&word).because(Some(format!("{word} {}", "because of this and that ".repeat(15))));
    Audit::by(&stage.store, by).set_flag(&word, Flag::Pause, true).await.expect("a flag");
    let message = |id: &MessageId| format!("/message?id={}", id.to_string().replace('/', "%2F"));
    let (error, payload) = (message(&failed), message(&invoice));
    let pages = [
        ("long-overview", "/"),
        ("long-failed", "/failed"),
        ("long-failed-all", "/failed/all?verb=discard"),
        ("long-error", &error),
        ("long-payload", &payload),
        ("long-key", &format!("/message?id=orders%2F{word}")),
        ("long-group", "/queue?name=invoices"),
        ("long-processes", "/processes"),
        ("long-audit", "/audit"),
        ("long-problem", &format!("/queue?name={word}")),
    ];
    show(&stage, &pages).await;
}

/// How much wider than the screen a page is, or one of its tables; on a phone a table with many numbers may be moved sideways.
const STICKS_OUT: &str = "const tables = innerWidth > 1000 ? [...document.querySelectorAll('.scroll')] : []; \
    return Math.max(document.documentElement.scrollWidth - innerWidth, ...tables.map((part) => part.scrollWidth - part.clientWidth))";

/// Looks at pages in every way, and tells all of which something sticks out.
async fn show(stage: &Stage, pages: &[(&str, &str)]) {
    let mut wide = Vec::new();
    for (name, look) in LOOKS {
        let browser = Browser::open(Chromium::shared(), look).await;
        for (page, path) in pages {
            browser.go(&format!("{}{path}", stage.url)).await;
            let more = browser.run(STICKS_OUT).await;
            keep(page, name, &browser.picture(look.width, HIGHEST, if look.width > 1000 { 0.8 } else { 1.0 }).await);
            if more != 0 {
                wide.push(format!("{page} in {name} by {more}"));
            }
        }
    }
    assert!(wide.is_empty(), "wider than a screen: {wide:?}");
}

/// Pictures of long texts are for whoever changes the pages, and not kept with the others.
fn keep(page: &str, look: &str, picture: &str) {
    let picture = STANDARD.decode(picture).expect("a picture");
    assert!(picture.starts_with(b"\x89PNG"), "{page} in {look} is no picture");
    if let Some(folder) = std::env::var_os("ICHIDO_SCREENSHOTS") {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = if page.starts_with("long-") { root.join("target/screenshots") } else { root.join(folder) };
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{page}-{look}.png")), picture).expect("a file");
    }
}
