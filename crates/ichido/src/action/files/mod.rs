//! Files that belong to a transaction. Each is written out of sight, in a hidden folder beside its place; a row in the same
//! transaction says that they belong to it; and only after the COMMIT they are moved to where they are seen. Whoever comes
//! after a crash asks the database, which knows what was committed. `Context::file` opens them, the `transaction` handler
//! decides about them, and the handler `files` begins with what others left behind.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    fs, io,
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use tokio::{fs::File, io::AsyncWriteExt as _, task::spawn_blocking};

use self::beneath::Place;
use crate::{
    Error, Store,
    error::Result,
    store::{self, FileSetId, ProcessId},
};

mod beneath;
mod place;

/// What is not yet seen is below this name, in the folder of the handler `files`.
const HIDDEN: &str = ".ichido";

/// The hidden folder of one process. Whoever gets the lock beside it knows that the process is dead.
pub(crate) struct Stage {
    folder: PathBuf,
    id: ProcessId,
    sync: bool,
    sets: AtomicI64,
    /// Sets of which nobody could tell whether they are committed, or that could not be moved.
    undecided: Mutex<VecDeque<i64>>,
    _lock: fs::File,
}

/// The files of one transaction.
pub(crate) struct FileSet {
    stage: Arc<Stage>,
    number: i64,
    files: BTreeMap<PathBuf, File>,
    /// No transaction can have committed them yet.
    is_open: bool,
}

/// What became of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Committed,
    RolledBack,
    Unknown,
}

impl Stage {
    /// A hidden folder of our own.
    pub(crate) async fn open(folder: PathBuf, sync: bool) -> Result<Self> {
        let id = ProcessId::random();
        let (own, lock) = (hidden_folder(id, None), hidden_lock(id));
        let below = folder.clone();
        let lock = blocking(move || {
            fs::create_dir_all(&below).map_err(|error| told("create", &below, &error))?;
            // The lock is there before the folder: a folder without one belongs to nobody.
            let file = Place::make(&below, &lock).and_then(|place| place.create());
            let file = file.map_err(|error| told("create", &lock, &error))?;
            file.lock().map_err(|error| told("lock", &lock, &error))?;
            let made = Place::make(&below, &own).and_then(|place| place.make_folder());
            made.map_err(|error| told("create", &own, &error))?;
            Ok(file)
        });
        let unusable = |error| {
            let text = "cannot use the folder of the handler `files`";
            Error::Setup(format!("{text}, `{}`: {error}", folder.display()))
        };
        let lock = lock.await.map_err(unusable)?;
        Ok(Stage { folder, id, sync, sets: AtomicI64::new(1), undecided: Mutex::default(), _lock: lock })
    }

    /// Decides about what dead processes left behind, and about what we could not.
    pub(crate) async fn recover<S: Store>(self: &Arc<Self>, store: &S) -> Result<()> {
        let open = self.undecided().len();
        for _ in 0..open {
            self.decide_one(store).await?;
        }
        let (folder, own) = (self.folder.clone(), self.id);
        for (dead, lock) in blocking(move || place::dead(&folder, own)).await? {
            let below = set_folder(&self.folder, dead, None);
            let mut is_settled = true;
            for number in blocking(move || place::numbers(&below)).await? {
                is_settled &= self.decide(store, FileSetId { stage: dead, number }).await?;
            }
            if is_settled {
                // It may have died before it forgot what was in its place.
                store::delete_file_sets(store, dead, None).await?;
                let folder = self.folder.clone();
                blocking(move || place::remove_dead(&folder, dead, lock)).await?;
            }
        }
        Ok(())
    }

    /// Decides about the one that has waited longest; if that does not help, the next one's turn comes first.
    async fn decide_one<S: Store>(&self, store: &S) -> Result<()> {
        let Some(number) = self.undecided().pop_front() else { return Ok(()) };
        let decided = self.decide(store, FileSetId { stage: self.id, number }).await;
        if !matches!(decided, Ok(true)) {
            self.undecided().push_back(number);
        }
        decided.map(drop)
    }

    /// The database knows whether a set is committed; if it is not, it never will be from now on. False if something is in the
    /// way of its files: that is told, and holds up nobody else.
    async fn decide<S: Store>(&self, store: &S, id: FileSetId) -> Result<bool> {
        let FileSetId { stage, number } = id;
        let (set, folder, sync) = (set_folder(&self.folder, stage, Some(number)), self.folder.clone(), self.sync);
        let is_committed = store::decide_files(store, id).await?;
        let settled =
            blocking(
                move || {
                    if is_committed { place::publish(&set, &folder, sync) } else { place::remove(&set).map(|()| 0) }
                },
            );
        match settled.await {
            Ok(moved) if is_committed => {
                tracing::info!(moved, "files of a committed transaction moved into place");
                store::delete_file_sets(store, stage, Some(number)).await?;
            }
            Ok(_) => {}
            Err(error) => return Ok(told_again(is_committed, &error)),
        }
        Ok(true)
    }

    fn undecided(&self) -> std::sync::MutexGuard<'_, VecDeque<i64>> {
        self.undecided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stage {
    /// What is still open stays for the next start; otherwise nothing is left.
    fn drop(&mut self) {
        if fs::remove_dir(set_folder(&self.folder, self.id, None)).is_ok() {
            drop(fs::remove_file(lock_file(&self.folder, self.id)));
        }
    }
}

impl FileSet {
    pub(crate) fn new(stage: Arc<Stage>) -> Self {
        let number = stage.sets.fetch_add(1, Ordering::Relaxed);
        FileSet { stage, number, files: BTreeMap::new(), is_open: true }
    }

    /// The file for this place, created at first use.
    pub(crate) async fn file(&mut self, path: &Path) -> Result<&mut File> {
        let place = proper(path)?;
        let hidden = hidden_folder(self.stage.id, Some(self.number)).join(&place);
        let (folder, seen) = (self.stage.folder.clone(), place.clone());
        match self.files.entry(place) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(new) => {
                let file = blocking(move || {
                    place::refuse_taken(&folder, &seen)?;
                    let file = Place::make(&folder, &hidden).and_then(|place| place.create());
                    file.map_err(|error| told("create", &folder.join(&hidden), &error))
                });
                Ok(new.insert(File::from_std(file.await?)))
            }
        }
    }

    /// What was written to a file of it, which nobody else sees yet.
    pub(crate) async fn written(&mut self, path: &Path) -> Result<Vec<u8>> {
        let place = proper(path)?;
        let Some(file) = self.files.get_mut(&place) else {
            return Err(Error::Refused(format!("nothing was written to `{}`", path.display())));
        };
        file.flush().await.map_err(|error| told("write", path, &error))?;
        let hidden = self.folder().join(&place);
        blocking(move || fs::read(&hidden).map_err(|error| told("read", &hidden, &error))).await
    }

    pub(crate) fn id(&self) -> FileSetId {
        FileSetId { stage: self.stage.id, number: self.number }
    }

    /// Everything that was written is on the disk, before the database says that it is.
    pub(crate) async fn seal(&mut self) -> Result<()> {
        self.is_open = false;
        for (path, mut file) in std::mem::take(&mut self.files) {
            let written = match file.flush().await {
                Ok(()) if self.stage.sync => file.sync_all().await,
                flushed => flushed,
            };
            written.map_err(|error| told("write", &path, &error))?;
        }
        let (folder, sync) = (self.folder(), self.stage.sync);
        blocking(move || if sync { place::sync_folders(&folder) } else { Ok(()) }).await
    }

    /// Moves them to where they are seen, removes them, or asks the database.
    pub(crate) async fn end<S: Store>(self, store: &S, fate: Fate) {
        let stage = self.stage.clone();
        match fate {
            Fate::RolledBack => return self.remove().await,
            Fate::Committed if !self.publish(store).await => return,
            Fate::Committed => {}
            Fate::Unknown => stage.undecided().push_back(self.number),
        }
        // Also what could not be moved before; one at a time, not to be held up by it.
        if let Err(error) = stage.decide_one(store).await {
            tracing::warn!("commit outcome of a transaction unknown; its files stay hidden until it is known: {error}");
        }
    }

    /// Whether they are in their places.
    async fn publish<S: Store>(&self, store: &S) -> bool {
        let (set, folder, sync) = (self.folder(), self.stage.folder.clone(), self.stage.sync);
        if let Err(error) = blocking(move || place::publish(&set, &folder, sync)).await {
            self.stage.undecided().push_back(self.number);
            return told_again(true, &error);
        }
        if let Err(error) = store::delete_file_sets(store, self.stage.id, Some(self.number)).await {
            tracing::debug!(error = %error.in_full(), "cannot delete the record of files that are already in place");
        }
        true
    }

    pub(crate) async fn remove(mut self) {
        self.files.clear();
        let set = self.folder();
        if let Err(error) = blocking(move || place::remove(&set)).await {
            told_again(false, &error);
        }
        self.is_open = false;
    }

    fn folder(&self) -> PathBuf {
        set_folder(&self.stage.folder, self.stage.id, Some(self.number))
    }
}

impl Drop for FileSet {
    /// Its message was dropped, out of grace or with a test: what it wrote was never anything.
    fn drop(&mut self) {
        if self.is_open
            && let Err(error) = place::remove(&self.folder())
        {
            told_again(false, &error);
        }
    }
}

/// Below the folder of the handler: the one of a process, or of a set of files.
fn hidden_folder(id: ProcessId, number: Option<i64>) -> PathBuf {
    let own = Path::new(HIDDEN).join(id.to_string());
    number.map_or(own.clone(), |number| own.join(number.to_string()))
}

fn hidden_lock(id: ProcessId) -> PathBuf {
    Path::new(HIDDEN).join(format!("{id}.lock"))
}

fn set_folder(folder: &Path, id: ProcessId, number: Option<i64>) -> PathBuf {
    folder.join(hidden_folder(id, number))
}

fn lock_file(folder: &Path, id: ProcessId) -> PathBuf {
    folder.join(hidden_lock(id))
}

/// A path below the folder. It may come from a message, and messages are hostile.
fn proper(path: &Path) -> Result<PathBuf> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let named = path.file_name().is_some() && !path.to_string_lossy().ends_with('/');
    if plain && named && !path.starts_with(HIDDEN) {
        return Ok(path.to_owned());
    }
    let text = "it must lie below the folder of the handler `files`, without `..`";
    Err(Error::Refused(format!("`{}` is not a valid file path: {text}", path.display())))
}

fn told(verb: &str, path: &Path, error: &io::Error) -> Error {
    format!("cannot {verb} `{}`: {error}", path.display()).into()
}

/// Says that something is in the way of files, and returns that they are not settled.
fn told_again(is_committed: bool, error: &Error) -> bool {
    if is_committed {
        tracing::error!("cannot move committed files into place: {error}; will retry");
    } else {
        tracing::warn!("cannot remove the files of a rolled-back transaction: {error}; will retry");
    }
    false
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::Panic(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_folder() {
        for good in ["a", "a/b.csv", "日本/一度.txt", "..a", ".hidden"] {
            assert_eq!(proper(Path::new(good)).unwrap(), Path::new(good));
        }
        for bad in ["", "/etc/passwd", "../a", "a/../../b", "a/..", ".", "a/", ".ichido/x", ".ichido"] {
            assert!(matches!(proper(Path::new(bad)), Err(Error::Refused(_))), "{bad}");
        }
    }
}
