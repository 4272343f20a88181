//! Ways below a folder that do not lead out of it: neither through `..` nor through a symbolic link, whoever makes one meanwhile. Linux
//! resolves a whole path that way (`openat2`); where it does not, each step is made alone and a link is not followed at all.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, FileType, Mode, OFlags, fsync, mkdirat, openat, renameat, statat},
    io::Errno,
};

/// A folder is only passed through.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// A place below a folder: the folder that it is in, held open, and its name there.
pub(super) struct Place {
    folder: OwnedFd,
    name: PathBuf,
}

impl Place {
    /// The place at this path below a folder, if there is a folder for it.
    pub(super) fn find(root: &Path, path: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(root, PASS, Mode::empty())?;
        Place::at(enter(&root, parent(path)).map_err(out)?, path)
    }

    /// The same; folders that are not there are made.
    pub(super) fn make(root: &Path, path: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(root, PASS, Mode::empty())?;
        Place::at(enter_or_make(&root, parent(path)).map_err(out)?, path)
    }

    fn at(folder: OwnedFd, path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::INVAL)?.into();
        Ok(Place { folder, name })
    }

    /// A new file here.
    pub(super) fn create(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.folder, &self.name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    pub(super) fn make_folder(&self) -> io::Result<()> {
        Ok(mkdirat(&self.folder, &self.name, Mode::from_raw_mode(0o777))?)
    }

    /// Moves what is here to another place, where it replaces a file or a link.
    pub(super) fn move_to(&self, other: &Place) -> io::Result<()> {
        Ok(renameat(&self.folder, &self.name, &other.folder, &other.name)?)
    }

    /// What the folder says about its files is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let folder = openat(&self.folder, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(fsync(folder)?)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn out(error: Errno) -> io::Error {
    match error {
        Errno::XDEV | Errno::LOOP => io::Error::other("a symbolic link leads out of the folder"),
        error => error.into(),
    }
}

/// Opens a folder below another one, and makes what is missing on the way.
fn enter_or_make(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut folder = enter(root, Path::new("."))?;
    let mut passed = PathBuf::new();
    for name in path {
        passed.push(name);
        folder = match enter(root, &passed) {
            Err(Errno::NOENT) => match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => enter(root, &passed)?,
                Err(error) => return Err(error),
            },
            entered => entered?,
        };
    }
    Ok(folder)
}

#[cfg(target_os = "linux")]
fn enter(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};

    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(root, path, PASS, Mode::empty(), beneath) {
            // Something was renamed meanwhile.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An old kernel, or a container that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return step_by_step(root, path),
            entered => return entered,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn enter(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    step_by_step(root, path)
}

fn step_by_step(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut folder = openat(root, ".", PASS, Mode::empty())?;
    for name in path {
        if name == ".." || name == "/" {
            return Err(Errno::XDEV);
        }
        folder = openat(&folder, name, PASS | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| {
            let is_link = statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::Symlink);
            if is_link { Errno::LOOP } else { error }
        })?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(root.path().join("in/side")).unwrap();
        symlink(outside.path(), root.path().join("out")).unwrap();
        symlink("..", root.path().join("in/up")).unwrap();
        symlink("in/up/in/up/../..", root.path().join("far")).unwrap();
        symlink("in/side", root.path().join("short")).unwrap();
        let fd = rustix::fs::open(root.path(), PASS, Mode::empty()).unwrap();
        for (path, whole, in_steps) in [
            ("in/side", true, true),
            ("short", true, false),
            ("out", false, false),
            ("far", false, false),
            ("in/up/..", false, false),
            ("..", false, false),
            ("/", false, false),
        ] {
            assert_eq!(enter(&fd, Path::new(path)).is_ok(), whole, "{path}");
            assert_eq!(step_by_step(&fd, Path::new(path)).is_ok(), in_steps, "{path}, step by step");
        }
        assert!(Place::make(root.path(), Path::new("out/new/file")).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
