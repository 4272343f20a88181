//! What the servers beside this file need to know about processes, their own
//! children or not.

use std::process::Command;
use std::time::Duration;
use std::{env, fs, thread};

/// Far from UTC, so that nobody takes a server's local time for it.
const ZONE: &str = "JST-9";

/// Gives a command an environment in which no variable of the caller changes what it does.
pub(super) fn plain_environment(command: &mut Command) -> &mut Command {
    let path = env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("LC_ALL", "C").env("TZ", ZONE)
}

/// Whether a process is gone, or only its entry is left because nobody has asked for its exit code.
pub(super) fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    // The state follows the command's name, which is in parentheses and may hold anything.
    stat.map_or(true, |stat| stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X'])))
}

/// Waits a moment: the end of a process that is not a child, and the moment a
/// server is ready, can only be looked for.
pub(super) fn look_again() {
    thread::sleep(Duration::from_millis(5));
}
