//! The lock files beside a database. Whoever may write to the database may lock them, and nobody else can even open them: a lock needs no
//! more than that, and who holds one holds up every writer. `turn` and `alive` use them.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use ichido::process::Writers;
use rustix::fs::OFlags;
use uuid::Uuid;

/// The folder of lock files beside a database.
pub(crate) struct Locks {
    database: PathBuf,
    folder: PathBuf,
    is_checked: AtomicBool,
}

impl Locks {
    pub(crate) fn beside(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-ichido");
        Locks { database: database.into(), folder: name.into(), is_checked: AtomicBool::new(false) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens a lock file, made if it is not there.
    pub(crate) fn open(&self, name: &str) -> io::Result<File> {
        if !self.is_checked.load(Ordering::Relaxed) {
            self.prepare()?;
        }
        let path = self.folder.join(name);
        let open = || OpenOptions::new().write(true).open(&path);
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !self.folder.exists() {
                    self.prepare()?;
                }
                self.make_file(&path)?;
                open()
            }
            result => result,
        }
    }

    /// Makes the folder, or gives one of an earlier version, or from before the database changed hands, its mode and owner.
    fn prepare(&self) -> io::Result<()> {
        let writers = Writers::to(&self.database);
        if !self.folder.exists() {
            self.make_folder(&writers)?;
        }
        writers.check_owner(&self.folder)?;
        give(&self.folder, &writers, writers.folder_mode());
        for lock in fs::read_dir(&self.folder)?.flatten().map(|entry| entry.path()) {
            if lock.extension().is_some_and(|ending| ending == "lock") {
                give(&lock, &writers, writers.file_mode());
            }
        }
        writers.check(&self.folder)?;
        // A database that is yet to be made may belong to others then.
        self.is_checked.store(writers.owner().is_some(), Ordering::Relaxed);
        Ok(())
    }

    /// Nobody sees it before its mode is what it must be.
    fn make_folder(&self, writers: &Writers) -> io::Result<()> {
        let mut new = self.folder.clone().into_os_string();
        new.push(format!("-{}", Uuid::now_v7().simple()));
        DirBuilder::new().mode(0o700).create(&new)?;
        give(Path::new(&new), writers, writers.folder_mode());
        let made = fs::rename(&new, &self.folder);
        if made.is_err() {
            fs::remove_dir(&new)?;
        }
        // Another process may have been faster.
        if self.folder.exists() { Ok(()) } else { made }
    }

    fn make_file(&self, path: &Path) -> io::Result<()> {
        let writers = Writers::to(&self.database);
        let new = self.folder.join(format!("{}.new", Uuid::now_v7().simple()));
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        give(&new, &writers, writers.file_mode());
        let made = fs::hard_link(&new, path);
        fs::remove_file(&new)?;
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // A file system without links: others may have to try again meanwhile.
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
                give(path, &writers, writers.file_mode());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Gives a file or folder the owner and group of the database, as far as we may, and this mode. A group that is not the database's gets
/// nothing. Through neither kind of link: what one leads to is not ours to give.
fn give(path: &Path, writers: &Writers, mode: u32) {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let given = OpenOptions::new().read(true).custom_flags(flags).open(path).and_then(|file| {
        let about = file.metadata()?;
        if !about.is_dir() && (!about.is_file() || about.nlink() != 1) {
            return Ok(());
        }
        let (uid, gid) = writers.owner().unwrap_or((about.uid(), about.gid()));
        let is_shared = about.gid() == gid || fchown(&file, None, Some(gid)).is_ok();
        let mode = if is_shared { mode } else { mode & !0o070 };
        if about.mode() & 0o7777 != mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        if about.uid() != uid {
            let _ = fchown(&file, Some(uid), None);
        }
        Ok(())
    });
    if let Err(error) = given {
        tracing::debug!(%error, "cannot change the mode of `{}`", path.display());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_those_who_write_to_the_database_can_hold_its_locks() {
        for (database, folder, file) in
            [(0o644, 0o700, 0o600), (0o660, 0o770, 0o660), (0o664, 0o770, 0o660), (0o600, 0o700, 0o600)]
        {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("a.db");
            File::create(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(database)).unwrap();
            let locks = Locks::beside(&path);
            locks.open("gate.lock").unwrap();
            assert_eq!((mode(locks.folder()), mode(&locks.folder().join("gate.lock"))), (folder, file), "{database:o}");
            assert_eq!(fs::read_dir(locks.folder()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_an_earlier_version_left_open_is_closed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let locks = Locks::beside(&path);
        fs::create_dir(locks.folder()).unwrap();
        fs::set_permissions(locks.folder(), Permissions::from_mode(0o777)).unwrap();
        let lock = locks.folder().join("turn.lock");
        File::create(&lock).unwrap();
        fs::set_permissions(&lock, Permissions::from_mode(0o666)).unwrap();
        locks.open("gate.lock").unwrap();
        assert_eq!((mode(locks.folder()), mode(&lock)), (0o700, 0o600));
    }

    #[test]
    fn what_a_link_leads_to_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("a.db"), place.path().join("other"));
        for file in [&path, &other] {
            File::create(file).unwrap();
            fs::set_permissions(file, Permissions::from_mode(0o640)).unwrap();
        }
        let locks = Locks::beside(&path);
        fs::create_dir(locks.folder()).unwrap();
        symlink(&other, locks.folder().join("link.lock")).unwrap();
        fs::hard_link(&other, locks.folder().join("hard.lock")).unwrap();
        locks.open("gate.lock").unwrap();
        assert_eq!((mode(locks.folder()), mode(&other)), (0o700, 0o640));
    }

    #[test]
    fn locks_belong_to_the_databases_owner_and_a_strangers_folder_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        File::create(&path).unwrap();
        if chown(&path, Some(4711), Some(4712)).is_err() {
            return; // only root can try it
        }
        let locks = Locks::beside(&path);
        locks.open("gate.lock").unwrap();
        for owned in [locks.folder(), &locks.folder().join("gate.lock")] {
            let about = fs::metadata(owned).unwrap();
            assert_eq!((about.uid(), about.gid()), (4711, 4712));
        }
        chown(locks.folder(), Some(4713), Some(4713)).unwrap();
        let refused = Locks::beside(&path).open("gate.lock").unwrap_err();
        assert!(refused.to_string().contains("belongs to another user (4713)"), "{refused}");
    }
}
