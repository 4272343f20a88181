//! Where a server's commands are: Debian keeps those of PostgreSQL
//! outside PATH, one folder per version, and a server proper in `/usr/sbin`,
//! which not everybody has in PATH. Used by the servers beside this file.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The first folder that holds all of `names`: of `first`, then of PATH.
pub(super) fn folder_with(names: &[&str], first: Vec<PathBuf>) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    first.into_iter().chain(env::split_paths(&path)).find(|folder| names.iter().all(|name| folder.join(name).is_file()))
}

/// The folders `<parent>/<version>/bin`, highest version first.
pub(super) fn by_version(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(version, _)| Reverse(*version));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_complete_version_wins() {
        let parent = tempfile::tempdir().expect("a folder");
        for (version, programs) in [("9", "ab"), ("15", "ab"), ("17", "a"), ("x", "ab")] {
            let bin = parent.path().join(version).join("bin");
            fs::create_dir_all(&bin).expect("a folder");
            for program in programs.chars() {
                fs::write(bin.join(program.to_string()), "").expect("a file");
            }
        }
        let found = folder_with(&["a", "b"], by_version(parent.path()));
        assert_eq!(found, Some(parent.path().join("15/bin")));
    }

    #[test]
    fn the_search_path_comes_last() {
        assert!(folder_with(&["sh"], vec![PathBuf::from("/nowhere")]).is_some());
        assert_eq!(folder_with(&["no-such-program"], Vec::new()), None);
    }
}
