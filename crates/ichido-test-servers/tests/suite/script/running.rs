//! `./test` itself: it asks before it uses sudo, and nothing of a run is left when it is killed.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{Scene, is_alive, until};

#[test]
fn without_a_terminal_it_says_what_to_do_and_uses_no_sudo() {
    let scene = Scene::new();
    scene.program("cargo", ":");
    let said = scene.run(&[]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("./test --yes") && text.contains("gcc libc6-dev"), "{text}");
    assert_eq!(scene.asked_for_root(), "");
}

#[test]
fn who_says_no_at_a_terminal_keeps_the_machine_as_it_is() {
    let scene = Scene::new();
    scene.program("cargo", ":");
    let at_terminal = "import os, pty, sys\n\
        def read(fd):\n    data = os.read(fd, 1024)\n    if b'[y/N]' in data: os.write(fd, b'n\\n')\n    return data\n\
        sys.exit(os.waitstatus_to_exitcode(pty.spawn(['bash', './test', '--quick', '-p', 'x'], read)))";
    let said = scene.command(&["python3", "-c", at_terminal]).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(!said.status.success() && text.contains("[y/N]") && text.contains("nothing was installed"), "{said:?}");
    assert_eq!(scene.asked_for_root(), "");
}

#[test]
fn who_has_agreed_before_is_not_asked() {
    let scene = Scene::new();
    scene.program("cargo", ":");
    let said = scene.run(&["--yes"]);
    assert!(said.status.success(), "{said:?}");
    assert!(scene.asked_for_root().contains("apt-get install"), "{}", scene.asked_for_root());
}

#[test]
fn nothing_of_a_run_outlives_it_even_if_it_is_killed() {
    for signal in ["TERM", "KILL"] {
        let scene = Scene::new();
        let mut run = start(&scene);
        let started = Started::of(&scene);
        assert!(started.is_there(), "{started:?}");
        assert!(Command::new("kill").args(["-s", signal, &run.id().to_string()]).status().unwrap().success());
        run.wait().unwrap();
        until(|| started.is_gone().then_some(()));
    }
}

/// cargo stops the script before it does anything else, so the script never gets further than to have started it.
#[test]
fn nothing_of_a_run_outlives_it_if_it_is_killed_when_cargo_starts() {
    let scene = Scene::new();
    let cargo = "kill -s STOP $PPID; sleep 3600 & echo \"$TMPDIR $$ $!\" >\"$HERE/started\"; kill -s KILL $PPID; wait";
    scene.program("cargo", cargo);
    start(&scene).wait().unwrap();
    let started = Started::of(&scene);
    until(|| started.is_gone().then_some(()));
}

#[test]
fn a_run_writes_to_memory_only_where_there_is_room_and_nobody_says_otherwise() {
    let scratch_in = |free: &str, variables: &[(&str, &str)]| {
        let scene = Scene::new();
        scene.program("cc", ":");
        scene.program("df", &format!("echo Avail; echo {free}"));
        scene.program("cargo", "echo \"$TMPDIR\"");
        let script = scene.path("test");
        let words = ["bash", script.to_str().unwrap(), "-p", "x", "--quick"];
        let said = scene.command(&words).env_remove("TMPDIR").envs(variables.iter().copied()).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let scratch = String::from_utf8(said.stdout).unwrap();
        Path::new(scratch.trim()).parent().unwrap().display().to_string()
    };
    let (little, much) = ("1000000", "99000000");
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let named = folder.path().to_str().unwrap();
    assert_eq!(scratch_in(little, &[]), "/tmp");
    assert_eq!(scratch_in(much, &[("TMPDIR", named)]), named);
    // The machine that this runs on may have no memory to spare.
    assert!(["/dev/shm", "/tmp"].contains(&scratch_in(much, &[]).as_str()));
}

fn start(scene: &Scene) -> Child {
    scene.program("cc", ":");
    let script = scene.path("test");
    let words = ["bash", script.to_str().unwrap(), "--quick", "-p", "x"];
    let quiet = || Stdio::null();
    scene.command(&words).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().unwrap()
}

/// What the stand-in for cargo says of itself: its temporary folder, its process and that of its child.
#[derive(Debug)]
struct Started(String);

impl Started {
    fn of(scene: &Scene) -> Self {
        Self(until(|| fs::read_to_string(scene.path("started")).ok().filter(|text| text.ends_with('\n'))))
    }

    fn parts(&self) -> [&str; 3] {
        self.0.split_whitespace().collect::<Vec<_>>().try_into().unwrap()
    }

    fn is_there(&self) -> bool {
        let [scratch, cargo, child] = self.parts();
        Path::new(scratch).is_dir() && is_alive(cargo) && is_alive(child)
    }

    fn is_gone(&self) -> bool {
        let [scratch, cargo, child] = self.parts();
        !Path::new(scratch).exists() && !is_alive(cargo) && !is_alive(child)
    }
}
