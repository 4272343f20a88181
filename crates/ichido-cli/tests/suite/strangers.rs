//! Other users of the host, and the lock files beside a SQLite database. Only root can try to be somebody else: without it these tests
//! say nothing, and those of `locks` in ichido-sqlite stand for them.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

use tokio::process::Command;

use crate::testenv::{Ended, Env, Kind};

const STRANGER: u32 = 47_110;
const GROUP: u32 = 47_120;

/// A database that this group shares, or that belongs to us alone; none if we are not root.
async fn world(shared: bool) -> Option<Env> {
    let env = Env::new(Kind::Sqlite).await;
    let (folder, file) = if shared { (0o770, 0o660) } else { (0o755, 0o644) };
    chown(env.folder(), None, Some(GROUP)).ok()?;
    fs::set_permissions(env.folder(), Permissions::from_mode(folder)).unwrap();
    for entry in fs::read_dir(env.folder()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() {
            chown(&entry, None, Some(GROUP)).unwrap();
            fs::set_permissions(&entry, Permissions::from_mode(file)).unwrap();
        }
    }
    Some(env)
}

fn as_stranger(command: &mut Command, group: u32) -> &mut Command {
    command.uid(STRANGER).gid(group)
}

#[tokio::test]
async fn a_stranger_cannot_hold_the_locks() {
    let Some(env) = world(false).await else { return };
    env.ok(&["send", "mail", "1"]).await;
    for lock in ["gate.lock", "turn.lock"] {
        let mut flock = Command::new("flock");
        flock.arg("--nonblock").arg(env.folder().join("test.db-ichido").join(lock)).arg("true");
        let held = Ended::run(&[lock], as_stranger(&mut flock, STRANGER)).await;
        assert!(held.code != Some(0) && held.stderr.contains("ermission denied"), "{held:?}");
    }
}

#[tokio::test]
async fn a_group_that_shares_the_database_shares_its_locks() {
    let Some(env) = world(true).await else { return };
    let is_reachable = Path::new(env!("CARGO_BIN_EXE_ichido"))
        .ancestors()
        .skip(1)
        .all(|folder| fs::metadata(folder).is_ok_and(|about| about.permissions().mode() & 0o001 != 0));
    if !is_reachable {
        return;
    }
    env.ok(&["send", "mail", "1"]).await;
    let sent = Ended::run(&["send"], as_stranger(&mut env.command(&["send", "mail", "2"]), GROUP)).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    env.ok(&["send", "mail", "3"]).await;
    assert_eq!(env.number("select count(*) from ichido_message").await, 3);
}
