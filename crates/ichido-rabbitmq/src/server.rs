//! Where the broker is: a cluster is given as several URLs, which are tried in turn. Everybody who needs a connection asks here.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lapin::{
    Connection, ConnectionProperties,
    tcp::{OwnedIdentity, OwnedTLSConfig},
    uri::{AMQPScheme, AMQPUri},
};
use tokio::time::timeout;

use crate::{Error, Result, error, http::refuse_without_tls, stream, tls};

/// How long one address may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a broker may take to answer a question over a connection that is there: a node that is just starting may take one and
/// never answer.
pub(crate) const ANSWERING: Duration = Duration::from_secs(20);

/// A connection that is silent for twice this time is lost; the URL may say otherwise (`?heartbeat=30`).
const HEARTBEAT: u16 = 10;

/// A broker, by its addresses. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    nodes: Arc<[AMQPUri]>,
    tls: OwnedTLSConfig,
    turn: Arc<AtomicUsize>,
}

impl Server {
    /// The broker at these URLs, `amqp://` or `amqps://`.
    ///
    /// # Errors
    /// If there is none, or one of them is not such a URL. The text does not repeat it, for it holds a password.
    pub fn new<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self> {
        let nodes: Vec<AMQPUri> =
            urls.into_iter().zip(1..).map(|(url, n)| parse(url.as_ref(), n)).collect::<Result<_>>()?;
        if nodes.is_empty() {
            return Err(Error::Setup("no broker URL configured".to_owned()));
        }
        Ok(Self { nodes: nodes.into(), tls: OwnedTLSConfig::default(), turn: Arc::default() })
    }

    /// Trusts these certificates, in PEM, in place of those that the system trusts: for an authority of one's own.
    ///
    /// # Errors
    /// If there is no certificate in it, or this build has no TLS.
    pub fn trusting(mut self, certificates: impl Into<String>) -> Result<Self> {
        self.tls.cert_chain = Some(certificates.into());
        tls::check(&self.tls).map_err(Error::Setup)?;
        Ok(self)
    }

    /// Shows this certificate and has its key, both in PEM, where the broker asks who we are.
    ///
    /// # Errors
    /// If one of them cannot be read or they do not fit together, or this build has no TLS.
    pub fn identified(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Result<Self> {
        let (pem, key) = (certificate.into().into_bytes(), key.into().into_bytes());
        self.tls.identity = Some(OwnedIdentity::PKCS8 { pem, key });
        tls::check(&self.tls).map_err(Error::Setup)?;
        Ok(self)
    }

    /// Host and port of each address.
    #[must_use]
    pub fn addresses(&self) -> String {
        self.nodes.iter().map(address).collect::<Vec<_>>().join(", ")
    }

    /// Name, password and vhost, as the first URL has them.
    pub(crate) fn login(&self) -> (&str, &str, &str) {
        let uri = &self.nodes[0];
        let user = &uri.authority.userinfo;
        (&user.username, &user.password, &uri.vhost)
    }

    pub(crate) fn tls(&self) -> &OwnedTLSConfig {
        &self.tls
    }

    /// The next one to connect begins with the next address.
    pub(crate) fn move_on(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) async fn connect(&self, name: &str) -> Result<Connection> {
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        self.in_turn(|uri| stream::connect(uri, properties.clone(), self.tls.clone())).await
    }

    /// What the first address says that does not fail, beginning where the last caller has stopped.
    pub(crate) async fn in_turn<T, F>(&self, ask: impl Fn(AMQPUri) -> F) -> Result<T>
    where
        F: Future<Output = lapin::Result<T>>,
    {
        let mut failed = None;
        for _ in 0..self.nodes.len() {
            let turn = self.turn.load(Ordering::Relaxed) % self.nodes.len();
            let uri = &self.nodes[turn];
            match timeout(TIMEOUT, ask(uri.clone())).await.unwrap_or_else(|_| Err(silent(TIMEOUT))) {
                Ok(found) => return Ok(found),
                Err(error) => failed = Some((uri, error)),
            }
            self.move_on();
        }
        let (uri, source) = failed.expect("at least one address");
        Err(if error::is_refusal(&source) {
            let (address, vhost, user) = (address(uri), &uri.vhost, &uri.authority.userinfo.username);
            Error::Setup(format!("the broker at {address} refused user {user:?} on vhost {vhost:?}: {source}"))
        } else {
            Error::Unreachable { addresses: self.addresses(), source }
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.addresses()).finish()
    }
}

fn parse(url: &str, n: usize) -> Result<AMQPUri> {
    let mut uri: AMQPUri = url.parse().map_err(|_| {
        let expected = "amqp://user:password@host:port/vhost, or amqps://";
        Error::Setup(format!("broker URL number {n} is invalid: expected {expected}"))
    })?;
    if uri.scheme == AMQPScheme::AMQPS {
        refuse_without_tls("the broker")?;
    }
    // Without one nobody would notice that a broker has fallen silent.
    uri.query.heartbeat = uri.query.heartbeat.filter(|seconds| *seconds > 0).or(Some(HEARTBEAT));
    Ok(uri)
}

fn address(uri: &AMQPUri) -> String {
    format!("{}:{}", uri.authority.host, uri.authority.port)
}

/// What the broker answers, if it does.
pub(crate) async fn answered<T>(doing: &str, question: impl Future<Output = Result<T>>) -> Result<T> {
    answered_within(ANSWERING, doing, question).await
}

/// The same, within another time.
pub(crate) async fn answered_within<T>(
    limit: Duration,
    doing: &str,
    question: impl Future<Output = Result<T>>,
) -> Result<T> {
    timeout(limit, question).await.unwrap_or_else(|_| Err(Error::broker(doing)(silent(limit))))
}

/// What a broker says that says nothing.
pub(crate) fn silent(within: Duration) -> lapin::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no response within {within:?}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_holds_the_password() {
        let broker = Server::new(["amqp://u:secret@h:1/v", "amqps://u:secret@g:2/v"]).expect("two URLs");
        assert_eq!(format!("{broker:?}"), r#"Server("h:1, g:2")"#);
        for url in ["amqp://u:secret@h:port/v", "http://u:secret@h/v", "u:secret", ""] {
            let error = Server::new([url]).expect_err(url);
            assert!(!error.to_string().contains("secret") && !error.is_transient(), "{error}");
        }
    }

    #[test]
    fn a_silent_broker_is_always_noticed() {
        for (query, heartbeat) in [("", HEARTBEAT), ("?heartbeat=0", HEARTBEAT), ("?heartbeat=30", 30)] {
            let broker = Server::new([format!("amqp://h:1/v{query}")]).expect("a URL");
            assert_eq!(broker.nodes[0].query.heartbeat, Some(heartbeat), "{query}");
        }
    }

    #[test]
    fn a_broker_has_an_address() {
        assert!(Server::new(Vec::<String>::new()).is_err());
    }
}
