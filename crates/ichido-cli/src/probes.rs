//! A process's own probes: `/livez`, `/readyz` and `/metrics` over HTTP for `ichido run --health`, and the notifications that systemd waits for. They
//! run on a thread and a runtime of their own, so that workers that block every thread are told of instead of keeping the answer back.
//! They ask [`Probe`] and the process's runtime, never the database.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, thread, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use ichido::process::Probe;
use sd_notify::NotifyState;
use tokio::{net::TcpListener, runtime::Handle, sync::Semaphore, time::Instant};

use crate::{failure::Failure, metrics};

/// A runtime whose threads are all blocked does not start a task within this time.
const SCHEDULED: Duration = Duration::from_secs(5);

/// How soon a readiness is told that systemd waits for.
const LOOK: Duration = Duration::from_millis(100);

/// Who asks slowly, or many at a time, does not hold up the others.
const SLOWEST_REQUEST: Duration = Duration::from_secs(5);
const MOST_CONNECTIONS: usize = 64;

/// Starts what answers probes, if anybody asks: an address to listen on, or systemd.
pub(crate) fn start(probe: Probe, listen: Option<SocketAddr>) -> Result<(), Failure> {
    let watchdog = sd_notify::watchdog_enabled();
    let notified = std::env::var_os("NOTIFY_SOCKET").is_some();
    if listen.is_none() && !notified {
        return Ok(());
    }
    let asked = Asked { probe, process: Handle::current() };
    let bound = listen.map(|address| bind(address).map_err(|error| refused(address, &error))).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("ichido-probes".into()).spawn(move || {
        runtime.block_on(async move {
            if notified {
                tokio::spawn(notify(asked.clone(), watchdog));
            }
            match bound.map(TcpListener::from_std) {
                Some(Ok(listener)) => serve(listener, asked).await,
                Some(Err(error)) => tracing::error!(%error, "cannot answer probes"),
                None => std::future::pending().await,
            }
        });
    })?;
    Ok(())
}

fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // Whoever asked for any free port must hear which one it is.
    tracing::info!(address = %listener.local_addr()?, "answering probes");
    Ok(listener)
}

fn refused(address: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::usage(format!("--health {address}: cannot listen there: {error}"))
}

/// What is asked.
#[derive(Clone)]
struct Asked {
    probe: Probe,
    /// Where the process runs.
    process: Handle,
}

impl Asked {
    async fn live(&self) -> Result<(), String> {
        let scheduled = self.process.spawn(async {});
        if tokio::time::timeout(SCHEDULED, scheduled).await.is_err() {
            return Err(format!("all threads are blocked: no task was started within {SCHEDULED:?}"));
        }
        self.probe.live()
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let state = match request.uri().path() {
            "/livez" => self.live().await,
            "/readyz" => self.probe.ready().map_err(str::to_owned),
            "/metrics" => return self.scraped(),
            _ => return text(StatusCode::NOT_FOUND, "there are /livez, /readyz and /metrics\n"),
        };
        match state {
            Ok(()) => text(StatusCode::OK, "ok\n"),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
        }
    }

    fn scraped(&self) -> Response<Full<Bytes>> {
        match metrics::scraped(&self.probe) {
            Ok((kind, metrics)) => {
                let mut scraped = text(StatusCode::OK, &metrics);
                scraped.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                scraped
            }
            Err(why) => text(StatusCode::NOT_FOUND, why),
        }
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_owned()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn serve(listener: TcpListener, asked: Asked) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a probe");
                tokio::time::sleep(LOOK).await; // out of file descriptors: others must close theirs first
                continue;
            }
        };
        let asked = asked.clone();
        let service = service_fn(move |request| {
            let asked = asked.clone();
            async move { Ok::<_, Infallible>(asked.answer(&request).await) }
        });
        let mut connection = http1::Builder::new();
        connection.timer(TokioTimer::new()).header_read_timeout(SLOWEST_REQUEST).keep_alive(false);
        let connection = connection.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(SLOWEST_REQUEST * 3, connection).await;
            drop(place);
        });
    }
}

/// Tells systemd when the process is ready, and then, as often as it wants, that it is live.
async fn notify(asked: Asked, watchdog: Option<Duration>) {
    let (mut told, mut fed) = (false, Instant::now());
    loop {
        if !told && asked.probe.ready().is_ok() {
            told = true;
            tell(NotifyState::Ready);
        }
        match watchdog {
            // A third, so that one that comes late is no death.
            Some(limit) if fed.elapsed() >= limit / 3 => {
                fed = Instant::now();
                match asked.live().await {
                    Ok(()) => tell(NotifyState::Watchdog),
                    Err(why) => tracing::error!(why, "not live; the watchdog is not fed"),
                }
            }
            None if told => return,
            _ => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}
