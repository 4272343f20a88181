//! A headless Chromium, driven over `WebDriver`: just as much of the protocol as tests of pages need. Each one has a profile of its own, and ends
//! when it is dropped.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Chromium;

/// What a browser is like.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Does it prefer dark pages?
    pub dark: bool,
    /// Does it run scripts?
    pub scripts: bool,
}

impl Default for Look {
    fn default() -> Self {
        Look { width: 1280, height: 900, dark: false, scripts: true }
    }
}

/// Flags for a browser that runs as root, on a machine without a screen, and talks to nobody but the pages of a test.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
];

/// A browser with one tab.
#[derive(Debug)]
pub struct Browser {
    driver: SocketAddr,
    session: String,
}

impl Browser {
    /// Opens one.
    pub async fn open(chromium: &Chromium, look: Look) -> Self {
        // In the driver's folder: as root, both run as a user without rights.
        let profile = chromium.folder().join(uuid::Uuid::now_v7().to_string());
        let mut args: Vec<String> = FLAGS.map(str::to_owned).into();
        args.push(format!("--user-data-dir={}", profile.display()));
        args.push(format!("--window-size={},{}", look.width, look.height));
        let scripts = if look.scripts { 1 } else { 2 };
        let options = json!({
            "args": args,
            "prefs": { "profile.managed_default_content_settings.javascript": scripts },
        });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "browserName": "chrome", "goog:chromeOptions": options } } });
        let mut browser = Browser { driver: chromium.address(), session: String::new() };
        let opened = browser.ask("POST", "/session", &wanted).await;
        opened["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        let metrics = json!({ "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false });
        browser.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
        let scheme = if look.dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        browser
    }

    /// Goes to an address, and waits until it is loaded.
    pub async fn go(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url })).await;
    }

    /// Where it is.
    pub async fn url(&self) -> String {
        text(&self.command("GET", "/url", &Value::Null).await)
    }

    /// The document as it is now.
    pub async fn source(&self) -> String {
        text(&self.command("GET", "/source", &Value::Null).await)
    }

    /// The visible text of what this selector finds first; none if it finds nothing.
    pub async fn text(&self, selector: &str) -> Option<String> {
        let element = self.find(selector).await?;
        // It may have been replaced since.
        let found = self.try_command("GET", &format!("/element/{element}/text"), &Value::Null).await.ok()?;
        Some(text(&found))
    }

    /// Is there something that this selector finds?
    pub async fn has(&self, selector: &str) -> bool {
        self.find(selector).await.is_some()
    }

    /// Clicks what this selector finds first; false if it is not there, or not to be clicked now.
    pub async fn click(&self, selector: &str) -> bool {
        let Some(element) = self.find(selector).await else { return false };
        self.try_command("POST", &format!("/element/{element}/click"), &json!({})).await.is_ok()
    }

    /// Types into what this selector finds first.
    pub async fn type_into(&self, selector: &str, keys: &str) {
        let element = self.find(selector).await.unwrap_or_else(|| panic!("{selector} is not there"));
        self.command("POST", &format!("/element/{element}/value"), &json!({ "text": keys })).await;
    }

    /// Runs a function's body in the page; its result.
    pub async fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// A command of the browser's own protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.command("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).await
    }

    /// The page as a PNG in base64: from its top down to its end, but no more than so many pixels; drawn smaller or larger.
    pub async fn picture(&self, width: u32, most: u32, scale: f64) -> String {
        let metrics = self.devtools("Page.getLayoutMetrics", json!({})).await;
        let height = metrics["cssContentSize"]["height"].as_f64().unwrap_or(f64::from(most)).min(f64::from(most));
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": scale });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "optimizeForSpeed": false, "clip": clip });
        text(&self.devtools("Page.captureScreenshot", asked).await["data"])
    }

    async fn find(&self, selector: &str) -> Option<String> {
        let asked = json!({ "using": "css selector", "value": selector });
        let found = self.try_command("POST", "/element", &asked).await.ok()?;
        found.as_object()?.values().next()?.as_str().map(str::to_owned)
    }

    async fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_command(method, path, body).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    async fn try_command(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let answer = self.ask(method, &format!("/session/{}{path}", self.session), body).await;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("{error}: {}", answer["message"].as_str().unwrap_or_default())),
            None => Ok(answer),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let exchange = async {
            let mut stream = tokio::net::TcpStream::connect(self.driver).await?;
            stream.write_all(request(method, path, body).as_bytes()).await?;
            let mut answer = Vec::new();
            while !is_whole(&answer) && stream.read_buf(&mut answer).await? > 0 {}
            std::io::Result::Ok(answer)
        };
        let answer = tokio::time::timeout(Duration::from_mins(3), exchange).await;
        let answer = answer.expect("the driver answers in time").expect("the driver answers");
        let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map(|end| &answer[end + 4..]);
        let parsed: Value = serde_json::from_slice(body.unwrap_or_default()).expect("JSON from the driver");
        parsed["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let request = request("DELETE", &format!("/session/{}", self.session), &Value::Null);
        if let Ok(mut stream) = TcpStream::connect(self.driver) {
            let _ = stream.write_all(request.as_bytes());
            let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

fn request(method: &str, path: &str, body: &Value) -> String {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Is all of an answer there? The driver keeps the connection open after it.
pub(super) fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|end| end == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    answer.len() >= end + 4 + length.unwrap_or(0_usize)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
