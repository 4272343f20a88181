//! The process groups of programs that run for messages. Whoever drops a [`Group`] ends everything in it; a process that ends at once
//! ends them all first; and if it is killed, a guardian does: a shell that is told of every group and reads until nobody writes any more.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

const GUARDIAN: &str = include_str!("guardian.sh");

static RUNNING: Mutex<Running> = Mutex::new(Running { groups: BTreeSet::new(), guardian: None });

struct Running {
    groups: BTreeSet<i32>,
    guardian: Option<ChildStdin>,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program's process group.
pub(super) struct Group(Option<Pid>);

impl Group {
    /// Starts a program in a group of its own. Nobody ends them all between the start and the note of it.
    pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Group)> {
        let mut running = running();
        running.call_guardian();
        let child = command.process_group(0).spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            running.groups.insert(leader.as_raw_pid());
            running.tell("begun", leader);
        }
        Ok((child, Group(leader)))
    }
}

/// Ends what is left of it.
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            end(leader);
            let mut running = running();
            running.groups.remove(&leader.as_raw_pid());
            running.tell("ended", leader);
        }
    }
}

impl Running {
    fn call_guardian(&mut self) {
        if self.guardian.is_some() {
            return;
        }
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", GUARDIAN, "ichido-guardian"]).process_group(0);
        let started = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match started {
            Ok(guardian) => self.guardian = guardian.stdin,
            Err(error) => tracing::warn!(%error, "programs will outlive this process if it is killed: no shell"),
        }
    }

    fn tell(&mut self, what: &str, leader: Pid) {
        let told = self.guardian.as_mut().map(|guardian| writeln!(guardian, "{what} {}", leader.as_raw_pid()));
        if told.is_some_and(|told| told.is_err()) {
            self.guardian = None; // somebody has ended it; the next program gets another one
        }
    }
}

/// Ends all programs, for a process that ends without dropping what it holds. No other can be started afterwards.
pub(crate) fn end_all() {
    let running = running();
    running.groups.iter().copied().filter_map(Pid::from_raw).for_each(end);
    std::mem::forget(running);
}

fn end(leader: Pid) {
    // An error only means that nothing of it is left.
    let _ = kill_process_group(leader, Signal::KILL);
}
