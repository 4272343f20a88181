//! What a program says: each line goes to the log, the end is kept for the reason of a failure. However much it says, and however
//! long its lines are, little memory is used.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{REASON, one_line};

/// A line that is twice as long is logged in pieces of about this size, in bytes.
const LINE: usize = 4096;

/// So much is kept of the end: more than is shown, so that no masked value is shown in part because its beginning is gone.
const KEPT: usize = 16 * REASON;

/// What must not be seen of a text is hidden.
pub(super) trait Hide: Fn(&str) -> String {}

impl<F: Fn(&str) -> String> Hide for F {}

/// The end of what was said.
#[derive(Default)]
pub(super) struct Tail {
    said: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    fn add(&mut self, said: &[u8]) {
        self.said.extend_from_slice(said);
        let over = self.said.len().saturating_sub(KEPT);
        self.said.drain(..over);
        self.is_cut |= over > 0;
    }

    /// On one line; empty if nothing was said.
    pub(super) fn text(&self, hide: &impl Hide) -> String {
        let text = hide(&one_line(&self.said));
        let most = if self.is_cut { REASON.min(text.len() / 2) } else { REASON };
        text[text.ceil_char_boundary(text.len().saturating_sub(most))..].to_owned()
    }
}

/// Reads to the end, calls `log` for each line and keeps the tail.
pub(super) async fn follow(
    source: Option<impl AsyncRead + Unpin>,
    tail: &mut Tail,
    hide: &impl Hide,
    log: impl Fn(&str),
) {
    let Some(mut source) = source else { return };
    let mut line = Vec::new();
    let mut chunk = [0; LINE];
    while let Ok(count @ 1..) = source.read(&mut chunk).await {
        tail.add(&chunk[..count]);
        for part in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            while line.len() >= 2 * LINE {
                let rest = line.split_off(piece(&line, hide));
                tell(&std::mem::replace(&mut line, rest), hide, &log);
            }
            if part.ends_with(b"\n") {
                tell(&std::mem::take(&mut line), hide, &log);
            }
        }
    }
    tell(&line, hide, &log);
}

/// Where a long line can be cut without cutting a masked value in two, which nobody would find any more. One that is longer
/// than all this is masked where it begins.
fn piece(line: &[u8], hide: &impl Hide) -> usize {
    let shown = |part: &[u8]| hide(&one_line(part));
    let said = one_line(line);
    let whole = hide(&said);
    if whole == said {
        return LINE;
    }
    let mut places = (LINE..line.len()).step_by(LINE / 64);
    let uncut = places.find(|at| {
        let (one, other) = (shown(&line[..*at]), shown(&line[*at..]));
        [format!("{one}{other}"), format!("{one} {other}")].contains(&whole)
    });
    uncut.unwrap_or(line.len())
}

fn tell(line: &[u8], hide: &impl Hide, log: &impl Fn(&str)) {
    let text = hide(&one_line(line));
    if !text.is_empty() {
        log(&text);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const SECRET: &str = "4111 2222 3333 4444";

    async fn followed(said: &[u8]) -> (Vec<String>, String) {
        let hide = |text: &str| text.replace(SECRET, "***");
        let (lines, mut tail) = (RefCell::new(Vec::new()), Tail::default());
        follow(Some(said), &mut tail, &hide, |line| lines.borrow_mut().push(line.to_owned())).await;
        (lines.into_inner(), tail.text(&hide))
    }

    #[tokio::test]
    async fn a_masked_value_is_never_cut_in_two() {
        for before in (LINE - 30..LINE + 30).chain(2 * LINE - 30..2 * LINE + 30) {
            let said = format!("{}{SECRET}{}", "x".repeat(before), "y".repeat(2 * LINE));
            let (lines, _) = followed(said.as_bytes()).await;
            assert_eq!(lines.concat(), said.replace(SECRET, "***"), "{before}");
        }
        for after in REASON - 30..REASON + 30 {
            let (_, tail) = followed(format!("{SECRET}{}", "z".repeat(after)).as_bytes()).await;
            assert!(tail.len() <= REASON && tail.trim_start_matches('*').bytes().all(|byte| byte == b'z'), "{tail}");
        }
        let (_, tail) = followed(SECRET.repeat(KEPT).as_bytes()).await;
        assert!(tail.bytes().all(|byte| byte == b'*'), "{tail}");
    }

    #[tokio::test]
    async fn words_are_cut_anywhere() {
        let said = "a ".repeat(5 * LINE);
        let (lines, _) = followed(said.as_bytes()).await;
        assert!(lines.len() > 4 && lines.iter().all(|line| line.len() < 2 * LINE), "{}", lines.len());
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
