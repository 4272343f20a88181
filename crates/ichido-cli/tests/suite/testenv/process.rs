//! The binary as a process: one that runs beside the test, with its log in a file, and what one that has ended left behind.

use std::{
    path::PathBuf,
    process::{ExitStatus, Output},
    time::Duration,
};

use ichido_testkit::{eventually, size};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// Nothing takes so long to end, however busy the machine is and whatever it has to drain.
fn limit() -> Duration {
    Duration::from_mins(size(10, 15).into())
}

/// A running binary.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    pub fn new(child: Child, log: PathBuf) -> Self {
        Process { child, log }
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("the process has not been waited for")
    }

    pub async fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
    }

    /// Sends a signal again and again, as somebody would who is in a hurry: one that comes too soon after another is none.
    pub async fn signal_until_it_ends(&mut self, signal: &str) {
        let (pid, child) = (self.pid().to_string(), &mut self.child);
        eventually(format!("its end after {signal}"), async || {
            let _ = Command::new("kill").args([signal, &pid]).status().await;
            child.try_wait().unwrap().is_some()
        })
        .await;
    }

    /// Kills it with SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end.
    pub async fn exit_code(&mut self) -> i32 {
        let ended = timeout(limit(), self.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.log())).unwrap();
        status.code().unwrap_or_else(|| panic!("ended by a signal:\n{}", self.log()))
    }

    /// Sends SIGTERM, and expects it to end well.
    #[track_caller]
    pub fn stop(&mut self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            self.signal("-TERM").await;
            assert_eq!(self.exit_code().await, 0, "{caller}: {}", self.log());
        }
    }

    /// Lets it stand still for three leases of a second, and go on. Time itself: what it holds in open transactions nobody can rescue, so that
    /// no condition tells when it counts as dead.
    pub async fn stand_still(&self) {
        self.signal("-STOP").await;
        tokio::time::sleep(Duration::from_millis(3500)).await;
        self.signal("-CONT").await;
    }

    /// Have all its threads been stopped by a signal?
    pub fn stands_still(&self) -> bool {
        let stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().all(stopped)
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until it has logged this text.
    #[track_caller]
    pub fn until_logged(&self, text: &str) -> impl Future<Output = ()> {
        eventually(format!("`{text}` in the log"), async move || {
            let log = self.log();
            if log.contains(text) { Ok(()) } else { Err(log) }
        })
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A test that fails tells what its processes said last.
impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (name, log) = (self.log.display(), std::fs::read_to_string(&self.log).unwrap_or_default());
            let lines: Vec<_> = log.lines().collect();
            println!("{name}: ...\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
    }
}

/// What a command left behind.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Runs a command to its end; one that does not come to it is killed, and the test fails.
    pub async fn run(args: &[&str], command: &mut Command) -> Self {
        let ended = timeout(limit(), command.output()).await;
        Ended::of(ended.unwrap_or_else(|_| panic!("ichido {args:?} does not end")).unwrap())
    }

    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Asserts that the command line itself was refused.
    #[track_caller]
    pub fn assert_refused_by_clap(&self) {
        assert_eq!(self.code, Some(127), "{self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
        assert!(self.stderr.contains("Usage") || self.stderr.contains("--help"), "{self:?}");
    }

    /// Asserts a refusal: the code, one message that has all of this in it, no backtrace.
    #[track_caller]
    pub fn assert_refused(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked") && !self.stderr.contains("backtrace"), "{}", self.stderr);
        assert!(self.stdout.is_empty(), "{}", self.stdout);
        assert!(self.stderr.lines().count() <= 3, "one message, not many: {}", self.stderr);
    }
}
