//! Who is alive. A process holds the lock on a file of its own for as long as it lives; whoever gets that lock knows that it
//! is dead. A stopped process keeps its lock, and so its messages.

use std::{
    collections::HashMap,
    fs::{File, TryLockError},
    io::{self, Seek, Write},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use ichido::store::ProcessId;
use ichido_sql::LastHeartbeat;

use crate::locks::Locks;

/// The lock files of processes.
pub(crate) struct Alive {
    locks: Arc<Locks>,
    ours: Mutex<HashMap<ProcessId, File>>,
}

impl Alive {
    pub(crate) fn new(locks: Arc<Locks>) -> Self {
        Alive { locks, ours: Mutex::default() }
    }

    /// From now on this process is alive.
    pub(crate) fn begin(&self, process: ProcessId) -> io::Result<()> {
        let file = self.locks.open(&name(process))?;
        file.lock()?;
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).insert(process, file);
        Ok(())
    }

    pub(crate) fn is_ours(&self, process: ProcessId) -> bool {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&process)
    }

    /// Leaves a word beside the lock of a process of ours: what it runs. Nothing depends on it that a lost word would harm.
    pub(crate) fn tell(&self, process: ProcessId, word: &str) {
        let ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        let told = ours.get(&process).map_or(Ok(()), |mut file| {
            file.rewind()?;
            file.write_all(word.as_bytes())?;
            file.set_len(word.len() as u64)?;
            // An empty word leaves the file as it is, but for this.
            file.set_modified(SystemTime::now())
        });
        if let Err(error) = told {
            tracing::debug!(%error, "cannot write into the lock file of {process}");
        }
    }

    /// The last word of a process, alive or dead, and how long ago it was left.
    pub(crate) fn told(&self, process: ProcessId) -> Option<LastHeartbeat> {
        let path = self.path(process);
        let runs = std::fs::read_to_string(&path).ok()?;
        let left = std::fs::metadata(&path).and_then(|about| about.modified()).ok()?;
        let age_ms = left.elapsed().ok().and_then(|age| i64::try_from(age.as_millis()).ok());
        Some(LastHeartbeat { runs: Some(runs).filter(|runs| !runs.is_empty()), age_ms })
    }

    /// From now on it is not.
    pub(crate) fn end(&self, process: ProcessId) {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).remove(&process);
        self.remove(process);
    }

    /// The lock of a dead process; none if it is alive. Who looks shares it: a look must not look like a life.
    pub(crate) fn dead(&self, process: ProcessId) -> io::Result<Option<File>> {
        if self.is_ours(process) {
            return Ok(None);
        }
        let file = self.locks.open(&name(process))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(crate) fn remove(&self, process: ProcessId) {
        if let Err(error) = std::fs::remove_file(self.path(process)) {
            tracing::debug!(%error, "cannot remove the lock file of {process}");
        }
    }

    fn path(&self, process: ProcessId) -> PathBuf {
        self.locks.folder().join(name(process))
    }
}

fn name(process: ProcessId) -> String {
    format!("{process}.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_does_not_look_alive() {
        let folder = tempfile::tempdir().unwrap();
        let alive = || Alive::new(Arc::new(Locks::beside(&folder.path().join("a.db"))));
        let (process, one, other) = (ProcessId::random(), alive(), alive());
        one.begin(process).unwrap();
        assert!(other.dead(process).unwrap().is_none(), "it is alive");
        one.tell(process, "a long word");
        one.tell(process, "a word");
        assert_eq!(other.told(process).unwrap().runs.as_deref(), Some("a word"));
        one.end(process);
        let look = one.dead(process).unwrap();
        assert!(look.is_some() && other.dead(process).unwrap().is_some(), "both see that it is dead");
    }
}
