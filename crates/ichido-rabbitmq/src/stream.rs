//! The connection as the driver gets it: TCP, with TLS or without, and everything that it reads has passed [`Shallow`]. The driver asks its
//! runtime for the type of its streams, so there is a reactor of our own, which is Tokio's but for that type.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_core::Stream;
use futures_io::{AsyncRead, AsyncWrite};
use lapin::{
    Connection, ConnectionProperties,
    tcp::{AMQPUriTcpExt, AsyncTcpStream, OwnedTLSConfig},
    uri::AMQPUri,
};

use crate::shallow::Shallow;

type Inner = AsyncTcpStream<<Tokio as Reactor>::TcpStream>;

/// Connects to a broker.
pub(crate) async fn connect(
    uri: AMQPUri,
    properties: ConnectionProperties,
    tls: OwnedTLSConfig,
) -> lapin::Result<Connection> {
    let runtime = Runtime::new(RuntimeParts::new(Tokio::current(), Streams(Tokio::current())));
    let tokio = Runtime::new(Tokio::current());
    let open = async move |uri: AMQPUri, _| {
        let inner = uri.connect_with_config_async(tls.as_ref(), &tokio).await?;
        Ok(AsyncTcpStream::Plain(ShallowStream { inner, shallow: Shallow::new() }))
    };
    Connection::connector(uri, runtime, open, properties).await
}

/// A stream whose headers are not nested without end.
pub(crate) struct ShallowStream {
    inner: Inner,
    shallow: Shallow,
}

impl AsyncRead for ShallowStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, into);
        if let Poll::Ready(Ok(count)) = read {
            self.shallow.pass(&mut into[..count]);
        }
        read
    }
}

impl AsyncWrite for ShallowStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
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
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
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
        let connecting = self.0.tcp_connect_addr(address);
        async move { Ok(ShallowStream { inner: AsyncTcpStream::Plain(connecting.await?), shallow: Shallow::new() }) }
    }
}
