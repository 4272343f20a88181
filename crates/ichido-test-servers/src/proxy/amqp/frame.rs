//! AMQP 0-9-1 on the wire, as much of it as the proxy needs: where a frame ends,
//! which step of a message it is, and how much of the message follows.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::super::plan::Step;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

/// The last byte of each frame.
const END: u8 = 0xce;

/// The class of methods about messages.
const BASIC: u16 = 60;

/// A frame as it was on the wire: kind, channel, length, payload, and a byte at the end.
pub(super) struct Frame(Vec<u8>);

impl Frame {
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin + Send)) -> io::Result<Self> {
        let mut frame = vec![0; 7];
        from.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([frame[3], frame[4], frame[5], frame[6]]);
        frame.resize(7 + length as usize + 1, 0);
        from.read_exact(&mut frame[7..]).await?;
        Ok(Self(frame))
    }

    /// A question that the broker answers when it has dealt with all that came
    /// before it on the channel: how many deliveries it may send.
    pub(super) fn question(channel: u16) -> Self {
        let [high, low] = channel.to_be_bytes();
        Self(vec![METHOD, high, low, 0, 0, 0, 11, 0, 60, 0, 10, 0, 0, 0, 0, 0, 1, 0, END])
    }

    /// Whether this answers the question.
    pub(super) fn is_answer(&self) -> bool {
        self.basic() == Some(11)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn channel(&self) -> u16 {
        u16::from_be_bytes([self.0[1], self.0[2]])
    }

    /// What a frame of the client is: an acknowledgement may be a reject or a nack too.
    pub(super) fn step_of_client(&self) -> Option<Step> {
        match self.basic()? {
            40 => Some(Step::Publish),
            80 | 90 | 120 => Some(Step::Ack),
            _ => None,
        }
    }

    /// What a frame of the broker is: a confirm may be a nack too.
    pub(super) fn step_of_broker(&self) -> Option<Step> {
        match self.basic()? {
            60 => Some(Step::Deliver),
            80 | 120 => Some(Step::Confirm),
            _ => None,
        }
    }

    /// How many bytes of body follow a header.
    pub(super) fn announces(&self) -> Option<u64> {
        let size = self.payload().get(4..12)?.try_into().ok()?;
        (self.0[0] == HEADER).then_some(u64::from_be_bytes(size))
    }

    /// How many bytes of body this is.
    pub(super) fn carries(&self) -> Option<u64> {
        (self.0[0] == BODY).then_some(self.payload().len() as u64)
    }

    fn basic(&self) -> Option<u16> {
        let number = |at: usize| Some(u16::from_be_bytes(self.payload().get(at..at + 2)?.try_into().ok()?));
        if self.0[0] != METHOD || number(0)? != BASIC {
            return None;
        }
        number(2)
    }

    fn payload(&self) -> &[u8] {
        &self.0[7..self.0.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(kind: u8, payload: &[u8]) -> Frame {
        let mut wire = vec![kind, 0, 5];
        wire.extend(u32::try_from(payload.len()).expect("short").to_be_bytes());
        wire.extend(payload);
        wire.extend([END, 1, 2, 3]);
        let mut from = wire.as_slice();
        let frame = Frame::read(&mut from).await.expect("a frame");
        assert_eq!((frame.bytes(), from, frame.channel()), (&wire[..wire.len() - 3], &[1, 2, 3][..], 5));
        frame
    }

    #[tokio::test]
    async fn the_same_method_means_another_step_from_the_other_side() {
        let ack = read(METHOD, &[0, 60, 0, 80, 0, 0]).await;
        assert_eq!((ack.step_of_client(), ack.step_of_broker()), (Some(Step::Ack), Some(Step::Confirm)));
        let publish = read(METHOD, &[0, 60, 0, 40]).await;
        assert_eq!((publish.step_of_client(), publish.step_of_broker()), (Some(Step::Publish), None));
        let declare = read(METHOD, &[0, 50, 0, 40]).await;
        assert_eq!((declare.step_of_client(), declare.step_of_broker()), (None, None));
        let body = read(BODY, &[0, 60, 0, 40]).await;
        assert_eq!((body.step_of_client(), body.carries(), body.announces()), (None, Some(4), None));
    }

    #[tokio::test]
    async fn a_header_announces_its_body() {
        let header = read(HEADER, &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0]).await;
        assert_eq!((header.announces(), header.carries()), (Some(258), None));
    }
}
