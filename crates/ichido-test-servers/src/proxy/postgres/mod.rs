//! What passes between a client and PostgreSQL, as far as a cut needs it:
//! which frame runs a COMMIT, and which `ReadyForQuery` is its answer. The
//! session that `connection` feeds, frame by frame, after the startup packet.

mod frame;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::protocol::{self, Fate, is_commit};
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
    /// The prepared statements that are COMMITs.
    commits: HashSet<Vec<u8>>,
}

impl Default for Session {
    /// After the startup packet, which is answered by a `ReadyForQuery` too.
    fn default() -> Self {
        Self { asked: 1, ready: 0, silent_from: u64::MAX, commits: HashSet::new() }
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
    fn runs_commit(&mut self, frame: &Frame) -> bool {
        let mut fields = frame.body().split(|byte| *byte == 0);
        let mut field = || fields.next().unwrap_or_default();
        match frame.kind() {
            b'Q' => is_commit(field()),
            b'P' => {
                let name = field().to_owned();
                if is_commit(field()) {
                    self.commits.insert(name);
                } else {
                    self.commits.remove(&name);
                }
                false
            }
            b'B' => {
                let _portal = field();
                self.commits.contains(field())
            }
            _ => false,
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
    fn a_prepared_commit_runs_with_its_bind() {
        let mut client = Session::default();
        let mut runs = |kind, body: &[u8]| client.runs_commit(&Frame::of(kind, body));
        assert!(!runs(b'P', b"s1\0commit\0\0\0"));
        assert!(!runs(b'P', b"\0select 1\0\0\0"));
        assert!(!runs(b'B', b"\0\0\0\0"));
        assert!(runs(b'B', b"portal\0s1\0\0\0"));
        assert!(runs(b'B', b"\0s1\0\0\0"));
        assert!(!runs(b'P', b"s1\0select 1\0\0\0"));
        assert!(!runs(b'B', b"\0s1\0\0\0"));
        assert!(!runs(b'd', b"commit\0"));
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
