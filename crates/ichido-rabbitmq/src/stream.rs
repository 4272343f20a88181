//! The connection as the driver gets it: TCP, with TLS or without, and everything that it reads has passed [`Shallow`]. The driver asks its
//! runtime for the type of its streams, so there is a reactor of our own, which is Tokio's but for that type.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_core::Stream;
use lapin::{
    Connection, ConnectionProperties,
    tcp::{AsyncTcpStream, OwnedTLSConfig},
    uri::{AMQPScheme, AMQPUri},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{shallow::Shallow, tls};

/// Bytes in both directions, encrypted or not.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Opens the stream to a broker, with TLS if its URL asks for it.
pub(crate) async fn open(uri: &AMQPUri, tls: &OwnedTLSConfig) -> lapin::Result<Box<dyn Duplex>> {
    let host = uri.authority.host.as_str();
    let tcp = TcpStream::connect((host, uri.authority.port)).await?;
    tcp.set_nodelay(true)?;
    Ok(match uri.scheme {
        AMQPScheme::AMQP => Box::new(tcp),
        AMQPScheme::AMQPS => Box::new(tls::encrypt(tcp, host, tls).await?),
    })
}

/// Connects to a broker.
pub(crate) async fn connect(
    uri: AMQPUri,
    properties: ConnectionProperties,
    tls: OwnedTLSConfig,
) -> lapin::Result<Connection> {
    let runtime = Runtime::new(RuntimeParts::new(Tokio::current(), Streams(Tokio::current())));
    let open = async move |uri: AMQPUri, _| Ok(AsyncTcpStream::Plain(ShallowStream::over(open(&uri, &tls).await?)));
    Connection::connector(uri, runtime, open, properties).await
}

/// A stream whose headers are not nested without end.
pub(crate) struct ShallowStream {
    inner: Box<dyn Duplex>,
    shallow: Shallow,
}

impl ShallowStream {
    fn over(inner: Box<dyn Duplex>) -> Self {
        Self { inner, shallow: Shallow::new() }
    }
}

impl futures_io::AsyncRead for ShallowStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(into);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut read))?;
        let read = read.filled_mut();
        self.shallow.pass(read);
        Poll::Ready(Ok(read.len()))
    }
}

impl futures_io::AsyncWrite for ShallowStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Tokio's reactor with streams of our own.
#[derive(Clone, Debug)]
struct Streams(Tokio);

impl Reactor for Streams {
    type TcpStream = ShallowStream;
    type Sleep = <Tokio as Reactor>::Sleep;

    /// The driver registers none.
    fn register<H: io::Read + io::Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl futures_io::AsyncRead + futures_io::AsyncWrite + Send + Unpin + 'static> {
        Err::<ShallowStream, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, time: Duration) -> Self::Sleep {
        self.0.sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(time)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connecting = TcpStream::connect(address);
        async move { Ok(ShallowStream::over(Box::new(connecting.await?))) }
    }
}
