//! Moving files to where they are seen, and finding those that nobody will move any more. Plain file system calls, which block.

use std::{
    fs::{self, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::{HIDDEN, beneath::Place, lock_file, set_folder, told};
use crate::{Error, error::Result, store::ProcessId};

/// Refuses a place where a file could not appear: it is a folder, or below a file.
pub(super) fn refuse_taken(folder: &Path, place: &Path) -> Result<()> {
    let refused = |path: &Path, what| Err(Error::Refused(format!("`{}` is {what}", path.display())));
    if folder.join(place).is_dir() {
        return refused(&folder.join(place), "a folder");
    }
    let above = place.ancestors().skip(1).map(|above| folder.join(above));
    above.filter(|above| above.is_file()).try_for_each(|file| refused(&file, "a file"))?;
    match Place::find(folder, place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let path = folder.join(place);
            Err(Error::Refused(format!("`{}` is not a valid file path: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Moves all files of a set to their places and returns how many there were. Each appears whole, and what was there before is
/// replaced. Done again after a crash, it moves the rest.
pub(super) fn publish(set: &Path, folder: &Path, sync: bool) -> Result<usize> {
    let files = below(set)?;
    for file in &files {
        let path = file.strip_prefix(set).map_err(Error::failed)?;
        publish_one(set, folder, path, sync).map_err(|error| told("create", &folder.join(path), &error))?;
    }
    remove(set)?;
    Ok(files.len())
}

fn publish_one(set: &Path, folder: &Path, path: &Path, sync: bool) -> io::Result<()> {
    let hidden = Place::find(set, path)?;
    let place = Place::make(folder, path)?;
    hidden.move_to(&place)?;
    if sync { place.sync() } else { Ok(()) }
}

/// Removes a set, whatever is in it.
pub(super) fn remove(set: &Path) -> Result<()> {
    match fs::remove_dir_all(set) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(told("remove", set, &error)),
        _ => Ok(()),
    }
}

/// The names of new files are on the disk, too.
pub(super) fn sync_folders(set: &Path) -> Result<()> {
    for file in below(set)? {
        for folder in file.ancestors().skip(1).take_while(|folder| folder.starts_with(set)) {
            sync_folder(folder)?;
        }
    }
    set.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> Result<()> {
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| told("sync", folder, &error))
}

/// All files below a folder; none if it is not there.
fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in listed(&folder)? {
            // A link is not followed: what it leads to is not ours to move.
            let is_folder = entry.symlink_metadata().is_ok_and(|about| about.is_dir());
            if is_folder { folders.push(entry) } else { files.push(entry) }
        }
    }
    files.sort();
    Ok(files)
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| told("read", folder, &error))?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<io::Result<_>>().map_err(|error| told("read", folder, &error))
}

/// Processes that left a folder behind and are dead, each with its lock.
pub(super) fn dead(folder: &Path, own: ProcessId) -> Result<Vec<(ProcessId, fs::File)>> {
    let mut dead = Vec::new();
    for entry in listed(&folder.join(HIDDEN))? {
        let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(id) = name.parse::<ProcessId>().ok().filter(|id| entry.is_dir() && *id != own) else { continue };
        let path = lock_file(folder, id);
        let lock = fs::File::create(&path).map_err(|error| told("open", &path, &error))?;
        match lock.try_lock() {
            Ok(()) => dead.push((id, lock)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(told("lock", &path, &error)),
        }
    }
    Ok(dead)
}

/// Removes the folder of a dead process and its lock. Somebody else may have done it meanwhile.
pub(super) fn remove_dead(folder: &Path, dead: ProcessId, lock: fs::File) -> Result<()> {
    remove(&set_folder(folder, dead, None))?;
    drop(fs::remove_file(lock_file(folder, dead)));
    drop(lock);
    Ok(())
}

/// The sets that are in a folder.
pub(super) fn numbers(folder: &Path) -> Result<Vec<i64>> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
    let mut numbers: Vec<i64> = listed(folder)?.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_gone_meanwhile_is_no_error() {
        let (folder, own, gone) = (tempfile::tempdir().unwrap(), ProcessId::random(), ProcessId::random());
        let hidden = set_folder(folder.path(), gone, None);
        fs::create_dir_all(&hidden).unwrap();
        let mut dead = dead(folder.path(), own).unwrap();
        let (id, lock) = dead.pop().unwrap();
        assert_eq!((id, dead.len()), (gone, 0));
        fs::remove_dir(hidden).unwrap();
        assert!(numbers(&set_folder(folder.path(), gone, None)).unwrap().is_empty());
        remove_dead(folder.path(), gone, lock).unwrap();
        assert_eq!(fs::read_dir(folder.path().join(HIDDEN)).unwrap().count(), 0);
    }
}
