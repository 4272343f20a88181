//! What the compiler says about the likeliest mistakes in an action or a handler. Each program in `mistakes/` has one; what a user
//! must read about it is in the file beside it, line by line. The compiler's other words may change from version to version. What no compiler
//! can know, a process says before it starts: that is in `mistakes/at_start/`.

#[path = "../mistakes/at_start/state_that_is_missing.rs"]
mod state_that_is_missing;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

/// The crates that the programs use, as this test was linked with them.
struct Crates {
    ichido: PathBuf,
    sqlite: PathBuf,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes")
}

fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// What is built of a crate, the newest first: there may be older ones, or with other features.
fn candidates(name: &str) -> Vec<PathBuf> {
    let of_crate = |path: &PathBuf| {
        let file = path.file_stem().and_then(|file| file.to_str()).unwrap_or_default();
        file.starts_with(&format!("lib{name}-")) && path.extension().is_some_and(|kind| kind == "rlib")
    };
    let mut found: Vec<_> = built().read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(of_crate).collect();
    found.sort_by_key(|path| {
        std::cmp::Reverse(path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH))
    });
    assert!(!found.is_empty(), "{name} is not built in {}", built().display());
    found
}

/// What the compiler says about a program; none if it is content.
fn errors(program: &Path, crates: &Crates) -> Option<String> {
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-A", "warnings", "--out-dir"]);
    compiler.arg(env!("CARGO_TARGET_TMPDIR")).arg("-L").arg(format!("dependency={}", built().display()));
    for (name, path) in [("ichido", &crates.ichido), ("ichido_sqlite", &crates.sqlite)] {
        compiler.arg("--extern").arg(format!("{name}={}", path.display()));
    }
    let said = compiler.arg(program).output().expect("there is a compiler where there is this test");
    // sqlx, which the store re-exports, has a type of the same name: the compiler says which one it means.
    let text = || String::from_utf8_lossy(&said.stderr).replace("ichido_sqlite::Sqlite", "Sqlite");
    (!said.status.success()).then(text)
}

/// Those with which a right program compiles.
fn crates() -> Crates {
    let mut last = String::new();
    for sqlite in candidates("ichido_sqlite") {
        for ichido in candidates("ichido") {
            let crates = Crates { ichido, sqlite: sqlite.clone() };
            match errors(&folder().join("fine.rs"), &crates) {
                None => return crates,
                Some(said) => last = said,
            }
        }
    }
    panic!("a program without a mistake does not compile:\n{last}");
}

#[test]
fn each_mistake_is_told_in_the_users_own_words() {
    let crates = crates();
    let programs = folder().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut programs: Vec<_> = programs
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("fine.rs"))
        .collect();
    programs.sort();
    let mut wrong = Vec::new();
    for program in programs {
        let name = program.file_stem().unwrap().to_string_lossy();
        let expected = std::fs::read_to_string(program.with_extension("txt")).unwrap_or_default();
        let Some(said) = errors(&program, &crates) else {
            wrong.push(format!("{name} compiles"));
            continue;
        };
        let missing: Vec<_> = expected.lines().filter(|line| !said.contains(line.trim())).collect();
        if expected.trim().is_empty() || !missing.is_empty() {
            wrong.push(format!("{name}: expected and not said: {missing:#?}\nsaid:\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn missing_state_is_told_at_start() {
    let store = ichido_sqlite::Sqlite::new("sqlite://nowhere.db", Vec::new()).unwrap();
    let said = state_that_is_missing::process(store).check_pools().unwrap_err().to_string();
    let expected = std::fs::read_to_string(folder().join("at_start/state_that_is_missing.txt")).unwrap();
    let missing: Vec<_> = expected.lines().filter(|line| !said.contains(line)).collect();
    assert!(!expected.is_empty() && missing.is_empty(), "expected and not said: {missing:#?}\nsaid: {said}");
}
