//! `.ci/sbom`: the bill of materials names all that the program is made of, with the hash by which it is pinned, and nothing else.

use std::{collections::BTreeMap, fs, process::Command};

use serde_json::Value;

use super::repository;

fn bill(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(".ci/sbom").args(arguments).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The components by name and version, with their hashes.
fn components(bill: &[u8]) -> BTreeMap<(String, String), Option<String>> {
    let bill: Value = serde_json::from_slice(bill).expect("JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(bill["metadata"]["component"]["name"], "ichido-cli");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let component = |part: &Value| {
        let hash = part["hashes"][0]["content"].as_str().map(str::to_owned);
        ((text(&part["name"]), text(&part["version"])), hash)
    };
    bill["components"].as_array().expect("a list").iter().map(component).collect()
}

fn has(bill: &BTreeMap<(String, String), Option<String>>, name: &str) -> bool {
    bill.keys().any(|(known, _)| known == name)
}

/// Whoever swaps a package cannot keep it out of the bill: the hashes are those of `Cargo.lock`, and none is missing.
#[test]
fn every_part_from_the_registry_is_named_with_its_hash() {
    let lock = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let whole = bill(&[]);
    let parts = components(&whole);
    assert!(parts.len() > 200 && has(&parts, "sqlx-core") && has(&parts, "lapin") && has(&parts, "rustls"));
    for ((name, version), hash) in &parts {
        let ours = name.starts_with("ichido");
        assert_eq!(hash.is_none(), ours, "{name}");
        let head = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        let entry = lock.split("[[package]]\n").find(|entry| entry.starts_with(&head));
        let entry = entry.unwrap_or_else(|| panic!("{name} {version} is not in Cargo.lock"));
        let pinned = entry.lines().find_map(|line| line.strip_prefix("checksum = "));
        assert_eq!(hash.as_deref(), pinned.map(|hash| hash.trim_matches('"')), "{name}");
    }
    assert_eq!(whole, bill(&[]), "the same commit gives the same bytes");
}

#[test]
fn what_only_tests_or_other_features_need_is_not_in_the_program() {
    let whole = components(&bill(&[]));
    assert!(!has(&whole, "ichido-test-servers") && !has(&whole, "trybuild"));
    let small = components(&bill(&["--no-default-features", "--features", "sqlite"]));
    assert!(has(&small, "ichido-sqlite") && !has(&small, "lapin") && !has(&small, "ichido-postgres"));
}
