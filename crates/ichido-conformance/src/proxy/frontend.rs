//! What a client says to `PostgreSQL`, as far as a cut needs it: which frame
//! runs a COMMIT, and which frames are answered by a `ReadyForQuery`. Fed by
//! `connection`, frame by frame, after the startup packet.

use std::collections::HashSet;

use super::frames::Frame;

/// What is remembered of one client.
#[derive(Debug)]
pub(super) struct Frontend {
    asked: u64,
    prepared: HashSet<Vec<u8>>,
}

impl Frontend {
    /// After the startup packet, which is answered by a `ReadyForQuery` too.
    pub(super) fn started() -> Self {
        Self { asked: 1, prepared: HashSet::new() }
    }

    /// How many frames so far are answered by a `ReadyForQuery`.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// Whether the frame runs a COMMIT. A statement that was parsed runs with
    /// its Bind, which may come a round trip after its Parse, and many times.
    pub(super) fn runs_commit(&mut self, frame: &Frame) -> bool {
        let mut fields = frame.body().split(|byte| *byte == 0);
        let mut field = || fields.next().unwrap_or_default();
        match frame.kind() {
            b'Q' => is_commit(field()),
            b'P' => {
                let name = field().to_owned();
                if is_commit(field()) {
                    self.prepared.insert(name);
                } else {
                    self.prepared.remove(&name);
                }
                false
            }
            b'B' => {
                let _portal = field();
                self.prepared.contains(field())
            }
            _ => false,
        }
    }

    /// Counts the frame if it is answered by a `ReadyForQuery`, and says so.
    pub(super) fn asks(&mut self, frame: &Frame) -> bool {
        let asks = matches!(frame.kind(), b'Q' | b'S' | b'F');
        self.asked += u64::from(asks);
        asks
    }
}

fn is_commit(text: &[u8]) -> bool {
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

    #[test]
    fn a_prepared_commit_runs_with_its_bind() {
        let mut client = Frontend::started();
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
}
