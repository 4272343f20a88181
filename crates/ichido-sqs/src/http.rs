//! How the SDK's calls reach the service: by the one HTTP client that hyper-util builds for the rest of the program, too. The SDK's own also
//! speaks HTTP/2 and knows proxies, which SQS does not need here, and took long to build. For the SDK's retries, errors have the kinds that
//! its own client gives them, and a connection that it no longer trusts is not used again.

use std::{
    collections::HashMap,
    error::Error,
    fmt, io,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        connection::{CaptureSmithyConnection, ConnectionMetadata},
        http::{
            HttpClient, HttpConnector as SdkConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
            SharedHttpConnector,
        },
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::{body::SdkBody, retry::ErrorKind};
use hyper::{Request, Uri};
use hyper_util::{
    client::legacy::{
        self, Client,
        connect::{CaptureConnection, HttpConnector, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::timeout;
use tower_service::Service;

use crate::tls::{self, Connector};

/// What makes the SDK's calls.
pub(crate) fn client() -> SharedHttpClient {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    SharedHttpClient::new(Clients { connector: tls::connector(http), known: Mutex::default() })
}

/// How long connecting may take, and how long an answer may.
type Timeouts = (Option<Duration>, Option<Duration>);

/// One client for each pair of timeouts, so that its connections are kept.
#[derive(Debug)]
struct Clients {
    connector: Connector,
    known: Mutex<HashMap<Timeouts, SharedHttpConnector>>,
}

impl HttpClient for Clients {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        let timeouts = (settings.connect_timeout(), settings.read_timeout());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || SharedHttpConnector::new(Http::new(self.connector.clone(), timeouts));
        known.entry(timeouts).or_insert_with(made).clone()
    }
}

#[derive(Debug)]
struct Http {
    client: Client<Dial, SdkBody>,
    read: Option<Duration>,
}

impl Http {
    fn new(connector: Connector, (connect, read): Timeouts) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        // Without it, idle connections are only closed when another is needed.
        builder.pool_timer(TokioTimer::new());
        Self { client: builder.build(Dial { connector, within: connect }), read }
    }
}

impl SdkConnector for Http {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        if !tls::BUILT && request.uri().scheme_str() == Some("https") {
            return HttpConnectorFuture::ready(Err(ConnectorError::user(NO_TLS.into())));
        }
        capture(&mut request);
        let answer = in_time("HTTP read", self.read, self.client.request(request));
        HttpConnectorFuture::new(async move {
            let answer = answer.await.map_err(classified)?.map(SdkBody::from_body_1_x);
            HttpResponse::try_from(answer).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

const NO_TLS: &str = "this build has no TLS: build it with the feature `tls-rustls-ring` or `tls-rustls-aws-lc`";

/// Shows the SDK which connection a request takes.
fn capture(request: &mut Request<SdkBody>) {
    let used = capture_connection(request);
    if let Some(asking) = request.extensions().get::<CaptureSmithyConnection>() {
        asking.set_connection_retriever(move || {
            let used = used.clone();
            let made = used.connection_metadata().is_some();
            made.then(|| ConnectionMetadata::builder().proxied(false).poison_fn(move || poison(&used)).build())
        });
    }
}

fn poison(used: &CaptureConnection) {
    if let Some(connected) = used.connection_metadata().as_ref() {
        connected.poison();
    }
}

/// Makes connections within a time, which is for the name, TCP and TLS together.
#[derive(Clone, Debug)]
struct Dial {
    connector: Connector,
    within: Option<Duration>,
}

impl Service<Uri> for Dial {
    type Response = <Connector as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        Box::pin(in_time("HTTP connect", self.within, self.connector.call(address)))
    }
}

async fn in_time<T, E: Into<BoxError>>(
    what: &'static str,
    within: Option<Duration>,
    doing: impl Future<Output = Result<T, E>>,
) -> Result<T, BoxError> {
    let Some(within) = within else { return doing.await.map_err(Into::into) };
    match timeout(within, doing).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(Late { what, within }.into()),
    }
}

#[derive(Debug)]
struct Late {
    what: &'static str,
    within: Duration,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} timeout occurred after {:?}", self.what, self.within)
    }
}

impl Error for Late {}

/// The kind that the SDK's own client would give it: by that, the SDK tries again or does not.
fn classified(error: BoxError) -> ConnectorError {
    if find::<Late>(&*error).is_some() {
        return ConnectorError::timeout(error);
    }
    let Some(hyper) = find::<hyper::Error>(&*error) else {
        let client = find::<legacy::Error>(&*error);
        let io = client.is_some_and(|client| client.is_connect() || find::<io::Error>(client).is_some());
        return if io { ConnectorError::io(error) } else { ConnectorError::other(error, None) };
    };
    if hyper.is_timeout() {
        ConnectorError::timeout(error)
    } else if hyper.is_user() {
        ConnectorError::user(error)
    } else if hyper.is_closed() || hyper.is_canceled() || find::<io::Error>(hyper).is_some() {
        ConnectorError::io(error)
    } else {
        let kind = hyper.is_incomplete_message().then_some(ErrorKind::TransientError);
        ConnectorError::other(error, kind)
    }
}

/// The first of this type among an error and its causes.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use http_body_util::BodyExt as _;
    use ichido_testkit::in_time as within_reason;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const SOON: Option<Duration> = Some(Duration::from_millis(100));

    async fn listening() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        (listener, address)
    }

    fn http(timeouts: Timeouts) -> Http {
        Http::new(tls::connector(HttpConnector::new()), timeouts)
    }

    async fn failure(timeouts: Timeouts, url: &str) -> ConnectorError {
        let request = HttpRequest::get(url).expect("a URL");
        within_reason("a failure", http(timeouts).call(request)).await.expect_err("nobody answers")
    }

    /// Reads a request; is there one?
    async fn asked(tcp: &mut TcpStream) -> bool {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if tcp.read_buf(&mut head).await.expect("read") == 0 {
                return false;
            }
        }
        true
    }

    /// Each connection has a number, which is its answer to everything.
    async fn numbered(listener: TcpListener) {
        for number in 100.. {
            let (mut tcp, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                while asked(&mut tcp).await {
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{number}");
                    tcp.write_all(answer.as_bytes()).await.expect("written");
                }
            });
        }
    }

    async fn number(http: &Http, url: &str) -> (Vec<u8>, ConnectionMetadata) {
        let mut request = HttpRequest::get(url).expect("a URL");
        let used = CaptureSmithyConnection::new();
        request.add_extension(used.clone());
        let answer = within_reason("an answer", http.call(request)).await.expect("an answer");
        let body = answer.into_body().collect().await.expect("a number").to_bytes();
        (body.to_vec(), used.get().expect("the connection that it came by"))
    }

    #[tokio::test]
    async fn silence_ends_in_time() {
        let (_silent, address) = listening().await;
        let error = failure((None, SOON), &format!("http://{address}")).await;
        assert!(error.is_timeout(), "{error:?}");
        assert!(error.source().is_some_and(|why| why.to_string().starts_with("HTTP read")), "{error:?}");
    }

    #[tokio::test]
    async fn encryption_has_the_time_of_connecting_and_is_refused_without_tls() {
        let (_silent, address) = listening().await;
        let error = failure((SOON, None), &format!("https://{address}")).await;
        assert_eq!((error.is_timeout(), error.is_user()), (tls::BUILT, !tls::BUILT), "{error:?}");
    }

    #[tokio::test]
    async fn where_nobody_listens_the_connection_failed() {
        let (listener, address) = listening().await;
        drop(listener);
        let error = failure((None, None), &format!("http://{address}")).await;
        assert!(error.is_io(), "{error:?}");
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_is_asked_for_again() {
        let (listener, address) = listening().await;
        let closing = async {
            let (mut tcp, _) = listener.accept().await.expect("a connection");
            assert!(asked(&mut tcp).await);
        };
        let url = format!("http://{address}");
        let (error, ()) = tokio::join!(failure((None, None), &url), closing);
        assert_eq!(error.as_other(), Some(ErrorKind::TransientError), "{error:?}");
    }

    #[tokio::test]
    async fn connections_are_kept_unless_the_sdk_no_longer_trusts_them() {
        let (listener, address) = listening().await;
        tokio::spawn(numbered(listener));
        let (http, url) = (http((None, None)), format!("http://{address}"));
        let kept = async {
            let mut last = number(&http, &url).await.0;
            loop {
                let next = number(&http, &url).await.0;
                if next == std::mem::replace(&mut last, next.clone()) {
                    break;
                }
            }
        };
        within_reason("a connection is used again", kept).await;
        let mut seen = HashSet::new();
        for _ in 0..10 {
            let (number, used) = number(&http, &url).await;
            used.poison();
            assert!(seen.insert(number), "it was poisoned");
        }
    }
}
