//! What the next page says once: a form was posted, and the page after it tells what became of it. It travels in a cookie, so that no link can
//! put words into this console's mouth.

use axum::http::{HeaderMap, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::Console;

const COOKIE: &str = "ichido_said";

/// Longer texts are cut: a cookie has 4 kB.
const LONGEST: usize = 600;

/// What became of something, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flash {
    /// `ok`, `warn` or `bad`.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl Flash {
    /// It went as it should.
    pub(super) fn ok(text: impl Into<String>) -> Self {
        Flash { kind: "ok", text: text.into() }
    }

    /// Not all of it did.
    pub(super) fn warn(text: impl Into<String>) -> Self {
        Flash { kind: "warn", text: text.into() }
    }

    /// It did not.
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Flash { kind: "bad", text: text.into() }
    }
}

/// What the last page had to say.
pub(super) fn read(headers: &HeaderMap) -> Option<Flash> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut cookies = cookies.flat_map(|cookies| cookies.split(';'));
    let said = cookies.find_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='))?;
    let (kind, text) = said.split_once('.')?;
    let kind = ["ok", "warn", "bad"].into_iter().find(|known| *known == kind)?;
    let text = percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(Flash { kind, text })
}

/// Says it on the next page.
pub(super) fn set(console: &Console, flash: &Flash, headers: &mut HeaderMap) {
    let text: String = flash.text.chars().take(LONGEST).collect();
    let value = format!("{}.{}", flash.kind, utf8_percent_encode(&text, NON_ALPHANUMERIC));
    cookie(console, &value, 60, headers);
}

/// It was said.
pub(super) fn clear(console: &Console, headers: &mut HeaderMap) {
    cookie(console, "", 0, headers);
}

fn cookie(console: &Console, value: &str, seconds: u32, headers: &mut HeaderMap) {
    let secure = if console.0.access.secure { "; Secure" } else { "" };
    let path = if console.base().is_empty() { "/" } else { console.base() };
    let text = format!("{COOKIE}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(text) = HeaderValue::from_str(&text) {
        headers.append(header::SET_COOKIE, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(cookies: &'static str) -> Option<Flash> {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static(cookies));
        read(&headers)
    }

    #[test]
    fn what_was_said_is_read_back_whatever_it_is() {
        assert_eq!(said("a=1; ichido_said=ok.3%20messages%20%3Cb%3E"), Some(Flash::ok("3 messages <b>")));
        assert_eq!(said("ichido_said=evil.text"), None);
        assert_eq!(said("other=ok.x"), None);
    }
}
