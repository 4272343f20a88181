//! What passes between a client and PostgreSQL, as far as a cut needs it:
//! which frame runs which statement, and which `ReadyForQuery` is a COMMIT's answer. The
//! session that `connection` feeds, frame by frame, after the startup packet.

mod frame;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::protocol::{self, Fate};
use super::switches::Gate;
use frame::Frame;

/// What is remembered of one connection.
#[derive(Debug)]
pub(super) struct Session {
    /// How many frames so far are answered by a `ReadyForQuery`.
    asked: u64,
    /// How many `ReadyForQuery` the client has got.
    ready: u64,
    /// After so many `ReadyForQuery`, the client hears nothing any more.
    silent_from: u64,
    /// The prepared statements, by name.
    prepared: HashMap<Vec<u8>, Arc<[u8]>>,
}

impl Default for Session {
    /// After the startup packet, which is answered by a `ReadyForQuery` too.
    fn default() -> Self {
        Self { asked: 1, ready: 0, silent_from: u64::MAX, prepared: HashMap::new() }
    }
}

impl protocol::Session for Session {
    type Frame = Frame;

    async fn open(client: &mut TcpStream, upstream: SocketAddr, gate: &Gate) -> io::Result<TcpStream> {
        let startup = startup(client, gate).await?;
        let mut server = TcpStream::connect(upstream).await?;
        server.write_all(startup.as_ref()).await?;
        Ok(server)
    }

    async fn read(from: &mut (impl AsyncRead + Unpin + Send)) -> io::Result<Frame> {
        Frame::typed(from).await
    }

    /// A statement that was parsed runs with its Bind, which may come a round
    /// trip after its Parse, and many times.
    fn runs(&mut self, frame: &Frame) -> Option<Arc<[u8]>> {
        let mut fields = frame.body().split(|byte| *byte == 0);
        let mut field = || fields.next().unwrap_or_default();
        match frame.kind() {
            b'Q' => Some(field().into()),
            b'P' => {
                let name = field().to_owned();
                self.prepared.insert(name, field().into());
                None
            }
            b'B' => {
                let _portal = field();
                self.prepared.get(field()).cloned()
            }
            _ => None,
        }
    }

    fn silence(&mut self) {
        self.silent_from = self.asked;
    }

    fn asks(&mut self, frame: &Frame) -> bool {
        let asks = matches!(frame.kind(), b'Q' | b'S' | b'F');
        self.asked += u64::from(asks);
        asks
    }

    fn hears(&mut self, frame: &Frame) -> Fate {
        match (self.ready >= self.silent_from, frame.kind() == b'Z') {
            (true, true) => Fate::End,
            (true, false) => Fate::Swallow,
            (false, ready) => {
                self.ready += u64::from(ready);
                Fate::Forward
            }
        }
    }
}

/// The packet that opens a session. Encryption is declined without asking the server.
async fn startup(client: &mut TcpStream, gate: &Gate) -> io::Result<Frame> {
    loop {
        let packet = Frame::startup(client).await?;
        gate.pass().await;
        if !packet.asks_for_encryption() {
            return Ok(packet);
        }
        client.write_all(b"N").await?;
    }
}

#[cfg(test)]
mod tests {
    use super::protocol::Session as _;
    use super::*;

    #[test]
    fn a_prepared_statement_runs_with_its_bind() {
        let mut client = Session::default();
        let mut runs = |kind, body: &[u8]| client.runs(&Frame::of(kind, body));
        let text = |text: &str| Some(text.as_bytes().into());
        assert_eq!(runs(b'Q', b"begin\0"), text("begin"));
        assert_eq!(runs(b'P', b"s1\0commit\0\0\0"), None);
        assert_eq!(runs(b'P', b"\0select 1\0\0\0"), None);
        assert_eq!(runs(b'B', b"\0\0\0\0"), text("select 1"));
        assert_eq!(runs(b'B', b"portal\0s1\0\0\0"), text("commit"));
        assert_eq!(runs(b'B', b"\0s1\0\0\0"), text("commit"));
        assert_eq!(runs(b'P', b"s1\0select 2\0\0\0"), None);
        assert_eq!(runs(b'B', b"\0s1\0\0\0"), text("select 2"));
        assert_eq!(runs(b'd', b"commit\0"), None);
    }

    #[test]
    fn all_is_silent_from_the_answer_of_the_commit_to_its_end() {
        let mut session = Session::default();
        session.silence();
        assert!(session.asks(&Frame::of(b'Q', b"commit\0")));
        let fates = [b'R', b'Z', b'C', b'Z'].map(|kind| session.hears(&Frame::of(kind, b"")));
        assert_eq!(fates, [Fate::Forward, Fate::Forward, Fate::Swallow, Fate::End]);
    }
}
