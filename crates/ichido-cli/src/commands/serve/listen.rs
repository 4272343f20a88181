//! Accepts the console's connections, in the clear or by TLS, and answers them by its router. Whoever connects often, asks slowly or never ends a
//! handshake does not hold up the others.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use axum::{Router, extract::Request};
use hyper::{HeaderMap, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ichido::CancellationToken;
use ichido_console::access::Peer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::connections::Connections;
use crate::{failure::Failure, tls::Acceptor};

/// The head of a request must be there by then, and a handshake.
const SLOWEST_HEAD: Duration = Duration::from_secs(10);

/// So many connections are open at a time: past it, the oldest of whoever has the most is ended.
const MOST_CONNECTIONS: usize = 256;

/// The head of a request has at most so many bytes and headers.
const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// What is being answered when the process ends has so much time left.
const GRACE: Duration = Duration::from_secs(5);

/// After an error: others must close their files first.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Listener {
    bound: TcpListener,
    tls: Option<Acceptor>,
    behind_proxy: bool,
}

impl Listener {
    pub(super) async fn bind(address: SocketAddr, tls: Option<Acceptor>, behind_proxy: bool) -> Result<Self, Failure> {
        let refused = |error| Failure::usage(format!("serve.listen: cannot listen at {address}: {error}"));
        Ok(Listener { bound: TcpListener::bind(address).await.map_err(refused)?, tls, behind_proxy })
    }

    pub(super) fn address(&self) -> Result<SocketAddr, Failure> {
        Ok(self.bound.local_addr()?)
    }

    /// Until it is told to stop.
    pub(super) async fn serve(self, router: Router, stop: CancellationToken) {
        let (connections, mut open) = (Connections::default(), JoinSet::new());
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&self.bound) => accepted,
            };
            while open.try_join_next().is_some() {}
            let Some((stream, peer)) = accepted else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let place = connections.enter(peer, MOST_CONNECTIONS);
            let one = Connection { router: router.clone(), peer, behind_proxy: self.behind_proxy, stop: stop.clone() };
            let answering = one.over(stream, self.tls.clone());
            open.spawn(async move {
                tokio::select! {
                    () = place.lost.cancelled() => tracing::debug!(%peer, "too many connections: ended the oldest"),
                    () = answering => {}
                }
            });
        }
        let ended = async { while open.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, ended).await;
    }
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, IpAddr)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Answers are small: they must not wait for more.
            let _ = stream.set_nodelay(true);
            Some((stream, peer.ip()))
        }
        Err(error) => {
            tracing::debug!(%error, "cannot accept a connection");
            None
        }
    }
}

struct Connection {
    router: Router,
    peer: IpAddr,
    behind_proxy: bool,
    stop: CancellationToken,
}

impl Connection {
    /// In the clear, or after a handshake, which has a time limit.
    async fn over(self, stream: TcpStream, tls: Option<Acceptor>) {
        let Some(tls) = tls else { return self.answer(stream).await };
        if let Ok(Ok(stream)) = tokio::time::timeout(SLOWEST_HEAD, tls.accept(stream)).await {
            self.answer(stream).await;
        }
    }

    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let Connection { router, peer, behind_proxy, stop } = self;
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(axum::body::Body::new);
            let peer = if behind_proxy { forwarded(request.headers()).unwrap_or(peer) } else { peer };
            request.extensions_mut().insert(Peer(peer));
            let mut router = router.clone();
            async move { tower_service::Service::call(&mut router, request).await }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(SLOWEST_HEAD);
        http.max_buf_size(LONGEST_HEAD).max_headers(MOST_HEADERS);
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => {}
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

/// Who asks, as the proxy next to us says: it is the last one in the list that has added to it.
fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all("x-forwarded-for").into_iter().next_back()?.to_str().ok()?;
    last.rsplit(',').next()?.trim().parse().ok()
}
