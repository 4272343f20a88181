//! A collector of traces for tests: takes OTLP over HTTP, decodes the protocol's own messages, and keeps the spans.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use ichido_testkit::eventually;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span as Sent, status::StatusCode as Code},
};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};

use crate::testenv::server::acceptor;

/// A span that came, and from which service.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: Vec<u8>,
    pub(crate) id: Vec<u8>,
    pub(crate) parent: Vec<u8>,
    pub(crate) failed: Option<String>,
    pub(crate) begun: u64,
    /// Everything that it says, as text.
    pub(crate) text: String,
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

pub(crate) struct Collector {
    spans: Spans,
    pub(crate) url: String,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let spans = Spans::default();
        let router = Router::new().route("/v1/traces", post(take)).with_state(spans.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Collector { spans, url }
    }

    /// One that is reached over HTTPS only, with the certificate of [`CERTIFICATE`](crate::testenv::server::CERTIFICATE).
    pub(crate) async fn start_tls() -> Self {
        let plain = Collector::start().await;
        let behind = plain.url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let behind = behind.clone();
                tokio::spawn(async move {
                    let mut encrypted = acceptor().accept(stream).await?;
                    let mut plain = TcpStream::connect(behind).await?;
                    tokio::io::copy_bidirectional(&mut encrypted, &mut plain).await
                });
            }
        });
        Collector { url, ..plain }
    }

    /// The lines of a configuration that send spans here.
    pub(crate) fn lines(&self, service: &str) -> String {
        format!("\n[telemetry]\notlp = \"{}\"\nservice = \"{service}\"\n", self.url)
    }

    /// All spans that came, the first first.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = self.spans.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        spans.sort_by_key(|span| span.begun);
        spans
    }

    /// Those of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// Waits until so many of this name are there.
    pub(crate) async fn until(&self, name: &str, count: usize) -> Vec<Span> {
        eventually(format!("{count} spans {name}"), async || {
            if self.named(name).len() >= count { Ok(()) } else { Err(format!("{:#?}", self.spans())) }
        })
        .await;
        self.named(name)
    }
}

async fn take(State(spans): State<Spans>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    for resource in request.resource_spans {
        let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
        let service = text_of(&attributes, "service.name");
        let sent = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        let mut known = spans.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(sent.map(|span| kept(service.clone(), span)));
    }
    StatusCode::OK
}

fn kept(service: String, span: Sent) -> Span {
    let text = format!("{span:?}");
    let failed = span.status.filter(|status| status.code == Code::Error as i32).map(|status| status.message);
    let (trace, id, parent) = (span.trace_id, span.span_id, span.parent_span_id);
    Span { service, name: span.name, trace, id, parent, failed, begun: span.start_time_unix_nano, text }
}

fn text_of(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|attribute| attribute.key == key).and_then(|found| found.value.clone());
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{key}: {other:?}"),
    }
}
