//! A screen of its own on a terminal: taken over, drawn line by line and given back, also after a panic; and what happens at the
//! terminal meanwhile: keys, another size, signals. What is shown passes `terminal`, as in `output`.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Read, Stdout, Write, stdin, stdout},
    thread,
};

use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::terminal::on_one_line;

/// The other screen, without a cursor and without lines that go on in the next row; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// A frame begins in the corner and overwrites the one before: nothing is wiped, so nothing flickers. Terminals that can, show it at once.
const BEGIN: &str = "\x1b[?2026h\x1b[H";
const END: &str = "\x1b[J\x1b[?2026l";
const END_OF_LINE: &str = "\x1b[0m\x1b[K";

/// Ctrl-C, which is a key like others here.
const INTERRUPT: u8 = 3;
const ESCAPE: u8 = 27;

/// Are people at both ends, and does their terminal understand what is written?
pub(crate) fn is_possible() -> bool {
    let understands = std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
    stdin().is_terminal() && stdout().is_terminal() && understands
}

/// A row of the screen.
pub(crate) struct Line {
    pub(crate) text: String,
    style: &'static str,
}

impl Line {
    pub(crate) fn plain(text: String) -> Self {
        Line { text, style: "" }
    }

    /// In bold.
    pub(crate) fn strong(text: String) -> Self {
        Line { text, style: "\x1b[1m" }
    }

    /// In bold and inverse: what must not be overlooked.
    pub(crate) fn loud(text: String) -> Self {
        Line { text, style: "\x1b[1;7m" }
    }
}

/// Of the terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    columns: usize,
}

/// The terminal, until it is dropped.
pub(crate) struct Screen {
    out: Stdout,
    before: Termios,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut modes = before.clone();
        modes.make_raw();
        // A line of the log that comes between begins at the margin.
        modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
        tcsetattr(stdin(), OptionalActions::Now, &modes)?;
        let screen = Screen { out: stdout(), before };
        screen.write(ENTER)?;
        Ok(screen)
    }

    /// How much there is room for now; a terminal that does not say has the classic size.
    pub(crate) fn size() -> Size {
        match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
                Size { rows: size.ws_row.into(), columns: size.ws_col.into() }
            }
            _ => Size { rows: 24, columns: 80 },
        }
    }

    /// Shows these lines in the place of those before, each cut at the margin.
    pub(crate) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        self.write(&frame(lines, Screen::size()))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Whoever has closed the terminal does not miss it.
        let _ = self.write(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

fn frame(lines: &[Line], size: Size) -> String {
    let mut frame = BEGIN.to_owned();
    for (row, Line { text, style }) in lines.iter().take(size.rows).enumerate() {
        let text: String = on_one_line(text).chars().take(size.columns).collect();
        let _ = write!(frame, "{}{style}{text}{END_OF_LINE}", if row > 0 { "\r\n" } else { "" });
    }
    frame + END
}

/// What happens at the terminal.
pub(crate) enum Event {
    Key(char),
    Resized,
    /// The user wants to go, or a signal says so: the exit code.
    Leave(u8),
}

/// Where events come from.
pub(crate) struct Events {
    keys: mpsc::Receiver<u8>,
    resized: Signal,
    terminated: Signal,
    hung_up: Signal,
    interrupted: Signal,
}

impl Events {
    /// Listens from now on. The thread that reads keys ends with the program.
    pub(crate) fn listen() -> io::Result<Self> {
        let (send, keys) = mpsc::channel(64);
        thread::Builder::new().name("ichido-keys".into()).spawn(move || read_keys(&send))?;
        Ok(Events {
            keys,
            resized: signal(SignalKind::window_change())?,
            terminated: signal(SignalKind::terminate())?,
            hung_up: signal(SignalKind::hangup())?,
            interrupted: signal(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Event {
        tokio::select! {
            key = self.keys.recv() => match key {
                Some(b'q' | b'Q' | INTERRUPT) | None => Event::Leave(0),
                Some(key) => Event::Key(key.into()),
            },
            _ = self.resized.recv() => Event::Resized,
            _ = self.interrupted.recv() => Event::Leave(0),
            _ = self.terminated.recv() => Event::Leave(128 + 15),
            _ = self.hung_up.recv() => Event::Leave(128 + 1),
        }
    }
}

/// Passes on what is typed, until nobody listens or nothing comes any more.
fn read_keys(keys: &mpsc::Sender<u8>) {
    let (mut typed, mut typing) = ([0; 64], Typing::default());
    loop {
        let length = match stdin().lock().read(&mut typed) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut pressed = typed[..length].iter().filter_map(|byte| typing.key(*byte));
        if pressed.any(|key| keys.blocking_send(key).is_err()) {
            return;
        }
    }
}

/// Arrows and function keys come as several bytes, none of which is a key of its own.
#[derive(Default)]
enum Typing {
    #[default]
    Keys,
    /// After an escape.
    Escape,
    /// Up to the letter or the tilde with which it ends.
    Sequence,
}

impl Typing {
    fn key(&mut self, byte: u8) -> Option<u8> {
        let (next, key) = match (&self, byte) {
            (_, ESCAPE) => (Typing::Escape, None),
            (Typing::Sequence, b'@'..=b'~') => (Typing::Keys, None),
            (Typing::Sequence, _) | (Typing::Escape, b'[' | b'O') => (Typing::Sequence, None),
            (Typing::Keys | Typing::Escape, key) => (Typing::Keys, Some(key)),
        };
        *self = next;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_no_more_than_there_is_room_for_and_wipes_nothing() {
        let lines = ["first \u{1b}[2J", "second", "third"].map(|text| Line::plain(text.to_owned()));
        let shown = frame(&lines, Size { rows: 2, columns: 8 });
        assert_eq!(shown, format!("{BEGIN}first \\u{END_OF_LINE}\r\nsecond{END_OF_LINE}{END}"));
    }

    #[test]
    fn an_arrow_is_no_letter() {
        let mut typing = Typing::default();
        let typed = b"s\x1b[A\x1b[15~\x1bOPp\x1bq\x03";
        let keys: Vec<u8> = typed.iter().filter_map(|byte| typing.key(*byte)).collect();
        assert_eq!(keys, b"spq\x03");
    }
}
