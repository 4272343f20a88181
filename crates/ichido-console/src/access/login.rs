//! Logging in: a token is exchanged for the signed cookie. It is the one form without a field `csrf`: nobody is known yet. That another site does not
//! send it, `headers::guard` has seen.

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    CheckedForm, Peer, Public,
    session::{Access, COOKIE, LASTS},
};
use crate::{Console, fields::Fields, pages};

/// `POST /login`: the fields `token`, and `to`, the page that was asked for.
pub(crate) async fn log_in(
    _: Public,
    State(console): State<Console>,
    peer: Option<axum::Extension<Peer>>,
    body: Bytes,
) -> Response {
    let fields = Fields::parse(&body);
    let access = &console.0.access;
    match access.token(fields.get("token").unwrap_or_default().trim(), peer.map(|peer| peer.0.0)) {
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

/// A page of this console, and nothing else: a link elsewhere must not lead away after logging in.
pub(crate) fn inside(to: Option<&str>) -> &str {
    let is_page = |to: &&str| to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n']);
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
    use super::inside;

    #[test]
    fn nobody_is_led_away() {
        assert_eq!(inside(Some("/failed?queue=a")), "/failed?queue=a");
        for to in ["https://evil.example", "//evil.example", "/\\evil.example", "evil", ""] {
            assert_eq!(inside(Some(to)), "/", "{to}");
        }
    }
}
