//! The script `./test` itself: it asks before it uses sudo, and nothing of a run is left when it is killed. cargo, sudo and apt-get are
//! stand-ins here, in a folder that is the whole search path.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

const NOBODY: u32 = 65534;

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Scene { folder: tempfile::tempdir().unwrap() };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test");
        fs::copy(script, scene.path("test")).unwrap();
        fs::create_dir(scene.path("bin")).unwrap();
        let tools = [
            "bash", "sh", "dirname", "readlink", "mktemp", "chmod", "cat", "rm", "sleep", "env", "python3", "cp",
            "mkdir",
        ];
        for tool in tools {
            let found = ["/usr/bin", "/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(tool));
            let found = found.into_iter().find(|file| file.exists()).unwrap_or_else(|| panic!("{tool} is missing"));
            symlink(found, scene.path("bin").join(tool)).unwrap();
        }
        scene.program("cargo", "sleep 3600 & echo \"$TMPDIR $$ $!\" >\"$HERE/started\"; wait");
        scene.program("sudo", "echo \"$*\" >>\"$HERE/sudo\"; if [ \"$1\" = tee ]; then cat >/dev/null; fi");
        scene.program("apt-get", ":");
        fs::set_permissions(scene.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Any command with the stand-ins, as somebody who is not root.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("PATH", self.path("bin")).env("HERE", self.folder.path());
        command.env("SSL_CERT_FILE", "any").current_dir(self.folder.path());
        if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// The script without a terminal, on a machine without a compiler.
    fn run(&self, arguments: &[&str]) -> Output {
        let script = self.path("test");
        let words = [&["bash", script.to_str().unwrap(), "--quick", "-p", "x"], arguments].concat();
        self.command(&words).stdin(Stdio::null()).output().unwrap()
    }

    fn asked_for_root(&self) -> String {
        fs::read_to_string(self.path("sudo")).unwrap_or_default()
    }
}

#[test]
fn without_a_terminal_it_says_what_to_do_and_uses_no_sudo() {
    let scene = Scene::new();
    let said = scene.run(&[]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("./test --yes") && text.contains("gcc libc6-dev"), "{text}");
    assert_eq!(scene.asked_for_root(), "");
}

#[test]
fn who_says_no_at_a_terminal_keeps_the_machine_as_it_is() {
    let scene = Scene::new();
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
        scene.program("cc", ":");
        let script = scene.path("test");
        let words = ["bash", script.to_str().unwrap(), "--quick", "-p", "x"];
        let mut run = scene.command(&words).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = until(|| fs::read_to_string(scene.path("started")).ok().filter(|text| text.ends_with('\n')));
        let [scratch, cargo, child] = started.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{started}") };
        assert!(Path::new(scratch).is_dir() && is_alive(cargo) && is_alive(child), "{started}");
        assert!(Command::new("kill").args(["-s", signal, &run.id().to_string()]).status().unwrap().success());
        run.wait().unwrap();
        until(|| (!is_alive(cargo) && !is_alive(child) && !Path::new(scratch).exists()).then_some(()));
    }
}

fn is_alive(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

fn until<T>(look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "it did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
