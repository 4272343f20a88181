//! The seam between the proxy and the protocols it understands: `connection`
//! forwards frames and carries out cuts, a session knows what the frames mean.
//! `postgres` and `mysql` each have one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::net::TcpStream;

use super::switches::Gate;

/// What is remembered of one connection: fed frame by frame, from both sides.
pub(super) trait Session: Default + Send + 'static {
    /// One frame as it was on the wire.
    type Frame: AsRef<[u8]> + Send + Sync;

    /// Connects the client to the server and forwards what comes before the
    /// first frame proper. Sees to it that no COMMIT can hide later, behind
    /// encryption or compression.
    fn open(
        client: &mut TcpStream,
        upstream: SocketAddr,
        gate: &Gate,
    ) -> impl Future<Output = io::Result<TcpStream>> + Send;

    /// Reads a frame, however the network has split or joined them.
    fn read(from: &mut (impl AsyncRead + Unpin + Send)) -> impl Future<Output = io::Result<Self::Frame>> + Send;

    /// The statement that the client's frame runs, if it runs one.
    fn runs(&mut self, frame: &Self::Frame) -> Option<Arc<[u8]>>;

    /// After `runs`, before `asks`: this COMMIT's answer is not for the client.
    fn silence(&mut self);

    /// Takes note of a frame for the server, and says whether it is one that the server answers.
    fn asks(&mut self, frame: &Self::Frame) -> bool;

    /// What is to become of the server's frame.
    fn hears(&mut self, frame: &Self::Frame) -> Fate;
}

/// What becomes of a server's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The client gets it.
    Forward,
    /// The client does not get it.
    Swallow,
    /// The client does not get it, and it was the last: the COMMIT is answered.
    End,
}

/// Whether SQL begins with the word COMMIT.
pub(super) fn is_commit(text: &[u8]) -> bool {
    let (word, rest) = text.trim_ascii_start().split_at_checked(6).unwrap_or_default();
    let ends = |byte: &u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 128..));
    word.eq_ignore_ascii_case(b"COMMIT") && rest.first().is_none_or(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_the_first_word_in_any_case() {
        for text in ["COMMIT", "commit", " \n\tCommit;", "COMMIT AND CHAIN", "commit--x"] {
            assert!(is_commit(text.as_bytes()), "{text}");
        }
        for text in ["", "COMMI", "COMMITTED", "commit_x()", "SELECT 'COMMIT'", "-- COMMIT"] {
            assert!(!is_commit(text.as_bytes()), "{text}");
        }
    }
}
