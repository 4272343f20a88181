//! A reader of your own: a folder in which each file `*.json` is a message. A file that is done is removed; one that has failed
//! three times is renamed to `*.json.failed`. Who writes a file gives it its name when it is complete.
//!
//! The database knows nothing of the files, so a file whose effects are committed can come again after a crash; take its name
//! as a unique key. One process reads a folder: what is in hand is known to this reader only.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ichido::{
    Context, Delivery, Key, Message, Operate, Outcome, Pool, Process, Reader, Result, message::Mark, readers::Turn,
};
use ichido_sqlite::Sqlite;
use tokio::sync::Notify;

const TRIES: u32 = 3;
const POLL: Duration = Duration::from_millis(200);

pub(crate) struct Directory {
    folder: PathBuf,
    files: Mutex<Files>,
    given_back: Notify,
}

#[derive(Default)]
struct Files {
    in_hand: BTreeSet<String>,
    tries: BTreeMap<String, u32>,
    closed: bool,
}

impl Directory {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Directory { folder: folder.into(), files: Mutex::default(), given_back: Notify::new() }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first file that nobody has in hand.
    fn free(&self, files: &Files) -> io::Result<Option<String>> {
        let mut first: Option<String> = None;
        for entry in fs::read_dir(&self.folder)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let message = name.rsplit_once('.').is_some_and(|(_, kind)| kind == "json");
            let free = message && !files.in_hand.contains(&name);
            if free && first.as_ref().is_none_or(|first| name < *first) {
                first = Some(name);
            }
        }
        Ok(first)
    }
}

impl Reader for Directory {
    fn try_next(&self) -> Result<Turn> {
        let mut files = self.files();
        if files.closed {
            return Ok(Turn::Finished);
        }
        let Some(name) = self.free(&files)? else { return Ok(Turn::Empty) };
        let payload = fs::read(self.folder.join(&name))?;
        files.in_hand.insert(name.clone());
        Ok(Turn::Delivery(Box::new(Delivery::unclaimed(Message::new("files", Key::new([name]), payload)))))
    }

    async fn changed(&self) {
        let _ = tokio::time::timeout(POLL, self.given_back.notified()).await;
    }

    async fn settle(&self, delivery: Delivery) -> Result<()> {
        let name = delivery.message.key.columns().concat();
        let file = self.folder.join(&name);
        let mut files = self.files();
        let tries = files.tries.get(&name).copied().unwrap_or_default() + 1;
        if delivery.mark == Some(Mark::Done) {
            fs::remove_file(&file)?;
        } else if tries >= TRIES {
            fs::rename(&file, self.folder.join(format!("{name}.failed")))?;
        } else {
            files.tries.insert(name.clone(), tries);
        }
        files.in_hand.remove(&name);
        self.given_back.notify_one();
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.files().closed = true;
        Ok(())
    }
}

async fn import(cx: &mut Context<Sqlite>, content: serde_json::Value) -> Result<Outcome> {
    println!("{}: {content}", cx.message_id()?);
    Ok(Outcome::Done)
}

#[tokio::main]
async fn main() -> Result<()> {
    let store = Sqlite::new("sqlite://directory.db", vec![])?;
    store.migrate().await?;
    let pool = Pool::new("Import").reader(Directory::new("inbox")).concurrency(2);
    let code = Process::new(store).action_fn(pool, import).run().await?;
    std::process::exit(code)
}
