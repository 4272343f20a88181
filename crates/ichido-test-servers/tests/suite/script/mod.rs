//! The scripts of this repository: what `./test` asks, installs and leaves behind, what `.ci/run` refuses, and the bill of materials. cargo,
//! sudo and apt-get are stand-ins here, in a folder that is the whole search path.

mod bill;
mod ci;
mod packages;
mod running;

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

/// A repository with nothing but its scripts, and a machine with nothing but a shell and these stand-ins.
struct Scene {
    folder: tempfile::TempDir,
}

/// Where the scripts are from.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

impl Scene {
    fn new() -> Self {
        let scene = Scene { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.path("bin")).unwrap();
        scene.copy("test");
        scene.tools(&["bash", "sh", "dirname", "readlink", "mktemp", "chmod", "cat", "rm", "sleep", "env", "python3"]);
        scene.tools(&["cp", "mkdir"]);
        scene.program("cargo", "sleep 3600 & echo \"$TMPDIR $$ $!\" >\"$HERE/started\"; wait");
        scene.program("sudo", "echo \"$*\" >>\"$HERE/sudo\"; if [ \"$1\" = tee ]; then cat >/dev/null; fi");
        scene.program("apt-get", ":");
        fs::set_permissions(scene.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of the repository, in the same place.
    fn copy(&self, name: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::copy(repository().join(name), self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Takes something out of a file, which has it.
    fn change(&self, name: &str, change: impl FnOnce(&str) -> String) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        let changed = change(&text);
        assert_ne!(changed, text, "nothing of {name} was taken out");
        fs::write(self.path(name), changed).unwrap();
    }

    /// Programs of the machine.
    fn tools(&self, tools: &[&str]) {
        for tool in tools {
            let found = ["/usr/bin", "/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(tool));
            let found = found.into_iter().find(|file| file.exists()).unwrap_or_else(|| panic!("{tool} is missing"));
            symlink(found, self.path("bin").join(tool)).unwrap();
        }
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
        command.env("SSL_CERT_FILE", "any").env("TMPDIR", self.folder.path()).current_dir(self.folder.path());
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

/// A test that fails leaves no stand-in behind either.
impl Drop for Scene {
    fn drop(&mut self) {
        let started = fs::read_to_string(self.path("started")).unwrap_or_default();
        for pid in started.split_whitespace().skip(1).filter(|pid| is_alive(pid)) {
            let _ = Command::new("kill").args(["-s", "KILL", pid]).status();
        }
    }
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{}\n{out}\n{err}", output.status)
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
