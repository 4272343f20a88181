//! `.ci/run`: a dependency that may not be used, or one with a known vulnerability, ends the check. What cargo-deny itself refuses with our rules
//! is in `.ci/deny-refuses`, which needs it.

use std::{fs, process::Output};

use super::{Scene, said};

/// A repository whose check meets these answers of `cargo deny`: shell words for a check by its name.
fn check(answers: &[(&str, &str)]) -> (Scene, Output) {
    let scene = Scene::new();
    scene.copy(".ci/run");
    scene.tools(&["grep", "timeout"]);
    let script = fs::read_to_string(scene.path(".ci/run")).unwrap();
    let version = script.lines().find_map(|line| line.strip_prefix("deny_version=")).expect("a version");
    let answers: Vec<_> = answers.iter().map(|(check, answer)| format!("*'check {check}'*) {answer} ;;\n")).collect();
    let cargo =
        "echo \"$*\" >>\"$HERE/cargo\"\ncase \"$*\" in\n'deny --version') echo 'cargo-deny VERSION' ;;\nANSWERSesac";
    scene.program("cargo", &cargo.replace("VERSION", version).replace("ANSWERS", &answers.concat()));
    for script in ["test", ".ci/deny-refuses"] {
        scene.program("stand-in", &format!("echo ./{script} >>\"$HERE/cargo\""));
        fs::rename(scene.path("bin/stand-in"), scene.path(script)).unwrap();
    }
    let output = scene.command(&["bash", ".ci/run"]).output().unwrap();
    (scene, output)
}

/// Was it run?
fn has_run(scene: &Scene, command: &str) -> bool {
    fs::read_to_string(scene.path("cargo")).unwrap().lines().any(|line| line.starts_with(command))
}

#[test]
fn every_step_runs_if_there_is_nothing_to_refuse() {
    let (scene, output) = check(&[]);
    assert!(output.status.success(), "{}", said(&output));
    for command in
        ["fmt", "deny --all-features --locked check", "./.ci/deny-refuses", "clippy", "package", "doc", "./test"]
    {
        assert!(has_run(&scene, command), "{command}: {}", said(&output));
    }
}

#[test]
fn what_may_not_be_used_ends_the_check() {
    let (scene, output) = check(&[("licenses bans sources", "echo 'error[rejected]: GPL'; exit 4")]);
    let text = said(&output);
    assert!(output.status.code() == Some(4) && text.contains("error[rejected]: GPL"), "{text}");
    assert!(!has_run(&scene, "clippy") && !has_run(&scene, "./test"), "{text}");
}

#[test]
fn a_known_vulnerability_ends_the_check() {
    let (scene, output) = check(&[("advisories", "echo 'error[vulnerability]: a hole' >&2; exit 1")]);
    let text = said(&output);
    assert!(output.status.code() == Some(1) && text.contains("error[vulnerability]: a hole"), "{text}");
    assert!(!has_run(&scene, "clippy") && !has_run(&scene, "./test"), "{text}");
}

#[test]
fn advisories_that_cannot_be_had_are_told_and_no_fault_of_a_change() {
    let (scene, output) = check(&[("advisories", "echo 'failed to fetch advisory database' >&2; exit 1")]);
    let text = said(&output);
    assert!(output.status.success() && text.contains("were NOT checked"), "{text}");
    assert!(has_run(&scene, "./test"), "{text}");
}
