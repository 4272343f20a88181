//! ichido as process 1 of a container. The kernel hands it every process whose parent has died, and nobody else can wait for those: what
//! the programs of `exec` leave behind would stay as zombies for ever. So process 1 does nothing but wait: it starts `ichido run`
//! as its child, passes signals on, and ends as the child ends. The child's own children are not its business, and their statuses stay theirs.

use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, child_subreaper, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

/// Are other processes' orphans handed to this one?
pub(crate) fn is_needed() -> bool {
    getpid() == Pid::INIT || child_subreaper().is_ok_and(|reaper| reaper.is_some())
}

/// Runs the same command in a child and returns its exit code.
///
/// # Errors
/// The child cannot be started.
pub(crate) fn run(args: &[OsString]) -> io::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(args))
}

async fn watch(args: &[OsString]) -> io::Result<u8> {
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    let ichido = pid(&start(args)?)?;
    loop {
        if let Some(code) = reap(ichido)? {
            return Ok(code);
        }
        let passed = tokio::select! {
            _ = ended.recv() => continue,
            _ = terminate.recv() => Signal::TERM,
            _ = interrupt.recv() => Signal::INT,
            _ = hangup.recv() => Signal::HUP,
            _ = quit.recv() => Signal::QUIT,
        };
        kill_process(ichido, passed)?;
    }
}

fn start(args: &[OsString]) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    if let Some((name, args)) = args.split_first() {
        command.arg0(name).args(args);
    }
    command.spawn()
}

fn pid(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("a process without an id"))
}

/// Waits for everything that has ended; the code of ichido, if it has.
fn reap(ichido: Pid) -> io::Result<Option<u8>> {
    while let Some((pid, status)) = wait(WaitOptions::NOHANG)? {
        if pid == ichido {
            return Ok(Some(code(status)));
        }
    }
    Ok(None)
}

/// As a shell tells it.
fn code(status: WaitStatus) -> u8 {
    let signal = || status.terminating_signal().map(|signal| 128 + signal);
    let code = status.exit_status().or_else(signal).and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(crate::failure::FOUND)
}
