//! The process groups of programs that run for messages. Whoever drops a [`Group`] ends everything in it. If ichido ends without dropping
//! what it holds, at a second signal or when it is killed, its guardian does it: a shell that is told of every group and reads until
//! nobody writes any more.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{ChildStdin, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

const SCRIPT: &str = include_str!("guardian.sh");

/// The guardian's, and the one that waits: nothing that a user writes is read by it.
pub(super) const SHELL: &str = "/bin/sh";

/// Becomes the program when it is let go by a line: by then the guardian knows of its group. Without that, whoever is killed between
/// starting and telling would leave a program behind.
const WAIT: &str = r#"read -r go && exec "$@""#;

/// The line that lets it go.
pub(super) const GO: &str = "\n";

/// Where the guardian listens, once there was something to tell.
static GUARDIAN: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// A program that begins when it has read [`GO`], in an empty environment.
pub(super) fn waiting(program: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(SHELL);
    command.env_clear().args(["-c", WAIT, "ichido"]).arg(program).args(arguments);
    command
}

/// A program's process group.
pub(super) struct Group(Option<Pid>);

impl Group {
    /// Starts a program in a group of its own.
    pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Group)> {
        let child = command.process_group(0).spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            tell("begun", leader);
        }
        Ok((child, Group(leader)))
    }
}

/// Ends what is left of it.
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // An error only means that nothing of it is left.
            let _ = kill_process_group(leader, Signal::KILL);
            tell("ended", leader);
        }
    }
}

fn tell(what: &str, leader: Pid) {
    let mut guardian = GUARDIAN.lock().unwrap_or_else(PoisonError::into_inner);
    if guardian.is_none() {
        match call() {
            Ok(called) => *guardian = called,
            Err(error) => {
                tracing::warn!(%error, "cannot start a shell; programs will outlive this process if it is killed");
            }
        }
    }
    let told = guardian.as_mut().map(|guardian| writeln!(guardian, "{what} {}", leader.as_raw_pid()));
    if told.is_some_and(|told| told.is_err()) {
        *guardian = None; // somebody has ended it; the next program gets another one
    }
}

/// In a group of its own too: what ends ichido's must not end it.
fn call() -> io::Result<Option<ChildStdin>> {
    let mut shell = std::process::Command::new(SHELL);
    shell.env_clear().args(["-c", SCRIPT, "ichido-guardian"]).process_group(0);
    Ok(shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?.stdin)
}
