//! The built-in action `http`: posts a message as JSON, with its id as `Idempotency-Key`. The answer's status says what became of it:
//! 2xx done; 408, 425, 429 and 5xx retry, when the server says so; everything else parks. Redirects are not followed: where a message goes is the
//! configuration's to say.

use std::{
    error::Error as _,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Request, StatusCode, Uri,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use ichido::{Action, Context, Error, MessageId, Outcome, Result, RetryAfter, Store, message::Whole, observe::MASK};

use super::{REASON, one_line, retry_after::wait};
use crate::{
    config,
    tls::{self, Connector},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A connection that nobody uses is closed before most servers do it.
const IDLE: Duration = Duration::from_secs(4);

/// Of an answer so much is read, so that its connection can be used again.
const ANSWER: usize = 64 << 10;

/// Where and how messages are posted.
#[derive(Clone)]
pub(crate) struct HttpAction {
    client: Client<Connector, Full<Bytes>>,
    url: Uri,
    headers: HeaderMap,
    /// What no answer may show to those who read the log.
    secrets: Vec<String>,
    timeout: Duration,
}

/// What the server said.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl HttpAction {
    /// Messages are posted as the configuration says.
    ///
    /// # Errors
    /// The text says what cannot be read, without the secrets in it.
    pub(crate) fn new(config: &config::HttpAction) -> Result<Self, String> {
        let (url, login) = address(config.url.as_str())?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("ichido/", env!("CARGO_PKG_VERSION"))));
        let mut secrets: Vec<_> = config.headers.values().flat_map(|value| parts(value)).collect();
        secrets.extend(url.query().into_iter().flat_map(|query| query.split(['&', '='])).flat_map(parts));
        if let Some((user, password)) = login {
            let login = BASE64_STANDARD.encode(format!("{user}:{password}"));
            headers.insert(AUTHORIZATION, secret(&format!("Basic {login}"))?);
            secrets.extend([password, login].into_iter().filter(|secret| !secret.is_empty()));
        }
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        for (name, value) in &config.headers {
            let name: HeaderName = name.parse().map_err(|_| format!("invalid header name `{name}`"))?;
            headers.insert(name, secret(value)?);
        }
        Ok(HttpAction { client: client()?, url, headers, secrets, timeout: config.timeout })
    }

    fn shown(&self) -> String {
        shown(&self.url)
    }

    fn request(&self, id: &MessageId, json: String) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::post(self.url.clone()).body(Full::from(json))?;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(IDEMPOTENCY_KEY, key(id)?);
        Ok(request)
    }

    async fn post(&self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let answered = tokio::time::timeout(self.timeout, async {
            let began = Instant::now();
            let answer = self.client.request(request).await.map_err(|error| chain(&error))?;
            Ok((answer.into_parts(), self.timeout.saturating_sub(began.elapsed())))
        });
        let answered = answered.await.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.timeout)));
        let ((head, body), left) = answered?;
        Ok(Answer { status: head.status, headers: head.headers, body: beginning(body, left).await })
    }

    fn outcome(&self, answer: &Answer, hide: impl Fn(&str) -> String) -> Result<Outcome> {
        let Answer { status, headers, .. } = answer;
        if status.is_success() {
            return Ok(Outcome::Done);
        }
        let text = self.told(answer, hide);
        match status.as_u16() {
            408 | 425 | 429 | 500.. => Err(match headers.get(RETRY_AFTER).and_then(wait) {
                Some(after) => RetryAfter { after, cause: text.into() }.into(),
                None => text.into(),
            }),
            _ => Ok(Outcome::Park(text)),
        }
    }

    /// What the server answered, for the reason of a failure.
    fn told(&self, answer: &Answer, hide: impl Fn(&str) -> String) -> String {
        let mut text = format!("{} answered {}", self.shown(), answer.status);
        if answer.status.is_redirection() {
            let to = answer.headers.get(LOCATION).and_then(|to| Some(shown(&Uri::try_from(to.as_bytes()).ok()?)));
            let to = to.as_deref().unwrap_or("an unknown location");
            text = format!("{text}, a redirect to {to}; redirects are not followed");
        }
        // Hidden first, for what is cut in two is not found.
        let mut said = self.hidden(hide(&one_line(&answer.body)));
        said.truncate(said.floor_char_boundary(REASON));
        if !said.is_empty() {
            text = format!("{text}: {said}");
        }
        self.hidden(text)
    }

    fn hidden(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| text.replace(secret, MASK))
    }
}

impl<S: Store> Action<S> for HttpAction {
    type Message = Whole;

    async fn handle(&self, cx: &mut Context<S>, message: Whole) -> Result<Outcome> {
        let answer = self.post(self.request(&cx.message_id()?, message.json(cx.attempt())?)?).await;
        let answer = answer.map_err(|why| Error::from(format!("{}: {why}", self.shown())))?;
        tracing::debug!("{} answered {}", self.shown(), answer.status);
        self.outcome(&answer, |text| cx.masked(text))
    }
}

fn client() -> Result<Client<Connector, Full<Bytes>>, String> {
    let mut plain = HttpConnector::new();
    plain.set_nodelay(true);
    let connector = tls::connector(plain)?;
    let timer = TokioTimer::new();
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_timer(timer).build(connector))
}

/// A URL without the name and password in it, and those.
fn address(url: &str) -> Result<(Uri, Option<(String, String)>), String> {
    let plain = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (scheme, rest) = url.split_once("://").ok_or("the url has no scheme")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    let login = login.map(|login| login.split_once(':').unwrap_or((login, "")));
    let path = path.split('#').next().unwrap_or_default();
    let uri: Uri = format!("{scheme}://{host}{path}").parse().map_err(|why| format!("the url is invalid: {why}"))?;
    if uri.host().is_none_or(str::is_empty) {
        return Err("the url has no host".into());
    }
    Ok((uri, login.map(|(user, password)| (plain(user), plain(password)))))
}

/// Where messages go, for people.
///
/// # Errors
/// The text says why the URL cannot be read.
pub(crate) fn place(url: &config::Url) -> Result<String, String> {
    Ok(shown(&address(url.as_str())?.0))
}

/// A URL without what may be secret: name and password, and the part after `?`.
fn shown(url: &Uri) -> String {
    let host = url.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default());
    let scheme = url.scheme_str().map_or(String::new(), |scheme| format!("{scheme}://"));
    format!("{scheme}{host}{}", url.path())
}

fn secret(value: &str) -> Result<HeaderValue, String> {
    let mut value =
        HeaderValue::from_bytes(value.as_bytes()).map_err(|_| "a header value contains control characters")?;
    value.set_sensitive(true);
    Ok(value)
}

/// The message's id; what does not belong into a header is percent-encoded, as `/` in a key is.
fn key(id: &MessageId) -> Result<HeaderValue> {
    const OTHERS: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b' ');
    let text = percent_encoding::utf8_percent_encode(&id.to_string(), OTHERS).to_string();
    Ok(HeaderValue::try_from(text)?)
}

/// The first part of an answer, as far as it comes within this time: its status has said all that matters.
async fn beginning(mut body: Incoming, within: Duration) -> Vec<u8> {
    let mut read = Vec::new();
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            read.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if read.len() > ANSWER {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(within, reading).await;
    read
}

/// A secret, and its parts: `Bearer x` may come back as `x` alone. What is very short is found everywhere.
fn parts(secret: &str) -> Vec<String> {
    let words = secret.split_whitespace().skip(1);
    [secret].into_iter().chain(words).filter(|part| part.len() > 3).map(ToOwned::to_owned).collect()
}

/// An error with its causes; many repeat their cause's text.
fn chain(error: &hyper_util::client::legacy::Error) -> String {
    let mut text = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    if text.is_empty() { error.to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use ichido::Key;

    use super::*;

    #[test]
    fn name_and_password_leave_the_url() {
        let (url, login) = address("https://me:p%40ss@example.org:8443/hook?a=b#c").unwrap();
        assert_eq!(url.to_string(), "https://example.org:8443/hook?a=b");
        assert_eq!(login, Some(("me".into(), "p@ss".into())));
        assert_eq!(shown(&url), "https://example.org:8443/hook");
        assert_eq!(address("http://h").unwrap().0.path(), "/");
        for bad in ["http://", "http:///x", "http://a b/", "http://u:secret@"] {
            let why = address(bad).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn an_id_becomes_a_header_whatever_is_in_it() {
        let id = |key: &str| key_text(&MessageId { queue: "orders".into(), key: Key::new([key]) });
        assert_eq!(id("42"), "orders/42");
        assert_eq!(id("a/b \n日"), "orders/a%2Fb%20%0A%E6%97%A5");
    }

    fn key_text(id: &MessageId) -> String {
        key(id).unwrap().to_str().unwrap().to_owned()
    }
}
