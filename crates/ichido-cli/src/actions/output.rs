//! What a program says: each line goes to the log, the end is kept for the reason of a failure. However much it says, and however
//! long its lines are, little memory is used.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{REASON, one_line};

/// A longer line is logged in pieces, in bytes.
const LINE: usize = 4096;

/// The end of what was said.
#[derive(Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    fn add(&mut self, said: &[u8]) {
        self.0.extend_from_slice(said);
        let over = self.0.len().saturating_sub(REASON);
        self.0.drain(..over);
    }

    /// On one line; empty if nothing was said.
    pub(super) fn text(&self) -> String {
        one_line(&self.0)
    }
}

/// Reads to the end, calls `log` for each line and keeps the tail.
pub(super) async fn follow(source: Option<impl AsyncRead + Unpin>, tail: &mut Tail, log: impl Fn(&str)) {
    let Some(mut source) = source else { return };
    let mut line = Vec::new();
    let mut chunk = [0; LINE];
    while let Ok(count @ 1..) = source.read(&mut chunk).await {
        tail.add(&chunk[..count]);
        for part in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") || line.len() >= LINE {
                tell(&mut line, &log);
            }
        }
    }
    tell(&mut line, &log);
}

fn tell(line: &mut Vec<u8>, log: &impl Fn(&str)) {
    let text = one_line(line);
    if !text.is_empty() {
        log(&text);
    }
    line.clear();
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    async fn followed(said: &[u8]) -> (Vec<String>, String) {
        let (lines, mut tail) = (RefCell::new(Vec::new()), Tail::default());
        follow(Some(said), &mut tail, |line| lines.borrow_mut().push(line.to_owned())).await;
        (lines.into_inner(), tail.text())
    }

    #[tokio::test]
    async fn lines_are_told_apart_and_cleaned() {
        let (lines, tail) = followed(b"one\n\n\x1b[31mtwo\x07\r\n\xff three").await;
        assert_eq!(lines, ["one", "[31mtwo", "\u{fffd} three"]);
        assert_eq!(tail, "one [31mtwo \u{fffd} three");
    }

    #[tokio::test]
    async fn an_endless_line_is_told_in_pieces_and_only_its_end_is_kept() {
        let (lines, tail) = followed(format!("{}end", "x".repeat(10 * LINE)).as_bytes()).await;
        assert_eq!(lines.iter().map(String::len).sum::<usize>(), 10 * LINE + 3);
        assert!(lines.iter().all(|line| line.len() < 2 * LINE), "{:?}", lines.iter().map(String::len).max());
        assert!(tail.len() == REASON && tail.ends_with("xend"), "{tail}");
    }
}
