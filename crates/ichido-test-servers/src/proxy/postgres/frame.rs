//! The frames of PostgreSQL. Knows lengths, not meanings: those are with the
//! session beside this file.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// One frame as it was on the wire.
#[derive(Debug)]
pub(in crate::proxy) struct Frame(Vec<u8>);

impl Frame {
    /// Reads a packet without a type byte, with which a client begins.
    pub(super) async fn startup(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        Self::rest(from, Vec::new()).await
    }

    /// Reads a frame with a type byte, as all others are.
    pub(super) async fn typed(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let kind = from.read_u8().await?;
        Self::rest(from, vec![kind]).await
    }

    async fn rest(from: &mut (impl AsyncRead + Unpin), mut frame: Vec<u8>) -> io::Result<Self> {
        let length = from.read_u32().await?;
        frame.extend_from_slice(&length.to_be_bytes());
        let Some(rest) = length.checked_sub(4) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let start = frame.len();
        frame.resize(start + rest as usize, 0);
        from.read_exact(&mut frame[start..]).await?;
        Ok(Self(frame))
    }

    /// The type byte of a typed frame.
    pub(super) fn kind(&self) -> u8 {
        self.0[0]
    }

    /// What follows the length of a typed frame.
    pub(super) fn body(&self) -> &[u8] {
        &self.0[5..]
    }

    /// Whether a startup packet asks for encryption (SSL or GSS) before the startup proper.
    pub(super) fn asks_for_encryption(&self) -> bool {
        let code = |code: u32| self.0[4..] == code.to_be_bytes();
        code(80_877_103) || code(80_877_104)
    }

    #[cfg(test)]
    pub(super) fn of(kind: u8, body: &[u8]) -> Self {
        Self([&[kind, 0, 0, 0, 0], body].concat())
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
