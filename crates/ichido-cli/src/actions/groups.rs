//! The process groups of programs that run for messages. Whoever drops a [`Group`] ends everything in it. If ichido ends without dropping
//! what it holds, at a second signal or when it is killed, its guardian does it: a shell that is told of every group and reads until
//! nobody writes any more.

use std::{
    fmt,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{ChildStdin, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// Where a program has its mark.
const MARK: &str = "ICHIDO_EXECUTION_ID";

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

/// A program that begins when it has read [`GO`].
pub(super) fn waiting(program: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(SHELL);
    command.args(["-c", WAIT, "ichido"]).arg(program).args(arguments);
    command
}

/// A program's process group.
pub(super) struct Group(Option<Pid>);

impl Group {
    /// Starts a program in a group of its own. By the mark the guardian knows it, should we be killed before we know its group.
    pub(super) fn spawn(command: &mut Command, mark: &str) -> io::Result<(Child, Group)> {
        tell(format_args!("expected {mark}"));
        let spawned = command.env(MARK, mark).process_group(0).spawn();
        let id = spawned.as_ref().ok().and_then(Child::id);
        let leader = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = Group(leader);
        match leader {
            Some(leader) => tell(format_args!("begun {} {mark}", leader.as_raw_pid())),
            None => tell(format_args!("failed {mark}")),
        }
        Ok((spawned?, group))
    }
}

/// Ends what is left of it.
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // An error only means that nothing of it is left.
            let _ = kill_process_group(leader, Signal::KILL);
            tell(format_args!("ended {}", leader.as_raw_pid()));
        }
    }
}

fn tell(what: fmt::Arguments<'_>) {
    let mut guardian = GUARDIAN.lock().unwrap_or_else(PoisonError::into_inner);
    if guardian.is_none() {
        match call() {
            Ok(called) => *guardian = called,
            Err(error) => tracing::warn!(%error, "programs will outlive this process if it is killed: no shell"),
        }
    }
    // In one piece: half a line would be taken for a whole one if we are killed meanwhile.
    let line = format!("{what}\n");
    let told = guardian.as_mut().map(|guardian| guardian.write_all(line.as_bytes()));
    if told.is_some_and(|told| told.is_err()) {
        *guardian = None; // somebody has ended it; the next program gets another one
    }
}

/// In a group of its own too: what ends ichido's must not end it.
fn call() -> io::Result<Option<ChildStdin>> {
    let mut shell = std::process::Command::new(SHELL);
    shell.args(["-c", SCRIPT, "ichido-guardian"]).process_group(0);
    Ok(shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?.stdin)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process};

    use super::*;

    /// What the guardian is told before ichido is gone.
    fn leave_behind(told: &str) {
        let mut guardian = process::Command::new("/bin/sh").args(["-c", SCRIPT]).stdin(Stdio::piped()).spawn().unwrap();
        guardian.stdin.take().unwrap().write_all(told.as_bytes()).unwrap();
        guardian.wait().unwrap();
    }

    fn program(mark: &str) -> process::Child {
        process::Command::new("sleep").arg("100").env(MARK, mark).process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_program_that_nobody_could_tell_of_is_found_by_its_mark() {
        let mark = |name: &str| format!("{}-{name}", process::id());
        let [mut told, mut untold, mut other] = ["told", "untold", "other"].map(|name| program(&mark(name)));
        let (one, two) = (mark("told"), mark("untold"));
        leave_behind(&format!("expected {one}\nexpected {two}\nbegun {} {one}\n", told.id()));
        for program in [&mut told, &mut untold] {
            assert_eq!(program.wait().unwrap().signal(), Some(9));
        }
        assert!(other.try_wait().unwrap().is_none(), "it is somebody else's");
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn what_has_ended_is_left_alone() {
        let mark = format!("{}-ended", process::id());
        let mut program = program(&mark);
        leave_behind(&format!("expected {mark}\nbegun {0} {mark}\nended {0}\n", program.id()));
        leave_behind(&format!("expected {mark}\nfailed {mark}\n"));
        assert!(program.try_wait().unwrap().is_none());
        program.kill().unwrap();
        program.wait().unwrap();
    }
}
