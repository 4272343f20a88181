//! What `./test` installs from `PyPI` and npm is pinned by hash: another package under the same name and version is refused. Without the hashes
//! it would be installed, which each test shows too.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

use super::{Scene, repository, said};

/// Which folder below `target` has what these files ask for.
const PYTHON: (&str, &[&str]) =
    ("python", &["crates/ichido-cli/tests/requirements.txt", "examples/clients/python/requirements.txt"]);
const SQS: (&str, &[&str]) = ("sqs", &["crates/ichido-test-servers/requirements.txt"]);
const MOTO: (&str, &[&str]) = ("moto", &["crates/ichido-test-servers/moto.txt"]);
const SCHEMATHESIS: (&str, &[&str]) = ("schemathesis", &["crates/ichido-cli/tests/schemathesis.txt"]);
const NODE: (&str, &[&str]) =
    ("node", &["examples/clients/node/package.json", "examples/clients/node/package-lock.json"]);

const MARK: &str = "somebody else's";

/// A machine that has all but one of them, and only somebody else's packages to install it from.
struct Machine {
    scene: Scene,
    missing: &'static str,
}

impl Machine {
    fn without(missing: (&'static str, &[&str])) -> Self {
        let scene = Scene::new();
        scene.tools(&["cmp", "tee", "uname"]);
        for server in ["pgbouncer", "mariadbd", "mariadb-install-db", "mariadb", "prometheus", "promtool", "chromium"] {
            scene.program(server, ":");
        }
        for program in ["chromedriver", "erl_call", "initdb", "kill", "systemd-analyze", "cc"] {
            scene.program(program, ":");
        }
        scene.program("cargo", "echo \"$*\" >\"$HERE/tested\"");
        scene.open_folder("target");
        for (folder, files) in [PYTHON, SQS, MOTO, SCHEMATHESIS, NODE] {
            for file in files {
                scene.copy(file);
            }
            if folder != missing.0 {
                let asked_for: Vec<_> =
                    files.iter().map(|file| fs::read_to_string(scene.path(file)).unwrap()).collect();
                let target = scene.path("target").join(folder);
                fs::create_dir(&target).unwrap();
                fs::write(target.join("asked-for"), asked_for.concat()).unwrap();
            }
        }
        Machine { scene, missing: missing.0 }
    }

    /// The whole script; whatever the machine lacks besides, sudo's stand-in installs.
    fn test(&self, variables: &[(&str, &str)]) -> Output {
        let script = self.scene.path("test");
        let mut command = self.scene.command(&["bash", script.to_str().unwrap(), "--yes", "-p", "x"]);
        command.envs(variables.iter().copied()).env("HOME", self.scene.folder.path());
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// With pip, which knows no packages but these.
    fn test_with(&self, wheels: &Path) -> Output {
        let wheels = wheels.to_str().unwrap();
        self.test(&[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", wheels), ("PIP_CONFIG_FILE", "/dev/null")])
    }

    fn assert_refused(&self, output: &Output, reason: &str) {
        let text = said(output);
        assert!(!output.status.success() && text.contains(reason), "{text}");
        assert!(!has_mark(&self.scene.path("target").join(self.missing)), "{text}");
        assert!(!self.scene.path("tested").exists(), "tests ran: {text}");
    }

    fn assert_taken_in(&self, output: &Output) {
        let text = said(output);
        assert!(output.status.success() && self.scene.path("tested").exists(), "{text}");
        assert!(has_mark(&self.scene.path("target").join(self.missing)), "{text}");
    }
}

impl Scene {
    fn open_folder(&self, name: &str) {
        fs::create_dir(self.path(name)).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o777)).unwrap();
    }

    /// Somebody else's wheels for what these files ask for.
    fn wheels(&self, files: &[&str]) -> std::path::PathBuf {
        self.open_folder("wheels");
        let folder = self.path("wheels");
        let made = other_packages("wheels").arg(&folder).args(files.iter().map(|file| self.path(file))).status();
        assert!(made.unwrap().success());
        folder
    }
}

fn other_packages(what: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    let script = repository().join("crates/ichido-test-servers/tests/suite/script/other_packages.py");
    command.arg(script).arg(what);
    command
}

/// Is anything of somebody else's in this folder?
fn has_mark(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() { has_mark(&path) } else { String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(MARK) }
    })
}

/// Requirements without their hashes.
fn unpinned(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !word.starts_with("--hash=") && *word != "\\");
    words.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn another_package_under_a_known_name_is_not_installed_from_pypi() {
    for missing in [PYTHON, SQS, MOTO, SCHEMATHESIS] {
        let machine = Machine::without(missing);
        let wheels = machine.scene.wheels(missing.1);
        let output = machine.test_with(&wheels);
        machine.assert_refused(&output, "DO NOT MATCH THE HASHES");
    }
}

#[test]
fn a_requirement_without_a_hash_is_refused() {
    let machine = Machine::without(PYTHON);
    let wheels = machine.scene.wheels(PYTHON.1);
    for file in PYTHON.1 {
        machine.scene.change(file, unpinned);
    }
    machine.assert_refused(&machine.test_with(&wheels), "Hashes are required in --require-hashes mode");
    // With neither hashes nor the demand for them, the attack succeeds.
    machine.scene.change("test", |script| script.replace("--require-hashes", ""));
    machine.assert_taken_in(&machine.test_with(&wheels));
}

/// A registry that runs until it is dropped.
struct Registry {
    server: Child,
    url: String,
}

impl Registry {
    fn start(lock: &Path) -> Self {
        let mut server = other_packages("registry").arg(lock).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Registry { server, url: format!("http://127.0.0.1:{}/", port.trim()) }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn another_package_under_a_known_name_is_not_installed_from_npm() {
    let machine = Machine::without(NODE);
    machine.scene.tools(&["node", "npm", "touch"]);
    let registry = Registry::start(&machine.scene.path(NODE.1[1]));
    // It would try again, a minute later.
    let test = || machine.test(&[("npm_config_registry", &registry.url), ("npm_config_fetch_retries", "0")]);
    machine.assert_refused(&test(), "cannot install from npm");
    // Without the hashes in the lock it would be there, but no program of it has run.
    machine.scene.change(NODE.1[1], |lock| {
        let mut lock: Value = serde_json::from_str(lock).unwrap();
        for package in lock["packages"].as_object_mut().unwrap().values_mut() {
            package.as_object_mut().unwrap().remove("integrity");
            package["hasInstallScript"] = true.into();
        }
        lock.to_string()
    });
    machine.assert_taken_in(&test());
    assert!(!machine.scene.path("ran").exists(), "a package's own program ran");
}
