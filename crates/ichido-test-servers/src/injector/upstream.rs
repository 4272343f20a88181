//! The server behind an injector: asked over one connection per client connection, which is opened anew when it has ended.

use std::io;
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Request, Response, http};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

type Body = Full<Bytes>;

#[derive(Debug)]
pub(super) struct Upstream {
    address: SocketAddr,
    connection: Mutex<Option<SendRequest<Body>>>,
}

impl Upstream {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, connection: Mutex::new(None) }
    }

    /// Sends a request with this head and this body, and returns the whole answer.
    pub(super) async fn ask(&self, head: &http::request::Parts, body: Bytes) -> io::Result<Response<Bytes>> {
        let mut connection = self.connection.lock().await;
        let mut sender = match connection.take() {
            Some(sender) if sender.is_ready() => sender,
            _ => self.connect().await?,
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        // The body may be another one than the client's, so its length is counted anew.
        request.headers_mut().remove("content-length");
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.address.to_string().parse().expect("an address"));
        }
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        *connection = Some(sender);
        Ok(Response::from_parts(head, body))
    }

    async fn connect(&self) -> io::Result<SendRequest<Body>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
