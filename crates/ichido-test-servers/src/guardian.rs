//! The guardian of a server: a small shell process between the test process
//! and the server, whose only task is that neither the server nor its folder
//! outlives the test process, even one ended by SIGKILL. The servers beside
//! this file give it their commands; `guardian.sh` is the shell's side.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::processes::{has_ended, look_again, plain_environment};
use super::user::User;

/// The folder of one server, and the process that ends the server and removes the folder.
#[derive(Debug)]
pub(super) struct Guardian {
    folder: PathBuf,
    shell: Child,
    line: Mutex<Option<Line>>,
}

#[derive(Debug)]
struct Line {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Guardian {
    /// A guardian with a new temporary folder, for a server that `end_signal`
    /// ends, and that runs as `user` if the test process is root.
    pub(super) fn new(server: &str, user: &str, end_signal: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(&format!("ichido-{server}-"))
            .tempdir()
            .expect("a temporary folder for a server");
        let mut shell = shell(folder.path(), user, end_signal).spawn().unwrap_or_else(|error| {
            let folder = folder.path().display();
            panic!("cannot start sh in {folder} (is TMPDIR open to all users?): {error}")
        });
        let line = Line {
            orders: shell.stdin.take().expect("piped"),
            answers: BufReader::new(shell.stdout.take().expect("piped")),
        };
        Self { folder: folder.keep(), shell, line: Mutex::new(Some(line)) }
    }

    /// The server's folder: its data, its log.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command to its end, output to the log, and tells whether it succeeded.
    pub(super) fn run(&self, program: &Path, arguments: &[&str]) -> bool {
        self.order("run", &quoted(program, arguments)) == "0"
    }

    /// Starts the server, output to the log, and returns its process id.
    pub(super) fn start(&self, program: &Path, arguments: &[&str]) -> u32 {
        let answer = self.order("start", &quoted(program, arguments));
        answer.parse().expect("a process id")
    }

    /// Ends the server with a signal and returns when it has ended.
    pub(super) fn stop(&self, signal: &str) {
        self.order("stop", signal);
    }

    /// Lets the server stand still.
    pub(super) fn freeze(&self) {
        self.order("freeze", "");
    }

    /// Ends the server and its child processes with SIGKILL and returns when all have ended.
    pub(super) fn kill(&self) {
        let children = self.order("kill", "");
        for child in children.split_whitespace().flat_map(str::parse) {
            while !has_ended(child) {
                look_again();
            }
        }
    }

    /// The last lines of the log, for a message.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read(self.folder.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn order(&self, order: &str, words: &str) -> String {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line.as_mut().expect("open until drop");
        let mut answer = String::new();
        writeln!(line.orders, "{order} {words}")
            .and_then(|()| line.answers.read_line(&mut answer))
            .unwrap_or_else(|error| panic!("the guardian did not {order}: {error}"));
        let done = answer.ends_with('\n') && !answer.starts_with("refused");
        assert!(done, "the guardian did not {order}: {answer}");
        answer.trim().to_owned()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let line = self.line.get_mut();
        drop(line.unwrap_or_else(PoisonError::into_inner).take());
        drop(self.shell.wait());
    }
}

fn shell(folder: &Path, user: &str, end_signal: &str) -> Command {
    let mut shell = Command::new("sh");
    plain_environment(&mut shell)
        .env("HOME", folder)
        .args(["-c", include_str!("guardian.sh"), "guardian"])
        .arg(folder)
        .arg(end_signal)
        .current_dir(folder)
        // Ctrl-C at the terminal is for the test process; its end then is our signal.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let current = fs::metadata(folder).expect("the new folder").uid();
    if let Some(user) = User::for_servers(current, user) {
        chown(folder, Some(user.uid), Some(user.gid)).expect("chown, being root");
        shell.uid(user.uid).gid(user.gid);
    }
    shell
}

fn quoted(program: &Path, arguments: &[&str]) -> String {
    let mut words = String::new();
    let program = program.to_str().expect("a path in UTF-8");
    for word in std::iter::once(program).chain(arguments.iter().copied()) {
        assert!(!word.contains('\n'), "an order is one line: {word}");
        write!(words, "'{}' ", word.replace('\'', r"'\''")).expect("to a string");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_command_as_they_are() {
        let guardian = Guardian::new("words", "nobody", "TERM");
        let hostile = ["a b", "it's", "$HOME", "`x`", r"\n", "", "*", "\"", "é;"];
        let arguments: Vec<&str> = ["[%s]"].into_iter().chain(hostile).collect();
        assert!(guardian.run(Path::new("printf"), &arguments));
        let expected = hostile.map(|word| format!("[{word}]")).concat();
        assert_eq!(guardian.log_tail(), expected);
    }

    #[test]
    fn a_failing_command_is_told_from_a_good_one() {
        let guardian = Guardian::new("codes", "nobody", "TERM");
        assert!(guardian.run(Path::new("true"), &[]));
        assert!(!guardian.run(Path::new("false"), &[]));
        assert!(!guardian.run(Path::new("no-such-command"), &[]));
        assert!(guardian.log_tail().contains("no-such-command"));
    }

    #[test]
    fn a_dropped_guardian_has_ended_its_server_and_removed_its_folder() {
        let guardian = Guardian::new("drop", "nobody", "TERM");
        let folder = guardian.folder().to_owned();
        let pid = guardian.start(Path::new("sleep"), &["3600"]);
        assert!(!has_ended(pid));
        drop(guardian);
        assert!(has_ended(pid));
        assert!(!folder.exists());
    }

    #[test]
    #[should_panic(expected = "did not stop: refused: the server is not started")]
    fn a_server_that_is_not_there_cannot_be_stopped() {
        Guardian::new("twice", "nobody", "TERM").stop("TERM");
    }

    #[test]
    #[should_panic(expected = "did not start: refused: the server is already started, as ")]
    fn a_server_cannot_be_started_twice() {
        let guardian = Guardian::new("twice", "nobody", "TERM");
        guardian.start(Path::new("sleep"), &["3600"]);
        guardian.start(Path::new("sleep"), &["3600"]);
    }

    #[test]
    fn a_stopped_server_ends_too() {
        let guardian = Guardian::new("stopped", "nobody", "TERM");
        let pid = guardian.start(Path::new("sleep"), &["3600"]);
        // Through the shell: a small Debian has no kill command.
        let stop = format!("kill -s STOP {pid}");
        assert!(guardian.run(Path::new("sh"), &["-c", &stop]));
        drop(guardian);
        assert!(has_ended(pid));
    }
}
