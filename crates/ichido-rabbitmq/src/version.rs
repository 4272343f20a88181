//! Which RabbitMQ answers. What a server can do follows from its version, not from what it accepts: RabbitMQ takes arguments
//! that it does not know, and ignores them. lapin keeps the server's properties to itself, so this reads the first frame of a
//! connection of its own, in which the server introduces itself.

use std::{fmt, io};

use lapin::{tcp::OwnedTLSConfig, uri::AMQPUri};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{Error, Result, Server, stream};

/// What every AMQP 0-9-1 client says first.
const GREETING: &[u8] = b"AMQP\0\0\x09\x01";

/// Far more than any server says about itself.
const LONGEST: usize = 64 * 1024;

/// A version of RabbitMQ, of which the patch does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 3 of 3.10.8.
    pub major: u16,
    /// 10 of 3.10.8.
    pub minor: u16,
}

impl Version {
    pub(crate) const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Server {
    /// The version of the node that answers first.
    ///
    /// # Errors
    /// If none answers, or it is not RabbitMQ.
    pub async fn version(&self) -> Result<Version> {
        let start = self.in_turn(|uri| introduction(uri, self.tls())).await?;
        let product = property(&start, "product").unwrap_or_default();
        let version = property(&start, "version").and_then(parse);
        version.filter(|_| product == "RabbitMQ").ok_or_else(|| {
            let address = self.addresses();
            Error::Setup(format!("the server at {address} is not RabbitMQ: it identifies itself as {product:?}"))
        })
    }
}

async fn introduction(uri: AMQPUri, tls: &OwnedTLSConfig) -> lapin::Result<Vec<u8>> {
    let mut stream = stream::open(&uri, tls).await?;
    stream.write_all(GREETING).await?;
    let mut start = Vec::new();
    while !is_whole(&start) {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await?;
        if read == 0 || start.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not an AMQP 0-9-1 server").into());
        }
        start.extend_from_slice(&part[..read]);
    }
    Ok(start)
}

/// A frame: kind, channel, length of what follows, and a byte at the end.
fn is_whole(frame: &[u8]) -> bool {
    let length = frame.get(3..7).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    length.is_some_and(|length| frame.len() >= length as usize + 8)
}

/// A property that is a text: its name, `S`, its length, itself.
fn property<'a>(start: &'a [u8], name: &str) -> Option<&'a str> {
    let mut key = vec![u8::try_from(name.len()).ok()?];
    key.extend_from_slice(name.as_bytes());
    key.push(b'S');
    let at = start.windows(key.len()).position(|window| window == key)? + key.len();
    let length = u32::from_be_bytes(start.get(at..at + 4)?.try_into().ok()?);
    str::from_utf8(start.get(at + 4..)?.get(..length as usize)?).ok()
}

fn parse(version: &str) -> Option<Version> {
    let mut parts = version.split(['.', '-', '+']);
    Some(Version { major: parts.next()?.parse().ok()?, minor: parts.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_its_first_two_numbers() {
        for (text, expected) in [("3.10.8", (3, 10)), ("4.1.0-beta.2", (4, 1)), ("4.3", (4, 3))] {
            assert_eq!(parse(text), Some(Version::new(expected.0, expected.1)), "{text}");
        }
        assert_eq!(parse("unknown"), None);
        assert!(Version::new(3, 9) < Version::new(3, 10) && Version::new(3, 13) < Version::new(4, 0));
    }

    #[test]
    fn properties_are_found_in_the_frame() {
        let frame = b"\x07productS\0\0\0\x08RabbitMQ\x07versionS\0\0\0\x063.10.8\xce";
        assert_eq!(property(frame, "product"), Some("RabbitMQ"));
        assert_eq!(property(frame, "version"), Some("3.10.8"));
        assert_eq!(property(frame, "platform"), None);
        assert_eq!(property(b"\x07versionS\0\0\xff\xff3", "version"), None);
    }
}
