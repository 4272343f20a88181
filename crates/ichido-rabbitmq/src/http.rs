//! A small HTTP client for the management API: JSON, name and password, an end to every question.

use std::{error::Error as _, fmt, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, StatusCode, Uri,
    body::Bytes,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use lapin::tcp::OwnedTLSConfig;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    Error, Result,
    tls::{self, Connector},
};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// More than that is not read of an answer.
const LARGEST: usize = 16 << 20;

/// Of what an API says to refuse, so much is told.
const REASON: usize = 300;

#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Connector, Full<Bytes>>,
    /// Scheme, host and port.
    base: String,
    login: HeaderValue,
}

impl Http {
    /// Without a name and a password in the URL, these are used.
    pub(crate) fn new(url: &str, user: &str, password: &str, tls: &OwnedTLSConfig) -> Result<Self> {
        let (base, user, password) = read(url, user, password).ok_or_else(|| {
            let expected = "http://user:password@host:port, or https://";
            Error::Setup(format!("the URL of the management API is invalid: expected {expected}"))
        })?;
        if base.starts_with("https") {
            refuse_without_tls("the management API")?;
        }
        let login = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        let mut login = HeaderValue::try_from(login).expect("base64");
        login.set_sensitive(true);
        Ok(Self { client: client(tls)?, base, login })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str, doing: &str) -> Result<T> {
        let body = self.send(Method::GET, path, None, doing).await?;
        serde_json::from_slice(&body).map_err(|error| self.failed(doing, &format!("cannot read the response: {error}")))
    }

    pub(crate) async fn send(&self, method: Method, path: &str, json: Option<String>, doing: &str) -> Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(AUTHORIZATION, self.login.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(json.unwrap_or_default()))
            .map_err(|error| Error::Setup(format!("{doing}: {error}")))?;
        let answer = async {
            let answer = self.client.request(request).await.map_err(|error| cause(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LARGEST).collect().await.map_err(|error| error.to_string())?;
            Ok((status, body.to_bytes()))
        };
        let answer = timeout(TIMEOUT, answer).await.unwrap_or_else(|_| Err(format!("no response within {TIMEOUT:?}")));
        let (status, body) = answer.map_err(|why: String| self.failed(doing, &why))?;
        if status.is_success() {
            return Ok(body);
        }
        Err(self.refused(doing, status, &body))
    }

    fn failed(&self, doing: &str, why: &str) -> Error {
        Error::Management { doing: doing.to_owned(), why: format!("the management API at {}: {why}", self.base) }
    }

    /// What will not change by itself is for the operator.
    fn refused(&self, doing: &str, status: StatusCode, body: &[u8]) -> Error {
        let said = String::from_utf8_lossy(body);
        let said = said.get(..said.floor_char_boundary(REASON)).unwrap_or_default();
        let why = format!("{status} {said}");
        match status.as_u16() {
            400..=407 => Error::Setup(format!("{doing}: the management API at {} answered {why}", self.base)),
            _ => self.failed(doing, &why),
        }
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.base).finish()
    }
}

/// Scheme, host and port; name; password.
fn read(url: &str, user: &str, password: &str) -> Option<(String, String, String)> {
    let uri: Uri = url.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    if !matches!(scheme, "http" | "https") || authority.host().is_empty() {
        return None;
    }
    let port = authority.port().map_or(String::new(), |port| format!(":{port}"));
    let base = format!("{scheme}://{}{port}", authority.host());
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(match authority.as_str().rsplit_once('@') {
        Some((login, _)) => {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            (base, plain(user), plain(password))
        }
        None => (base, user.to_owned(), password.to_owned()),
    })
}

/// Refuses what a build without TLS cannot do.
pub(crate) fn refuse_without_tls(what: &str) -> Result<()> {
    if tls::BUILT {
        return Ok(());
    }
    Err(Error::Setup(format!(
        "the URL of {what} asks for TLS, which this build does not have: build it with the feature `tls-rustls-ring` or `tls-rustls-aws-lc`"
    )))
}

fn client(tls: &OwnedTLSConfig) -> Result<Client<Connector, Full<Bytes>>> {
    let connector = tls::connector(HttpConnector::new(), tls).map_err(Error::Setup)?;
    // Questions are rare, and a connection that was kept may be gone.
    Ok(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
}

/// The deepest cause: the others only say that there is one.
fn cause(error: &hyper_util::client::legacy::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_password_are_the_urls_or_the_brokers() {
        let read = |url| read(url, "u", "p").map(|(base, user, password)| format!("{base} {user} {password}"));
        assert_eq!(read("http://h:15672").as_deref(), Some("http://h:15672 u p"));
        assert_eq!(read("https://me:p%40ss@h/ignored").as_deref(), Some("https://h me p@ss"));
        for bad in ["amqp://h", "h:15672", "", "http://"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_text_holds_the_password() {
        let http = Http::new("http://u:secret@h:1", "u", "p", &OwnedTLSConfig::default()).expect("a URL");
        assert_eq!(format!("{http:?}"), r#"Http("http://h:1")"#);
        let error = Http::new("ftp://u:secret@h", "u", "p", &OwnedTLSConfig::default()).expect_err("not HTTP");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
