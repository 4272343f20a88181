//! Logging in: a token is exchanged for the signed cookie. It is the one form without a field `csrf`: nobody is known yet. That another site does not
//! send it, `headers::guard` has seen.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    CheckedForm, Public, peer,
    session::{Access, COOKIE, LASTS},
};
use crate::{Console, api::read, fields::Fields, pages};

/// A token and the address of a page fit into it. Nobody is known yet, so nobody gets more.
const MOST_BYTES: usize = 4 << 10;

/// `POST /login`: the fields `token`, and `to`, the page that was asked for.
pub(crate) async fn log_in(_: Public, State(console): State<Console>, request: Request) -> Response {
    let peer = peer(request.extensions());
    let fields = match read(request, MOST_BYTES).await {
        Ok(body) => Fields::parse(&body),
        Err(problem) => return pages::login_again(&console, &problem, "/"),
    };
    let access = &console.0.access;
    match access.token(fields.get("token").unwrap_or_default().trim(), peer) {
        Ok(token) => {
            let session = Access::begin(token);
            let to = format!("{}{}", console.base(), inside(fields.get("to")));
            go(&to, &set_cookie(&console, &session, LASTS.as_secs()))
        }
        Err(problem) => pages::login_again(&console, &problem, inside(fields.get("to"))),
    }
}

/// `POST /logout`.
pub(crate) async fn log_out(_: Public, State(console): State<Console>, _: HeaderMap, _: CheckedForm) -> Response {
    go(&format!("{}/login", console.base()), &set_cookie(&console, "", 0))
}

/// A page of this console, and nothing else: a link elsewhere must not lead away after logging in. Browsers take a backslash for a slash, and
/// leave out tabs and ends of lines.
pub(crate) fn inside(to: Option<&str>) -> &str {
    let leads_away = |c: char| c == '\\' || c.is_control();
    let is_page = |to: &&str| to.starts_with('/') && !to.starts_with("//") && !to.contains(leads_away);
    to.filter(is_page).unwrap_or("/")
}

fn set_cookie(console: &Console, value: &str, seconds: u64) -> String {
    let secure = if console.0.access.secure { "; Secure" } else { "" };
    let path = if console.base().is_empty() { "/" } else { console.base() };
    format!("{COOKIE}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

fn go(to: &str, cookie: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    for (name, value) in [(header::LOCATION, to), (header::SET_COOKIE, cookie)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_away() {
        assert_eq!(inside(Some("/failed?queue=a")), "/failed?queue=a");
        let tab = Fields::parse(b"to=/%09/evil.example");
        let elsewhere = ["https://evil.example", "//evil.example", "/\\evil.example", "/a\\b", "evil", ""];
        let hidden =
            ["/\t/evil.example", "\t//evil.example", "/\r\n/evil.example", "/\0/evil.example", "/\u{85}/evil.example"];
        for to in elsewhere.into_iter().chain(hidden).chain(tab.get("to")) {
            assert_eq!(inside(Some(to)), "/", "{to:?}");
        }
    }
}
