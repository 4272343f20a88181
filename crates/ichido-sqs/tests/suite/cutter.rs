//! A way to SQS that cuts connections at one step of its API, as often as it is told: before the server has acted, or before we learn it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Bytes, body::Incoming, client, server, service::service_fn};
use hyper_util::rt::TokioIo;
use ichido_testkit::fixture::Cut;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::block_in_place,
};

type Answer = Result<Response<Full<Bytes>>, std::io::Error>;

/// A proxy, until it is dropped.
pub(crate) struct Cutter {
    pub(crate) endpoint: String,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    plan: Mutex<Option<Plan>>,
    cuts: AtomicU32,
    refusing: AtomicBool,
    /// Whoever holds a connection of an earlier number ends it.
    severed: watch::Sender<u32>,
}

struct Plan {
    at: Cut,
    every: u32,
    left: u32,
    seen: u32,
}

impl Cutter {
    pub(crate) fn start(upstream: SocketAddr) -> Self {
        let listener = block_in_place(|| std::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            upstream,
            plan: Mutex::default(),
            cuts: AtomicU32::new(0),
            refusing: AtomicBool::new(false),
            severed: watch::Sender::new(0),
        });
        let listener = TcpListener::from_std(listener).expect("a listener");
        tokio::spawn(Arc::clone(&shared).serve(listener));
        Cutter { endpoint, shared }
    }

    pub(crate) fn cut(&self, at: Cut, every: u32, times: u32) {
        *self.shared.plan.lock().unwrap() = Some(Plan { at, every, left: times, seen: 0 });
        self.shared.cuts.store(0, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    pub(crate) fn sever(&self) {
        self.shared.severed.send_modify(|number| *number += 1);
    }

    pub(crate) fn refuse(&self) {
        self.shared.refusing.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            if self.refusing.load(Ordering::SeqCst) {
                continue;
            }
            let (shared, mut severed) = (Arc::clone(&self), self.severed.subscribe());
            severed.mark_unchanged();
            tokio::spawn(async move {
                let service = service_fn(move |request| Arc::clone(&shared).answer(request));
                tokio::select! {
                    _ = server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service) => {}
                    _ = severed.changed() => {}
                }
            });
        }
    }

    /// An error ends the connection without a word.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let action = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        let action = action.rsplit('.').next().unwrap_or_default().to_owned();
        let cut = |at: &[Cut]| if self.is_cut(at) { Err(std::io::Error::other("cut")) } else { Ok(()) };
        match action.as_str() {
            "SendMessageBatch" => cut(&[Cut::BeforePublish])?,
            "DeleteMessageBatch" => cut(&[Cut::BeforeAck])?,
            _ => {}
        }
        let answer = self.ask(request).await.map_err(std::io::Error::other)?;
        match action.as_str() {
            "SendMessageBatch" => cut(&[Cut::AfterPublish, Cut::BeforeConfirm, Cut::AfterConfirm])?,
            "DeleteMessageBatch" => cut(&[Cut::AfterAck])?,
            "ReceiveMessage" => cut(&[Cut::BeforeDeliver, Cut::AfterDeliver])?,
            _ => {}
        }
        Ok(answer)
    }

    fn is_cut(&self, at: &[Cut]) -> bool {
        let mut plan = self.plan.lock().unwrap();
        let Some(plan) = plan.as_mut().filter(|plan| plan.left > 0 && at.contains(&plan.at)) else { return false };
        plan.seen += 1;
        if plan.seen % plan.every != 0 {
            return false;
        }
        plan.left -= 1;
        self.cuts.fetch_add(1, Ordering::SeqCst);
        true
    }

    async fn ask(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
        let (head, body) = request.into_parts();
        let body = Full::new(body.collect().await?.to_bytes());
        let stream = TcpStream::connect(self.upstream).await?;
        let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (head, body) = sender.send_request(Request::from_parts(head, body)).await?.into_parts();
        Ok(Response::from_parts(head, Full::new(body.collect().await?.to_bytes())))
    }
}
