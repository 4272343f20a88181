//! What the builder is told: where the file is, and how many connections are opened to it.

use std::{fs, path::Path};

use ichido::{Error, Operate, Queue, store::Database};
use ichido_sqlite::{
    Sqlite,
    sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

/// How often this process has the file open.
fn open(file: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|open| open == file)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_connections_as_asked_for_are_opened_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("shop.db");
    // What would break a promise is not taken over.
    let options = SqliteConnectOptions::new().filename(&file).journal_mode(SqliteJournalMode::Delete);
    let builder = || Sqlite::builder().options(options.clone()).queues([Queue::managed("mail")]);
    builder().build().unwrap().migrate().await.unwrap();
    let before = open(&file);
    let store = builder().connections(4, 4).build().unwrap();
    assert_eq!(open(&file), before, "nothing is opened yet");
    store.prepare().await.unwrap();
    assert_eq!(open(&file), before + 4);
    assert_eq!(store.connections().total(), 4 + 3 * 4);
    assert!(file.with_extension("db-wal").exists());
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let memory = SqliteConnectOptions::new();
    for (what, refused) in [
        ("nowhere", Sqlite::builder().build()),
        ("in memory", Sqlite::builder().options(memory).build()),
        ("in memory", Sqlite::builder().url("sqlite::memory:").build()),
        ("nobody reads", Sqlite::builder().url("sqlite://shop.db").connections(1, 1).build()),
        ("more at the start than at most", Sqlite::builder().url("sqlite://shop.db").connections(3, 2).build()),
    ] {
        assert!(matches!(refused, Err(Error::Setup(_))), "accepted: {what}");
    }
}
