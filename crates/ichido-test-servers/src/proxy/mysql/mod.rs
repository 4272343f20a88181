//! What passes between a client and MySQL or MariaDB, as far as a cut needs
//! it: which frame runs which statement, and which frame is a COMMIT's answer. The session
//! that `connection` feeds, frame by frame, after the server's greeting.

mod frame;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::protocol::{self, Fate};
use super::switches::Gate;
use frame::Frame;

const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;
const STMT_PREPARE: u8 = 0x16;
const STMT_EXECUTE: u8 = 0x17;
const STMT_SEND_LONG_DATA: u8 = 0x18;
const STMT_CLOSE: u8 = 0x19;

/// Stands for the statement prepared last, whose number the client need not know yet.
const LATEST: u32 = u32::MAX;

/// What is remembered of one connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The commands whose answers have not begun, in the order of both.
    unanswered: VecDeque<Command>,
    /// Whether the last command goes on in the client's next frame.
    unfinished: bool,
    /// Whether the client is not to hear the answer to the next command.
    silent: bool,
    /// The prepared statements, by number.
    prepared: HashMap<u32, Arc<[u8]>>,
    latest: Option<Arc<[u8]>>,
}

#[derive(Debug)]
struct Command {
    /// Of its last frame so far; the answer goes on counting.
    sequence: u8,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Any,
    /// The number of the new statement.
    Prepared {
        text: Arc<[u8]>,
    },
    Silent,
}

impl protocol::Session for Session {
    type Frame = Frame;

    async fn open(client: &mut TcpStream, upstream: SocketAddr, gate: &Gate) -> io::Result<TcpStream> {
        // Before the server is reached too: it gives a silent client ten seconds.
        gate.pass().await;
        let mut server = TcpStream::connect(upstream).await?;
        let mut greeting = Frame::read(&mut server).await?;
        greeting.withdraw_offers();
        gate.pass().await;
        client.write_all(greeting.as_ref()).await?;
        Ok(server)
    }

    async fn read(from: &mut (impl AsyncRead + Unpin + Send)) -> io::Result<Frame> {
        Frame::read(from).await
    }

    fn runs(&mut self, frame: &Frame) -> Option<Arc<[u8]>> {
        match command(frame)? {
            (QUERY, text) => Some(text.into()),
            (STMT_EXECUTE, rest) => match number(rest)? {
                LATEST => self.latest.clone(),
                statement => self.prepared.get(&statement).cloned(),
            },
            _ => None,
        }
    }

    fn silence(&mut self) {
        self.silent = true;
    }

    fn asks(&mut self, frame: &Frame) -> bool {
        if let Some(unfinished) = self.unanswered.back_mut().filter(|_| self.unfinished) {
            unfinished.sequence = frame.sequence();
        } else {
            let Some(answer) = self.answer_to(frame) else {
                return false;
            };
            self.unanswered.push_back(Command { sequence: frame.sequence(), answer });
        }
        self.unfinished = frame.is_full();
        !self.unfinished
    }

    fn hears(&mut self, frame: &Frame) -> Fate {
        // The other frames of an answer count on from its first. After 255 they come
        // by its number again; a client that waits for the end has asked nothing new then.
        let begins = |command: &mut Command| frame.sequence() == command.sequence.wrapping_add(1);
        match self.unanswered.pop_front_if(begins).map(|command| command.answer) {
            Some(Answer::Silent) => return Fate::End,
            Some(Answer::Prepared { text }) => self.was_prepared(frame, text),
            Some(Answer::Any) | None => {}
        }
        Fate::Forward
    }
}

impl Session {
    fn answer_to(&mut self, frame: &Frame) -> Option<Answer> {
        match command(frame)? {
            // These are never answered.
            (QUIT | STMT_SEND_LONG_DATA | STMT_CLOSE, _) => None,
            _ if mem::take(&mut self.silent) => Some(Answer::Silent),
            (STMT_PREPARE, text) => {
                let text: Arc<[u8]> = text.into();
                self.latest = Some(Arc::clone(&text));
                Some(Answer::Prepared { text })
            }
            _ => Some(Answer::Any),
        }
    }

    fn was_prepared(&mut self, frame: &Frame, text: Arc<[u8]>) {
        let Some((0, rest)) = frame.body() else {
            return;
        };
        if let Some(statement) = number(rest) {
            self.prepared.insert(statement, text);
        }
    }
}

/// What a client's frame asks for, if it begins a command: all others, such as
/// those of the log-in, count on from a frame of the server.
fn command(frame: &Frame) -> Option<(u8, &[u8])> {
    frame.body().filter(|_| frame.sequence() == 0)
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::protocol::Session as _;
    use super::*;

    /// Sends a command, and says what it runs.
    fn send(session: &mut Session, kind: u8, rest: &[u8]) -> Option<Arc<[u8]>> {
        let frame = Frame::of(0, &[&[kind], rest].concat());
        let runs = session.runs(&frame);
        session.asks(&frame);
        runs
    }

    fn bytes(text: &str) -> Arc<[u8]> {
        text.as_bytes().into()
    }

    #[test]
    fn a_statement_is_a_query_not_what_else_looks_like_it() {
        let mut session = Session::default();
        assert_eq!(send(&mut session, QUERY, b" \n commit"), Some(bytes(" \n commit")));
        assert_eq!(send(&mut session, STMT_SEND_LONG_DATA, b"commit"), None);
        assert_eq!(session.runs(&Frame::of(1, b"\x03commit")), None);
        assert_eq!(session.runs(&Frame::of(0, b"")), None);
    }

    #[test]
    fn a_prepared_statement_runs_when_it_is_executed() {
        let mut session = Session::default();
        for statement in ["commit", "select 1", "COMMIT"] {
            assert_eq!(send(&mut session, STMT_PREPARE, statement.as_bytes()), None);
            assert_eq!(send(&mut session, STMT_EXECUTE, &LATEST.to_le_bytes()), Some(bytes(statement)));
            assert_eq!(session.hears(&Frame::of(1, b"\0\x07\0\0\0rest")), Fate::Forward);
            assert_eq!(session.hears(&Frame::of(1, b"\0")), Fate::Forward);
            assert_eq!(send(&mut session, STMT_EXECUTE, b"\x07\0\0\0rest"), Some(bytes(statement)));
            assert_eq!(session.hears(&Frame::of(1, b"\0")), Fate::Forward);
            assert_eq!(send(&mut session, STMT_EXECUTE, b"\x08\0\0\0rest"), None);
            assert_eq!(session.hears(&Frame::of(1, b"\xff")), Fate::Forward);
        }
    }

    #[test]
    fn the_end_is_the_answer_of_the_commit_after_all_earlier_ones() {
        let mut session = Session::default();
        send(&mut session, QUERY, b"select 1");
        send(&mut session, STMT_CLOSE, b"\x07\0\0\0");
        session.silence();
        send(&mut session, QUERY, b"commit");
        let fates = [1, 2, 3, 4, 1].map(|sequence| session.hears(&Frame::of(sequence, b"\0")));
        assert_eq!(fates[..4], [Fate::Forward; 4]);
        assert_eq!(fates[4], Fate::End);
    }

    #[test]
    fn a_command_of_several_frames_has_one_answer() {
        let mut session = Session::default();
        let long = vec![QUERY; 0xff_ffff];
        assert!(!session.asks(&Frame::of(0, &long)));
        assert!(!session.asks(&Frame::of(1, &long)));
        assert!(session.asks(&Frame::of(2, b"end")));
        session.silence();
        send(&mut session, QUERY, b"commit");
        assert_eq!(session.hears(&Frame::of(3, b"\0")), Fate::Forward);
        assert_eq!(session.hears(&Frame::of(1, b"\0")), Fate::End);
    }

    #[test]
    fn the_frames_of_the_log_in_are_no_commands() {
        let mut session = Session::default();
        assert!(!session.asks(&Frame::of(1, b"\x03commit")));
        session.silence();
        send(&mut session, QUERY, b"commit");
        assert_eq!(session.hears(&Frame::of(2, b"\0")), Fate::Forward);
        assert_eq!(session.hears(&Frame::of(1, b"\0")), Fate::End);
    }
}
