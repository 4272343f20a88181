//! A second test process, started by a test to see what is left of its server
//! when it ends, one way or another.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::{env, io};

pub(crate) struct TestProcess {
    process: Child,
    output: BufReader<ChildStdout>,
    pid: u32,
    folder: PathBuf,
}

impl TestProcess {
    /// Starts a process that runs the test `test`, which calls `play`.
    pub(crate) fn of(test: &str, end: &str) -> Self {
        let mut process = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("ICHIDO_CHILD", end)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a second test process");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let server = lines.find_map(|line| Some(line.strip_prefix("server ")?.to_owned()));
        let server = server.expect("its server");
        let (pid, folder) = server.split_once(' ').expect("two words");
        Self { pid: pid.parse().expect("a process id"), folder: PathBuf::from(folder), process, output }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("SIGKILL");
    }

    /// Waits for its end and, by the end of its stderr, which the guardian
    /// shares, for the guardian's end; then nothing is left.
    pub(crate) fn end(mut self) -> ExitStatus {
        let mut words = String::new();
        self.output.read_to_string(&mut words).expect("its output");
        let mut stderr = self.process.stderr.take().expect("piped");
        stderr.read_to_string(&mut words).expect("its stderr");
        println!("{words}");
        assert_gone(self.pid, &self.folder);
        self.process.wait().expect("its end")
    }
}

/// Ends as the first process has asked, after `start` has told of its server.
pub(crate) fn play(start: impl FnOnce() -> (u32, PathBuf)) {
    let Ok(end) = env::var("ICHIDO_CHILD") else {
        return;
    };
    let (pid, folder) = start();
    println!("\nserver {pid} {}", folder.display());
    match end.as_str() {
        "fails" => panic!("as asked"),
        "is killed" => drop(io::stdin().read(&mut [0])),
        _ => {}
    }
}

pub(crate) fn assert_gone(pid: u32, folder: &Path) {
    assert!(!folder.exists(), "{} is left", folder.display());
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} lives");
}
