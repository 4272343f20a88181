//! Whom a folder belongs to in which processes of a host meet. Anybody may make one in a shared place before us: in a folder of somebody
//! else's we would be kept awake, tell which queues there are, or wait for a lock that is never released.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Whoever may write to a file, or only this user.
pub struct Writers(Option<Metadata>);

impl Writers {
    /// Whoever may write to this file, if it is there.
    #[must_use]
    pub fn to(file: &Path) -> Self {
        Writers(fs::metadata(file).ok())
    }

    /// Only this user.
    #[must_use]
    pub fn us() -> Self {
        Writers(None)
    }

    /// The file's owner and group.
    #[must_use]
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.0.as_ref().map(|file| (file.uid(), file.gid()))
    }

    /// The mode of a file that all of them, and nobody else, may read and write.
    #[must_use]
    pub fn file_mode(&self) -> u32 {
        let write = 0o200 | self.0.as_ref().map_or(0, |file| file.mode() & 0o222);
        write | write << 1
    }

    /// The mode of a folder that all of them, and nobody else, may use.
    #[must_use]
    pub fn folder_mode(&self) -> u32 {
        self.file_mode() | (self.file_mode() & 0o222) >> 1
    }

    /// Does the folder belong to one of them?
    ///
    /// # Errors
    /// It does not, is none, or a link leads to it.
    pub fn check_owner(&self, folder: &Path) -> io::Result<Metadata> {
        let about = fs::symlink_metadata(folder)?;
        let us = rustix::process::geteuid().as_raw();
        let is_ours = self.0.as_ref().map_or(about.uid() == us, |file| {
            let in_group = file.mode() & 0o020 != 0 && file.gid() == about.gid();
            [us, 0, file.uid()].contains(&about.uid()) || in_group || file.mode() & 0o002 != 0
        });
        match (about.is_dir(), is_ours) {
            (true, true) => Ok(about),
            (true, false) => Err(refused(folder, &format!("belongs to another user ({})", about.uid()))),
            (false, _) => Err(refused(folder, "is not a folder")),
        }
    }

    /// Does the folder belong to one of them, and can nobody else write to it?
    ///
    /// # Errors
    /// It is not so.
    pub fn check(&self, folder: &Path) -> io::Result<Metadata> {
        let about = self.check_owner(folder)?;
        if about.mode() & 0o022 & !self.folder_mode() != 0 {
            return Err(refused(folder, "is writable for other users"));
        }
        Ok(about)
    }
}

fn refused(folder: &Path, why: &str) -> io::Error {
    let text = format!("`{}` {why}; remove it, and ichido makes it anew", folder.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}
