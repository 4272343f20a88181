//! What others on the host hear of sends, seen through a socket of the test's own in the folder of the database.
#![cfg(unix)]

use std::{os::unix::net::UnixDatagram, path::PathBuf, time::Duration};

use ichido::{
    Client, Operate, Queue,
    store::{Database, Transactions},
};
use ichido_sqlite::Sqlite;
use ichido_testkit::LIMIT;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Others are told of what was rung at least this often.
const SILENCE: Duration = Duration::from_millis(160);

struct Scene {
    store: Sqlite,
    ear: UnixDatagram,
    _folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        let queues = vec![Queue::managed("mail")];
        let store = runtime().block_on(async {
            let store = Sqlite::new(&format!("sqlite://{}", file.display()), queues).unwrap();
            store.migrate().await.unwrap();
            store
        });
        let sockets = PathBuf::from(format!("{}-ichido", file.display()));
        let ear = UnixDatagram::bind(sockets.join("test.bell")).unwrap();
        Scene { store, ear, _folder: folder }
    }

    async fn send(&self, queue: &str) {
        let mut tx = self.store.begin().await.unwrap();
        Client::new(self.store.clone()).queue(queue).send(Sqlite::connection(&mut tx), &1).await.unwrap();
        self.store.commit(tx).await.unwrap();
    }

    /// The queue that somebody told of, if that happens in time.
    fn hears(&self, time: Duration) -> Option<String> {
        let mut queue = [0; 64];
        self.ear.set_read_timeout(Some(time)).unwrap();
        let length = self.ear.recv(&mut queue).ok()?;
        Some(String::from_utf8_lossy(&queue[..length]).into_owned())
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn who_told_in_a_runtime_that_is_gone_is_followed_by_another() {
    let scene = Scene::new();
    for _ in 0..3 {
        let runtime = runtime();
        runtime.block_on(scene.send("mail"));
        assert_eq!(scene.hears(LIMIT).as_deref(), Some("mail"));
        drop(runtime); // while the send is still to be rung again
        while scene.hears(SILENCE).is_some() {}
    }
}
