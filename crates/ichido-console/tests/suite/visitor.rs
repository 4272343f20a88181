//! Somebody with a browser who looks at the console of a [`Stage`].

use ichido_test_servers::{Browser, Chromium, Look};
use ichido_testkit::eventually;

use crate::stage::Stage;

/// A browser on a stage.
pub(crate) struct Visitor<'a> {
    pub(crate) browser: Browser,
    stage: &'a Stage,
}

impl<'a> Visitor<'a> {
    pub(crate) async fn new(stage: &'a Stage, look: Look) -> Self {
        Visitor { browser: Browser::open(Chromium::shared(), look).await, stage }
    }

    pub(crate) async fn signed_in(stage: &'a Stage, look: Look, secret: &str) -> Self {
        let visitor = Self::new(stage, look).await;
        visitor.go("/").await;
        visitor.sees("h1", "Sign in").await;
        visitor.browser.type_into("input[name=token]", secret).await;
        visitor.click("button.main").await;
        visitor.sees("h1", "Overview").await;
        visitor
    }

    pub(crate) async fn go(&self, path: &str) {
        self.browser.go(&format!("{}{path}", self.stage.url)).await;
    }

    pub(crate) async fn message(&self, id: &ichido::MessageId) {
        self.go(&format!("/message?id={}", id.to_string().replace('/', "%2F"))).await;
    }

    /// Waits until what the selector finds has this text in it.
    pub(crate) async fn sees(&self, selector: &str, text: &str) {
        eventually(&format!("{text:?} in {selector}"), async || {
            let seen = self.browser.text(selector).await.unwrap_or_default();
            if seen.contains(text) { Ok(()) } else { Err(seen) }
        })
        .await;
    }

    pub(crate) async fn click(&self, selector: &str) {
        eventually(&format!("{selector} can be clicked"), async || self.browser.click(selector).await).await;
    }

    /// Clicks a button that asks first, and then what it asks for.
    pub(crate) async fn confirm(&self, button: &str) {
        self.click(&format!("details.ask:has({button}) > summary")).await;
        self.click(button).await;
    }
}
