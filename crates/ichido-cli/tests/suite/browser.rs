//! `ichido serve` in a real browser: the doctor mends what a broker has lost, and the served demo has something to see on its pages.

use ichido_test_servers::{Browser, Chromium, Look};
use ichido_testkit::eventually;

use crate::{
    rabbitmq::world::{QUEUE, World},
    testenv::{Env, Kind, Process},
};

/// The address that it has printed.
async fn address(served: &Process) -> String {
    eventually("the console's address", async || {
        let log = served.log();
        let found = log.split("the console is at ").nth(1).and_then(|rest| rest.split_whitespace().next());
        found.map(|url| url.trim_end_matches('/').to_owned()).ok_or(log)
    })
    .await
}

async fn sees(browser: &Browser, selector: &str, text: &str) {
    eventually(format!("{text:?} in {selector}"), async || {
        let seen = browser.text(selector).await.unwrap_or_default();
        if seen.contains(text) { Ok(()) } else { Err(seen) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_publishes_what_the_broker_has_lost() {
    let world = World::new(Kind::Sqlite).await;
    world.configure(|config| config.replace("relay_after = \"1s\"", "relay_after = \"1ms\""));
    world.send([1]).await;
    world.settles_at(QUEUE, 1).await;
    world.purge(QUEUE);
    world.settles_at(QUEUE, 0).await;
    let served = world.env.start("serve", &["serve", "--listen", "127.0.0.1:0"]);
    let url = address(&served).await;
    let browser = Browser::open(Chromium::shared(), Look::default()).await;
    // What is young may be on its way.
    eventually("the message is found", async || {
        browser.go(&format!("{url}/doctor")).await;
        browser.has("#fix").await
    })
    .await;
    sees(&browser, "main", "published, but lost by the broker").await;
    browser.type_into("input[name=reason]", "the queue was purged").await;
    assert!(browser.click("#fix").await);
    sees(&browser, ".flash", "Mended: 1 message.").await;
    world.settles_at(QUEUE, 1).await;
    browser.go(&format!("{url}/audit")).await;
    sees(&browser, "tbody", "the queue was purged").await;
    let [mut process] = world.start(["process"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.assert_exact(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_served_demo_has_something_on_each_page() {
    let env = Env::bare(Kind::Sqlite).await;
    let mut demo = env.start("demo", &["demo", "--serve", "--listen", "127.0.0.1:0"]);
    let url = address(&demo).await;
    let browser = Browser::open(Chromium::shared(), Look::default()).await;
    browser.go(&url).await;
    sees(&browser, "#problems", "in orders").await;
    for (path, selector, text) in [
        ("/failed", "#groups", "NOT NULL constraint failed: project.name"),
        ("/processes", "#processes", "alive"),
        ("/lanes", "main", "vip"),
        ("/lanes", "#forecast", "slots busy"),
        ("/doctor", "main", "c0ffee00-0000-4000-8000-000000000000"),
        ("/handlers", ".chain", "transaction"),
        ("/settings", "main", "sqlite://demo.db"),
        ("/queue?name=mail_free", "#figures", "Ready"),
    ] {
        browser.go(&format!("{url}{path}")).await;
        sees(&browser, selector, text).await;
    }
    demo.signal("-INT").await;
    assert_eq!(demo.exit_code().await, 0, "{}", demo.log());
}
