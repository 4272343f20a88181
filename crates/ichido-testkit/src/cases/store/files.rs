//! Files that an action opens through its context: seen with the COMMIT, whole, or never.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ichido::{
    Context, Outcome, Pool, Process, Result, RetryPolicy, Store,
    handlers::{Files, Limit, Retry, Scope},
    store::{FileSetId, Files as _, ProcessId, Transactions as _},
};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::{
    faults::{Fault, FaultyStore, Scene, Verb},
    fixture::{Connection, Fixture, effect, effects, failed, send, send_orders},
    in_time,
};

#[derive(Deserialize)]
pub(crate) struct Order {
    id: i64,
    name: Option<String>,
}

/// Writes a file in two pieces; its name says what becomes of it.
pub(crate) async fn write<F: Fixture, S: Store<Connection = Connection<F>>>(
    cx: &mut Context<S>,
    order: Order,
) -> Result<Outcome> {
    let message = cx.message()?.clone();
    effect::<F>(cx.tx().await?, &message).await?;
    let path = format!("orders/{}.txt", order.id);
    cx.file(&path).await?.write_all(b"order ").await?;
    cx.file(&path).await?.write_all(order.id.to_string().as_bytes()).await?;
    match order.name.as_deref() {
        Some("error") => Err("a bad order".into()),
        Some("panic") => panic!("a worse order"),
        Some("park") => Ok(Outcome::park("an odd order")),
        Some("out") => Ok(cx.file("../out.txt").await.map(|_| Outcome::Done)?),
        Some("folder") => Ok(cx.file("taken/inside").await.map(|_| Outcome::Done)?),
        _ => Ok(Outcome::Done),
    }
}

pub(crate) fn orders() -> Pool {
    let retry =
        RetryPolicy { attempts: 2, first: Duration::from_millis(1), max: Duration::from_millis(2), factor: 1.0 };
    Pool::new("Filing").from("orders").concurrency(2).retry(retry)
}

pub(crate) fn filing<S: Store>(process: Process<S>, folder: &Path) -> Process<S> {
    let folder = folder.to_owned();
    process.handlers(move |queue| queue.before(Scope::Worker, "transaction", Files::below(folder)))
}

pub(crate) async fn drain<S: Store>(process: Process<S>) -> i32 {
    let process = process.poll(Duration::from_millis(5)).drain();
    in_time("the process ends", process.run()).await.unwrap()
}

/// A fresh database with orders of these names, and a folder.
pub(crate) async fn with_names<F: Fixture>(names: &[&str]) -> (F, TempDir) {
    let fixture = F::fresh().await;
    send_orders(&fixture, names.len().try_into().unwrap()).await;
    for (at, name) in names.iter().enumerate() {
        fixture.sql(&format!("update received_order set name = '{name}' where id = {}", at + 1)).await;
    }
    (fixture, tempfile::tempdir().unwrap())
}

/// Every file below the folder with what is in it; hidden ones too, but for the locks.
pub(crate) fn seen(folder: &Path) -> BTreeMap<String, String> {
    let (mut seen, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "lock") {
                seen.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    seen
}

/// What is there if the files of these orders are, and nothing else.
pub(crate) fn files(ids: &[i64]) -> BTreeMap<String, String> {
    ids.iter().map(|id| (format!("orders/{id}.txt"), format!("order {id}"))).collect()
}

pub(crate) async fn notes<F: Fixture>(fixture: &F) -> i64 {
    fixture.number("select count(*) from ichido_files").await
}

pub async fn a_file_is_seen_when_its_message_is_done_and_not_before<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&["", "", ""]).await;
    let watched = folder.path().to_owned();
    let look = move || watched.join("orders").exists();
    let process = filing(Process::new(fixture.store()), folder.path());
    let process = process.action(orders().concurrency(1), Watched { write: write::<F, F::Store>, look });
    assert_eq!(drain(process).await, 0);
    assert_eq!(seen(folder.path()), files(&[1, 2, 3]));
    assert_eq!((effects(&fixture).await, notes(&fixture).await), (3, 0));
}

/// An action that finds no file of the first message before it is done.
pub(crate) struct Watched<W, L> {
    pub(crate) write: W,
    pub(crate) look: L,
}

impl<S: Store, W, L: Fn() -> bool + Send + Sync + 'static> ichido::Action<S> for Watched<W, L>
where
    W: for<'a> ichido::ActionFn<'a, S, Order>,
{
    type Message = Order;

    async fn handle(&self, cx: &mut Context<S>, order: Order) -> Result<Outcome> {
        let first = order.id == 1;
        let outcome = self.write.call(cx, order).await?;
        assert_eq!((self.look)(), !first, "seen before its time, or not at all");
        Ok(outcome)
    }
}

pub async fn a_file_of_a_failed_message_is_never_seen<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&["error", "panic", "park", ""]).await;
    let process = filing(Process::new(fixture.store()), folder.path());
    assert_eq!(drain(process.action_fn(orders(), write::<F, F::Store>)).await, 0);
    assert_eq!(seen(folder.path()), files(&[4]));
    assert_eq!((effects(&fixture).await, notes(&fixture).await), (1, 0));
}

pub async fn a_path_from_a_message_does_not_lead_out_of_the_folder<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&["out"]).await;
    let below = folder.path().join("below");
    let process = filing(Process::new(fixture.store()), &below);
    assert_eq!(drain(process.action_fn(orders(), write::<F, F::Store>)).await, 0);
    assert_eq!(seen(folder.path()), files(&[]));
    let failed = failed(&fixture).await;
    assert_eq!(failed[0].1, 1, "it is hopeless");
    assert!(failed[0].2.starts_with("`../out.txt` is not a valid file path"), "{failed:?}");
}

pub async fn files_of_messages_that_share_a_transaction_appear_together<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&["", "", "error", "", ""]).await;
    let process = filing(Process::new(fixture.store()), folder.path());
    let pool = orders().concurrency(1).commit_interval(5);
    assert_eq!(drain(process.action_fn(pool, write::<F, F::Store>)).await, 0);
    assert_eq!(seen(folder.path()), files(&[1, 2, 4, 5]));
}

fn soon() -> Retry {
    Retry { limit: Limit::Count(9), interval: Duration::from_millis(1), ..Retry::default() }
}

async fn scene<F: Fixture>() -> (Scene<F>, TempDir) {
    let scene = Scene::<F>::new(1).await;
    (scene, tempfile::tempdir().unwrap())
}

pub async fn a_file_appears_though_the_reply_to_its_commit_is_lost<F: Fixture>() {
    for harm in [Fault::ReplyLost, Fault::Unreachable] {
        let (scene, folder) = scene::<F>().await;
        scene.faults.inject(Verb::Commit, harm, 1);
        let process = filing(scene.process(), folder.path());
        let action = write::<F, FaultyStore<F::Store>>;
        scene.drain(process.retry(soon()).action_fn(orders().concurrency(1), action)).await;
        assert_eq!((scene.done().await, seen(folder.path())), (1, files(&[1])), "{harm:?}");
        assert_eq!(effects(&scene.fixture).await, 1);
    }
}

pub async fn a_file_whose_fate_nobody_could_tell_waits_for_the_next_start<F: Fixture>() {
    let (scene, folder) = scene::<F>().await;
    scene.faults.inject(Verb::Commit, Fault::ReplyLost, 1);
    scene.faults.inject(Verb::Decide, Fault::Unreachable, 1);
    let action = write::<F, FaultyStore<F::Store>>;
    let process = || filing(scene.process(), folder.path()).action_fn(orders().concurrency(1), action);
    scene.drain(process()).await;
    let hidden: Vec<_> = seen(folder.path()).into_keys().collect();
    assert!(hidden.len() == 1 && hidden[0].starts_with(".ichido/"), "{hidden:?}");
    assert_eq!((scene.done().await, notes(&scene.fixture).await), (1, 1));
    scene.drain(process()).await;
    assert_eq!((seen(folder.path()), notes(&scene.fixture).await), (files(&[1]), 0), "there was nothing else to do");
}

pub async fn what_is_decided_stays_decided<F: Fixture>() {
    let fixture = F::fresh().await;
    let (one, other, stage) = (fixture.store(), fixture.store(), ProcessId::random());
    let set = move |number| FileSetId { stage, number };
    let mut tx = one.begin().await.unwrap();
    one.note_files(&mut tx, set(1)).await.unwrap();
    one.complete(&mut tx, &[]).await.unwrap();
    one.commit(tx).await.unwrap();
    assert!(other.decide_files(set(1)).await.unwrap() && other.decide_files(set(1)).await.unwrap());
    assert!(!other.decide_files(set(2)).await.unwrap() && !other.decide_files(set(2)).await.unwrap());
    let mut tx = one.begin().await.unwrap();
    one.note_files(&mut tx, set(2)).await.expect_err("it was decided that this is not committed");
    one.rollback(tx).await.unwrap();
    other.delete_file_sets(stage, None).await.unwrap();
    assert_eq!(notes(&fixture).await, 1, "what was revoked stays: somebody may still try");
    // Whoever asks while a transaction is about to commit waits for it.
    let mut tx = one.begin().await.unwrap();
    one.note_files(&mut tx, set(3)).await.unwrap();
    let asked = tokio::spawn(async move { other.decide_files(set(3)).await });
    tokio::task::yield_now().await;
    one.complete(&mut tx, &[]).await.unwrap();
    one.commit(tx).await.unwrap();
    let committed = asked.await.unwrap().unwrap();
    let noted = fixture.number("select count(*) from ichido_files where number = 3").await;
    assert!(committed && noted == 1);
}

pub async fn a_start_cleans_up_after_the_dead_and_spares_the_living<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&[]).await;
    let (dead, committed) = left_behind(folder.path(), 1, false);
    let (living, spared) = left_behind(folder.path(), 2, true);
    let mut tx = fixture.store().begin().await.unwrap();
    let store = fixture.store();
    store.note_files(&mut tx, FileSetId { stage: dead, number: 7 }).await.unwrap();
    store.complete(&mut tx, &[]).await.unwrap();
    store.commit(tx).await.unwrap();
    let process = filing(Process::new(fixture.store()), folder.path());
    assert_eq!(drain(process.action_fn(orders(), write::<F, F::Store>)).await, 0);
    let mut expected = files(&[1]);
    expected.insert(format!(".ichido/{living}/7/orders/2.txt"), "order 2".to_owned());
    expected.insert(format!(".ichido/{living}/8/orders/gone.txt"), "never".to_owned());
    assert_eq!(seen(folder.path()), expected);
    assert!(committed.is_none() && spared.is_some());
}

/// The hidden folder of another process, with a set that may be committed and one that is not, and its lock if it lives.
pub(crate) fn left_behind(folder: &Path, order: i64, lives: bool) -> (ProcessId, Option<fs::File>) {
    let id = ProcessId::random();
    let hidden = folder.join(".ichido");
    let put = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(hidden.join(format!("{id}/7/orders/{order}.txt")), &format!("order {order}"));
    put(hidden.join(format!("{id}/8/orders/gone.txt")), "never");
    let lock = fs::File::create(hidden.join(format!("{id}.lock"))).unwrap();
    lock.lock().unwrap();
    (id, lives.then_some(lock))
}

pub async fn without_the_handler_there_are_no_files<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "orders", &[r#"{"id":1}"#]).await;
    let process = Process::new(fixture.store()).action_fn(orders(), write::<F, F::Store>);
    assert_ne!(drain(process).await, 0);
    assert_eq!(effects(&fixture).await, 0);
}
