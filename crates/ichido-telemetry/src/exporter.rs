//! How spans leave: OTLP's own exporter behind a small HTTP client (HTTPS where `tls` is built in), on the thread of the batch processor. Claims that found nothing are
//! left out: an idle process would send one a second. A collector that is away is told of once; spans are dropped meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::SpanExporter as Otlp;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use tokio::runtime::Runtime;

use crate::tls::{self, Connector};

/// A collector answers with a few bytes.
const LONGEST_ANSWER: usize = 64 * 1024;

/// HTTP without a runtime of the program's: spans are sent while that one ends, too.
#[derive(Debug)]
pub(crate) struct Http {
    runtime: Runtime,
    client: Client<Connector, Full<Bytes>>,
}

impl Http {
    pub(crate) fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Http { runtime, client: Client::builder(TokioExecutor::new()).build(tls::connector()?) })
    }
}

#[async_trait::async_trait]
impl HttpClient for Http {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // The batch processor's thread waits for this anyway, and has no runtime.
        self.runtime.block_on(async {
            let sent = self.client.request(request.map(Full::new));
            let answer = tokio::time::timeout(crate::TIMEOUT, sent).await??;
            let (head, body) = answer.into_parts();
            let body = tokio::time::timeout(crate::TIMEOUT, Limited::new(body, LONGEST_ANSWER).collect()).await??;
            Ok(Response::from_parts(head, body.to_bytes()))
        })
    }
}

/// OTLP's exporter, without what nobody wants to see.
#[derive(Debug)]
pub(crate) struct Exporter {
    otlp: Otlp,
    fails: AtomicBool,
}

impl Exporter {
    pub(crate) fn new(otlp: Otlp) -> Self {
        Exporter { otlp, fails: AtomicBool::new(false) }
    }

    fn tell(&self, sent: &OTelSdkResult) {
        let failed_before = self.fails.swap(sent.is_err(), Ordering::Relaxed);
        match sent {
            Err(error) if !failed_before => tracing::warn!(%error, "cannot send traces; spans are dropped"),
            Ok(()) if failed_before => tracing::info!("traces are sent again"),
            _ => {}
        }
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.retain(|span| !is_empty_claim(span));
        if batch.is_empty() {
            return Ok(());
        }
        let sent = self.otlp.export(batch).await;
        self.tell(&sent);
        sent
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.otlp.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

fn is_empty_claim(span: &SpanData) -> bool {
    span.name == "claim" && !span.attributes.iter().any(|attribute| attribute.key.as_str() == "messages")
}
