//! A small HTTP server for tests: keeps what it is sent, and answers as the test says.

#![allow(unreachable_pub, reason = "a part of the tests' world")]

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// What was posted.
#[derive(Debug, Clone)]
pub struct Post {
    /// The request line and the headers, in small letters.
    pub head: String,
    pub body: serde_json::Value,
    /// The body as it came.
    pub text: String,
}

/// Where it listens, and what came.
#[derive(Clone)]
pub struct Server {
    pub port: u16,
    posts: Arc<Mutex<Vec<Post>>>,
}

/// What is answered to the nth post, beginning with 0; an empty answer: nothing, for ever.
type Answer = Arc<dyn Fn(usize) -> String + Send + Sync>;

/// A status with headers (each ending in `\r\n`) and a body.
pub fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// The certificate in `tests/suite/tls`, which is for `localhost`; whoever should trust it gets this as `SSL_CERT_FILE`.
pub const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/tls/cert.pem");

/// Takes connections with that certificate.
pub fn acceptor() -> TlsAcceptor {
    let cert = CertificateDer::from_pem_slice(include_bytes!("../tls/cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../tls/key.pem")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

impl Server {
    pub async fn start(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        Server::listen(Arc::new(answer), None).await
    }

    /// The same with TLS, with the certificate in `tests/suite/tls`.
    pub async fn start_tls(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        Server::listen(Arc::new(answer), Some(acceptor())).await
    }

    async fn listen(answer: Answer, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let server = Server { port: listener.local_addr().unwrap().port(), posts: Arc::default() };
        let own = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (own, tls, answer) = (own.clone(), tls.clone(), answer.clone());
                tokio::spawn(async move {
                    match tls {
                        None => own.serve(stream, answer).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => own.serve(stream, answer).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        server
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin, answer: Answer) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let post = read(&mut stream).await?;
            let at = {
                let mut posts = self.posts.lock().unwrap();
                posts.push(post);
                posts.len() - 1
            };
            match answer(at) {
                silence if silence.is_empty() => std::future::pending().await,
                text => stream.write_all(text.as_bytes()).await.ok()?,
            }
            stream.flush().await.ok()?;
        }
    }

    /// What was posted so far.
    pub fn posts(&self) -> Vec<Post> {
        self.posts.lock().unwrap().clone()
    }
}

async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Post> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8(body).unwrap();
    Some(Post { head, body: serde_json::from_str(&text).unwrap(), text })
}
