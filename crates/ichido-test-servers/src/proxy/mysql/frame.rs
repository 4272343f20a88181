//! The frames of MySQL and MariaDB. Knows lengths and the greeting, not
//! meanings: those are with the session beside this file.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Length in three bytes, and the sequence number.
const HEADER: usize = 4;

/// Behind these, a COMMIT could not be seen: compression (two kinds), TLS, and
/// attributes in front of a query's text.
const HIDING: u32 = 1 << 5 | 1 << 11 | 1 << 26 | 1 << 27;

/// One frame as it was on the wire.
#[derive(Debug)]
pub(in crate::proxy) struct Frame(Vec<u8>);

impl Frame {
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut header = [0; HEADER];
        from.read_exact(&mut header).await?;
        let mut frame = Self(header.to_vec());
        frame.0.resize(HEADER + frame.length(), 0);
        from.read_exact(&mut frame.0[HEADER..]).await?;
        Ok(frame)
    }

    /// Begins with 0 at each command and goes on through its answer, modulo 256.
    pub(super) fn sequence(&self) -> u8 {
        self.0[3]
    }

    /// Whether what it carries goes on in the next frame.
    pub(super) fn is_full(&self) -> bool {
        self.length() == 0xff_ffff
    }

    /// The first byte of the body, which says what it is, and the rest.
    pub(super) fn body(&self) -> Option<(u8, &[u8])> {
        self.0[HEADER..].split_first().map(|(kind, rest)| (*kind, rest))
    }

    /// Takes from a server's greeting the offers behind which a COMMIT could
    /// not be seen. A client that only prefers them does without then.
    pub(super) fn withdraw_offers(&mut self) {
        let Some(offers) = self.offers() else {
            return;
        };
        // The upper half is not next to the lower one.
        for (at, hiding) in [0, 1, 5, 6].into_iter().zip(HIDING.to_le_bytes()) {
            if let Some(byte) = self.0.get_mut(offers + at) {
                *byte &= !hiding;
            }
        }
    }

    /// Where a greeting has its offers: after the protocol's version, the
    /// server's version, which ends with 0, and 13 bytes more.
    fn offers(&self) -> Option<usize> {
        let (10, rest) = self.body()? else {
            return None;
        };
        let version = rest.iter().position(|byte| *byte == 0)?;
        Some(HEADER + 1 + version + 1 + 13)
    }

    fn length(&self) -> usize {
        let length = [self.0[0], self.0[1], self.0[2], 0];
        u32::from_le_bytes(length) as usize
    }

    #[cfg(test)]
    pub(super) fn of(sequence: u8, body: &[u8]) -> Self {
        let length = u32::try_from(body.len()).expect("a short body").to_le_bytes();
        Self([&length[..3], &[sequence], body].concat())
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(low: u16, high: u16) -> Vec<u8> {
        let start = b"\x0a5.5.5-10.11\0THRDscramble\0";
        [start, &low.to_le_bytes()[..], b"\xffST", &high.to_le_bytes()[..], b"rest\xff\xff"].concat()
    }

    #[test]
    fn a_greeting_loses_its_hiding_offers_and_nothing_else() {
        let mut frame = Frame::of(0, &greeting(0xffff, 0xffff));
        frame.withdraw_offers();
        assert_eq!(frame.0[HEADER..], greeting(0xf7df, 0xf3ff));
    }

    #[test]
    fn a_refusal_and_a_stump_stay_as_they_are() {
        for body in [&b"\xff\x10\x04Too many\0 connections, really very many"[..], b"", b"\x0a5", b"\x0a5\0"] {
            let mut frame = Frame::of(0, body);
            frame.withdraw_offers();
            assert_eq!(&frame.0[HEADER..], body);
        }
    }
}
