//! A terminal with somebody before it: a pseudo-terminal, what is on its screen, and keys. It understands the few sequences that ichido
//! writes and fails at any other, so that a hostile one cannot pass for text.

#![allow(unreachable_pub, reason = "a part of the tests' world")]

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::Path,
    sync::{Arc, Mutex},
};

use ichido_testkit::{eventually, in_time};
use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use tokio::process::Child;

use super::Env;

/// A terminal in which the binary runs.
pub struct Tty {
    here: File,
    there: File,
    seen: Arc<Mutex<Seen>>,
    child: Child,
}

impl Tty {
    /// Runs the binary in a terminal of this size, which is its controlling one.
    pub fn run(env: &Env, args: &[&str], rows: u16, columns: u16) -> Self {
        let here = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&here).unwrap();
        unlockpt(&here).unwrap();
        let name = ptsname(&here, Vec::new()).unwrap();
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let no_control = OFlags::NOCTTY.bits().cast_signed();
        let there = OpenOptions::new().read(true).write(true).custom_flags(no_control).open(name).unwrap();
        let (here, seen) = (File::from(here), Arc::<Mutex<Seen>>::default());
        let words: Vec<_> = ["--ctty", env!("CARGO_BIN_EXE_ichido")].iter().chain(args).copied().collect();
        let mut command = env.command_of(Path::new("setsid"), &words);
        let end = || there.try_clone().unwrap();
        resize(&here, &seen, rows, columns);
        command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("setsid, of util-linux, is there");
        let (mut from, into) = (here.try_clone().unwrap(), seen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                into.lock().unwrap().write(&bytes[..length]);
            }
        });
        Tty { here, there, seen, child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    pub fn press(&self, keys: &str) {
        (&self.here).write_all(keys.as_bytes()).unwrap();
    }

    /// Another size, of which the program is told by a signal.
    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.here, &self.seen, rows, columns);
    }

    /// The rows of the screen.
    pub fn rows(&self) -> Vec<String> {
        self.seen.lock().unwrap().rows()
    }

    /// How often the whole screen was wiped, and how many frames were drawn.
    pub fn drawn(&self) -> (usize, usize) {
        let seen = self.seen.lock().unwrap();
        (seen.wiped, seen.frames)
    }

    /// Waits until the screen has all of these.
    #[track_caller]
    pub fn until(&self, texts: &[&str]) -> impl Future<Output = ()> {
        eventually(format!("{texts:?} on the screen"), async move || {
            let screen = self.rows().join("\n");
            if texts.iter().all(|text| screen.contains(text)) { Ok(()) } else { Err(format!("\n{screen}\n")) }
        })
    }

    /// Waits for the end of the program; the terminal must be as it was before.
    pub async fn ends(mut self) -> Option<i32> {
        let ended = in_time("it ends", self.child.wait()).await.unwrap();
        let modes = tcgetattr(&self.there).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        let seen = self.seen.clone();
        eventually("the screen is given back", async || {
            let seen = seen.lock().unwrap();
            (!seen.is_other_screen && !seen.is_cursor_hidden && !seen.is_cut).then_some(())
        })
        .await;
        ended.code()
    }
}

fn resize(here: &File, seen: &Mutex<Seen>, rows: u16, columns: u16) {
    let mut seen = seen.lock().unwrap();
    seen.cells = vec![vec![' '; columns.into()]; rows.into()];
    tcsetwinsize(here, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// What a terminal has been told.
#[derive(Default)]
struct Seen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The beginning of a character or of a sequence.
    rest: Vec<u8>,
    is_other_screen: bool,
    is_cursor_hidden: bool,
    /// Lines end at the margin.
    is_cut: bool,
    wiped: usize,
    frames: usize,
}

impl Seen {
    fn rows(&self) -> Vec<String> {
        self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8(self.rest.drain(..whole).collect()).unwrap();
        let mut left = text.as_str();
        while let Some(first) = left.chars().next() {
            let after = &left[first.len_utf8()..];
            if first != '\u{1b}' {
                self.put(first);
                left = after;
                continue;
            }
            let sequence = after.strip_prefix('[').and_then(|rest| Some((rest, rest.find(char::is_alphabetic)?)));
            let Some((sequence, end)) = sequence else {
                assert!(after.is_empty() || after.starts_with('['), "not a sequence of ours: {left:?}");
                self.rest.splice(0..0, left.bytes()); // the rest of it comes later
                return;
            };
            self.obey(&sequence[..=end]);
            left = &sequence[end + 1..];
        }
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' => self.row += 1,
            c => {
                assert!(!c.is_control(), "{c:?} reaches the terminal");
                if let Some(cell) = self.cells.get_mut(self.row).and_then(|row| row.get_mut(self.column)) {
                    *cell = c;
                }
                self.column += 1;
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        match sequence {
            "?1049h" | "?1049l" => self.is_other_screen = sequence.ends_with('h'),
            "?25h" | "?25l" => self.is_cursor_hidden = sequence.ends_with('l'),
            "?7h" | "?7l" => self.is_cut = sequence.ends_with('l'),
            "?2026l" => self.frames += 1,
            "H" => (self.row, self.column) = (0, 0),
            "K" => self.wipe(self.row, self.column, self.row + 1),
            "J" => self.wipe(self.row, self.column, usize::MAX),
            "2J" => {
                self.wiped += 1;
                self.wipe(0, 0, usize::MAX);
            }
            "?2026h" | "0m" | "1m" | "1;7m" => {}
            other => panic!("not a sequence of ours: {other:?}"),
        }
    }

    /// From this cell to the end of its row, and all rows below before this one.
    fn wipe(&mut self, row: usize, column: usize, before: usize) {
        for (at, cells) in self.cells.iter_mut().enumerate().take(before).skip(row) {
            let from = if at == row { column.min(cells.len()) } else { 0 };
            cells[from..].fill(' ');
        }
    }
}
