//! Files that something is in the way of: their places are taken, their folder cannot be used, others clean up at the same moment,
//! or their message is out of time.

use std::{fs, future::pending, os::unix::fs::symlink, path::Path, sync::Arc, time::Duration};

use ichido::{
    Context, Outcome, Process, Result, Store,
    store::{FileSetId, Files, ProcessId, Transactions},
};
use tokio::{io::AsyncWriteExt as _, sync::Notify};

use super::files::{Watched, drain, files, filing, left_behind, notes, orders, seen, with_names, write};
use crate::{
    fixture::{Fixture, effects, failed},
    size,
};

fn process<F: Fixture>(fixture: &F, folder: &Path) -> Process<F::Store> {
    filing(Process::new(fixture.store()), folder).action_fn(orders(), write::<F, F::Store>)
}

/// The transaction of the first set that a process left behind was committed.
async fn commit<F: Fixture>(fixture: &F, stage: ProcessId) {
    let store = fixture.store();
    let mut tx = store.begin().await.unwrap();
    store.note_files(&mut tx, FileSetId { stage, number: 7 }).await.unwrap();
    store.complete(&mut tx, &[]).await.unwrap();
    store.commit(tx).await.unwrap();
}

/// How many sets are committed and not known to be in their places.
async fn waiting<F: Fixture>(fixture: &F) -> i64 {
    fixture.number("select count(*) - count(case when revoked then 1 end) from ichido_files").await
}

pub async fn a_file_that_cannot_be_put_in_its_place_waits<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&[""]).await;
    let place = folder.path().join("orders");
    let look = {
        let place = place.clone();
        move || fs::write(&place, "in the way").is_err()
    };
    let first = filing(Process::new(fixture.store()), folder.path());
    assert_eq!(drain(first.action(orders(), Watched { write: write::<F, F::Store>, look })).await, 0);
    assert_eq!((effects(&fixture).await, notes(&fixture).await), (1, 1), "committed all the same");
    fs::remove_file(place).unwrap();
    assert_eq!(drain(process(&fixture, folder.path())).await, 0);
    assert_eq!((seen(folder.path()), notes(&fixture).await), (files(&[1]), 0));
}

pub async fn a_place_below_a_file_is_refused<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&["folder"]).await;
    fs::write(folder.path().join("taken"), "a file").unwrap();
    assert_eq!(drain(process(&fixture, folder.path())).await, 0);
    assert_eq!((effects(&fixture).await, notes(&fixture).await), (0, 0));
    let failed = failed(&fixture).await;
    assert!(failed[0].1 == 1 && failed[0].2.ends_with("taken` is a file"), "{failed:?}");
}

/// Somebody has left a link in the folder, and a message names a path through it.
pub async fn a_link_out_of_the_folder_is_refused<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&["folder"]).await;
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), folder.path().join("taken")).unwrap();
    assert_eq!(drain(process(&fixture, folder.path())).await, 0);
    assert_eq!((effects(&fixture).await, notes(&fixture).await), (0, 0));
    let failed = failed(&fixture).await;
    assert!(failed[0].1 == 1 && failed[0].2.contains("a symbolic link leads out of the folder"), "{failed:?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// Somebody makes the link when the file is written and not yet in its place.
pub async fn a_committed_file_does_not_follow_a_link_out_of_the_folder<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&[""]).await;
    let (link, outside) = (folder.path().join("orders"), tempfile::tempdir().unwrap());
    let look = {
        let (link, outside) = (link.clone(), outside.path().to_owned());
        move || symlink(&outside, &link).is_err()
    };
    let first = filing(Process::new(fixture.store()), folder.path());
    assert_eq!(drain(first.action(orders(), Watched { write: write::<F, F::Store>, look })).await, 0);
    assert_eq!((effects(&fixture).await, notes(&fixture).await), (1, 1), "committed all the same");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    fs::remove_file(link).unwrap();
    assert_eq!(drain(process(&fixture, folder.path())).await, 0);
    assert_eq!((seen(folder.path()), notes(&fixture).await), (files(&[1]), 0));
}

pub async fn files_with_something_in_their_way_hold_up_nobody<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&["", "", ""]).await;
    let stages = [4, 5].map(|order| left_behind(folder.path(), order, false).0);
    let blocked = folder.path().join(format!(".ichido/{}/7", stages[0]));
    fs::rename(blocked.join("orders"), blocked.join("taken")).unwrap();
    fs::write(folder.path().join("taken"), "in the way").unwrap();
    for stage in stages {
        commit(&fixture, stage).await;
    }
    assert_eq!(drain(process(&fixture, folder.path())).await, 0);
    assert_eq!((effects(&fixture).await, waiting(&fixture).await), (3, 1));
    let mut expected = files(&[1, 2, 3, 5]);
    expected.insert("taken".to_owned(), "in the way".to_owned());
    expected.insert(format!(".ichido/{}/7/taken/4.txt", stages[0]), "order 4".to_owned());
    assert_eq!(seen(folder.path()), expected);
    fs::remove_file(folder.path().join("taken")).unwrap();
    assert_eq!(drain(process(&fixture, folder.path())).await, 0);
    assert_eq!(fs::read_to_string(folder.path().join("taken/4.txt")).unwrap(), "order 4");
    assert_eq!(waiting(&fixture).await, 0);
}

pub async fn many_that_begin_and_end_at_once_do_not_disturb_each_other<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&[]).await;
    for order in 1..=20 {
        let (dead, _) = left_behind(folder.path(), order, false);
        commit(&fixture, dead).await;
    }
    // What ends takes its own folder away, under the eyes of those that begin.
    for _ in 0..size(10, 100) {
        let processes: Vec<_> = (0..4).map(|_| tokio::spawn(drain(process(&fixture, folder.path())))).collect();
        for process in processes {
            assert_eq!(process.await.unwrap(), 0);
        }
    }
    assert_eq!(seen(folder.path()), files(&(1..=20).collect::<Vec<_>>()));
    assert_eq!(fs::read_dir(folder.path().join(".ichido")).unwrap().count(), 0, "neither folders nor locks are left");
}

pub async fn a_folder_that_cannot_be_used_is_named_at_the_start<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&[""]).await;
    let taken = folder.path().join("taken");
    fs::write(&taken, "a file").unwrap();
    assert_eq!(drain(process(&fixture, &taken)).await, 127);
    assert_eq!((effects(&fixture).await, failed(&fixture).await.len()), (0, 0));
}

/// Writes a file and never ends.
struct Endless(Arc<Notify>);

impl<S: Store> ichido::Action<S> for Endless {
    type Message = serde_json::Value;

    async fn handle(&self, cx: &mut Context<S>, _: serde_json::Value) -> Result<Outcome> {
        cx.file("endless.txt").await?.write_all(b"never").await?;
        self.0.notify_one();
        pending().await
    }
}

pub async fn nothing_is_left_of_a_message_out_of_grace<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&[""]).await;
    let (begun, stop) = (Arc::new(Notify::new()), ichido::CancellationToken::new());
    let settings =
        ichido::process::Settings { grace: Duration::from_millis(1), ..ichido::process::Settings::default() };
    let process = filing(Process::new(fixture.store()).settings(settings), folder.path()).stop_on(stop.clone());
    let running = tokio::spawn(process.action(orders(), Endless(begun.clone())).run());
    begun.notified().await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap(), 0);
    assert_eq!(fs::read_dir(folder.path().join(".ichido")).unwrap().count(), 0, "neither folders nor locks are left");
}
