//! Writes the macro that makes a test of every case, so that a case's name stands once, where the case is, and none can be
//! forgotten. Each entry of `src/cases` is a suite: a folder with a file for each topic, or a single file. A case is a public
//! asynchronous function without parameters and without a result, generic over its fixtures.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The fixtures that a case may be generic over, and how the macro calls them.
const FIXTURES: [(&str, &str, &str); 5] = [
    ("<F: Fixture>", "$fixture:ty", "$fixture"),
    ("<F: SilenceFixture>", "$fixture:ty", "$fixture"),
    ("<R: ReaderFixture>", "$fixture:ty", "$fixture"),
    ("<F: Fixture, B: BrokerFixture>", "$fixture:ty, $broker:ty", "$fixture, $broker"),
    ("<F: Fixture, B: ExchangeFixture>", "$fixture:ty, $broker:ty", "$fixture, $broker"),
];

fn main() {
    println!("cargo::rerun-if-changed=src/cases");
    let mut suites = String::new();
    for entry in sorted(Path::new("src/cases")) {
        if !is_named(&entry, "mod") {
            suites += &suite(&entry);
        }
    }
    let text = format!("#[doc(hidden)]\n#[macro_export]\nmacro_rules! __suite {{\n{suites}}}\n");
    fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join("suites.rs"), text).unwrap();
}

/// An arm of the macro: a module of tests for each topic.
fn suite(entry: &Path) -> String {
    let name = name(entry);
    let topics = if entry.is_dir() { topics(entry) } else { vec![entry.to_owned()] };
    let (mut tests, mut parameters) = (String::new(), None);
    for file in &topics {
        let topic = self::name(file);
        let path = if entry.is_dir() { format!("{name}::{topic}") } else { topic.clone() };
        let mut module = String::new();
        for (case, fixtures) in cases(file) {
            let (_, takes, passes) = FIXTURES[fixtures];
            assert!(*parameters.get_or_insert(takes) == takes, "{}: {case} has other fixtures", file.display());
            let call = format!("$crate::cases::{path}::{case}::<{passes}>()");
            writeln!(module, "#[test] fn {case}() {{ $crate::run({call}); }}").unwrap();
        }
        if !module.is_empty() {
            writeln!(tests, "mod {topic} {{ #[allow(unused_imports)] use super::*;\n{module}}}").unwrap();
        }
    }
    parameters.map_or_else(String::new, |takes| format!("({name}, {takes}) => {{\n{tests}}};\n"))
}

/// The files of a suite. What lies deeper, and `mod.rs`, is for what cases share.
fn topics(folder: &Path) -> Vec<PathBuf> {
    let (topics, shared): (Vec<_>, Vec<_>) =
        sorted(folder).into_iter().partition(|entry| entry.is_file() && !is_named(entry, "mod"));
    for entry in shared {
        let files = if entry.is_dir() { sorted(&entry) } else { vec![entry] };
        for file in files {
            assert!(file.is_file() && cases(&file).is_empty(), "{}: no place for cases", file.display());
        }
    }
    topics
}

/// The cases of a file, each with its kind of fixture.
fn cases(file: &Path) -> Vec<(String, usize)> {
    let text = fs::read_to_string(file).unwrap();
    let functions = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
    let case = |function: &str| {
        let (name, rest) = function.split_at(function.find(['<', '(']).unwrap_or(function.len()));
        let kind = FIXTURES.iter().position(|(generics, ..)| rest == format!("{generics}() {{"));
        let why = "is public and asynchronous, as cases are, but is not of a case's form";
        (name.to_owned(), kind.unwrap_or_else(|| panic!("{}: `{function}` {why}", file.display())))
    };
    functions.map(case).collect()
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.retain(|entry| entry.is_dir() || entry.extension().is_some_and(|kind| kind == "rs"));
    entries.sort();
    entries
}

fn name(entry: &Path) -> String {
    entry.file_stem().unwrap().to_str().unwrap().to_owned()
}

fn is_named(entry: &Path, name: &str) -> bool {
    self::name(entry) == name
}
