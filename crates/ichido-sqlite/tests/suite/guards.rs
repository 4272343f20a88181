//! What only SQLite does behind our back. An error like FULL may or may not end the transaction: whatever it does, what was
//! written before and after it has the same fate, and so has the message. Writers that are not ichido's stand in no line.
//! And values are compared by a column's affinity and collation, which SQLite does not tell.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use ichido::{
    Delivery, Error, Guarded, Key, Message, NewMessage, Operate, Queue, Status, Table,
    store::{Database, Mutexes, Processes, Queues, Registration, Transactions},
};
use ichido_sqlite::Sqlite;
use ichido_testkit::fixture::{Player, TABLES, assert_group_is_held};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::fixture::OnSqlite;

/// A database with one claimed order, and a connection to it that is not ichido's and does not wait.
struct Scene {
    file: PathBuf,
    store: Sqlite,
    outside: SqliteConnection,
    claimed: Vec<Delivery>,
    _folder: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let mut outside = options.busy_timeout(Duration::ZERO).connect().await.unwrap();
        sqlx::raw_sql(TABLES).execute(&mut outside).await.unwrap();
        let status = Status::new("status", "0", "1").failed("2");
        let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
        let store = Sqlite::new(&format!("sqlite://{}", file.display()), vec![queue]).unwrap();
        store.migrate().await.unwrap();
        let process = Registration::new("guards", Duration::from_mins(20), BTreeMap::from([("orders".into(), 3)]));
        store.register(&process).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        store.send(Sqlite::connection(&mut tx), "orders", &[NewMessage::new(r#"{"id":1}"#)]).await.unwrap();
        store.commit(tx).await.unwrap();
        let claimed = store.claim(process.id, "orders", 1).await.unwrap();
        Scene { file, store, outside, claimed, _folder: folder }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_writer_cannot_come_between_what_is_read_and_what_is_written() {
    let Scene { store, mut outside, claimed, _folder, .. } = Scene::new().await;
    let mut tx = store.begin().await.unwrap();
    let connection = Sqlite::connection(&mut tx);
    connection.fetch_one("select count(*) from ledger").await.unwrap();
    let foreign = outside.execute("insert into ledger values ('foreign', 'foreign')").await;
    connection
        .execute("insert into ledger values ('ours', 'action')")
        .await
        .expect("the right to write came with BEGIN");
    store.complete(&mut tx, &claimed).await.unwrap();
    store.commit(tx).await.unwrap();
    assert!(foreign.is_err_and(|busy| Sqlite::is_fault(&busy)), "who comes later waits, or is told that it must");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_may_be_equal_for_the_column_are_refused() {
    let mut scene = Scene::new().await;
    let table = "create table word (id integer primary key, state varchar(9) not null, grade integer not null, taken_by char(36))";
    scene.outside.execute(table).await.unwrap();
    let looked_at = async |status: Status| {
        let queue = Queue::table("words", Table::new("word", "taken_by", status));
        Sqlite::new(&format!("sqlite://{}", scene.file.display()), vec![queue]).unwrap().prepare().await
    };
    for (column, new, done) in
        [("grade", "1", "01"), ("grade", "1", "1.0"), ("state", "new", "NEW"), ("state", "n", "n ")]
    {
        match looked_at(Status::new(column, new, done)).await {
            Err(Error::Setup(text)) => assert!(text.contains("are equal"), "{text}"),
            other => panic!("expected a refusal of {new} and {done}, got {other:?}"),
        }
    }
    looked_at(Status::new("state", "1", "01")).await.expect("they differ as text");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_swallowed_full_disk_everything_or_nothing_stays() {
    let Scene { store, mut outside, claimed, _folder, .. } = Scene::new().await;
    let mut tx = store.begin().await.unwrap();
    let connection = Sqlite::connection(&mut tx);
    connection.execute("insert into ledger values ('early', 'action')").await.unwrap();
    let pages: i64 = sqlx::query("pragma page_count").fetch_one(&mut *connection).await.unwrap().get(0);
    connection.execute(AssertSqlSafe(format!("pragma max_page_count = {}", pages + 2))).await.unwrap();
    let full = connection.execute("insert into ledger values (hex(zeroblob(1000000)), 'large')").await.unwrap_err();
    assert!(Sqlite::is_fault(&full), "{full}");
    connection.execute("pragma max_page_count = 1000000").await.unwrap();
    let _ = connection.execute("insert into ledger values ('late', 'action')").await;
    let completed = store.complete(&mut tx, &claimed).await;
    let done = if completed.is_ok() {
        store.commit(tx).await.unwrap();
        1
    } else {
        store.rollback(tx).await.unwrap();
        0
    };
    for query in [
        "select count(*) from ledger where message = 'early'",
        "select count(*) from ledger where message = 'late'",
        "select count(*) from received_order where status = '1'",
    ] {
        let number: i64 = sqlx::query(query).fetch_one(&mut outside).await.unwrap().get(0);
        assert_eq!(number, done, "{query}, completed: {completed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_holds_what_is_the_same_group_for_the_column() {
    let mut scene = Scene::new().await;
    for (kind, same, other) in [
        ("text collate nocase", ["'a'", "'A'", "'a'"], "'b'"),
        ("text collate rtrim not null", ["'a'", "'a '", "'a'"], "'A'"),
        ("integer", ["1", "'1'", "1.0"], "2"),
        ("numeric", ["0.5", "'.5'", "0.50"], "2"),
        ("real", ["1", "'1'", "1.0"], "2"),
        ("blob", ["x'61'", "x'61'", "x'61'"], "'b'"),
    ] {
        let [one, two, three] = same;
        let table = format!(
            "drop table if exists held; create table held (id integer primary key, g {kind}, s char(1) default '0' not null, o text); \
             insert into held (id, g) values (1, {one}), (2, {two}), (3, {three}), (4, {other})"
        );
        sqlx::raw_sql(AssertSqlSafe(table)).execute(&mut scene.outside).await.unwrap();
        let queue = Table::new("held", "o", Status::new("s", "0", "1").failed("2")).group_by("g");
        let url = format!("sqlite://{}", scene.file.display());
        let store = Sqlite::new(&url, vec![Queue::table("held", queue)]).unwrap();
        assert_group_is_held(&Player::<OnSqlite>::join_with(store, &["held"]).await, "held", kind).await;
    }
}

#[tokio::test]
async fn a_brokers_queue_that_is_held_by_locks_is_refused_with_the_way_out() {
    let scene = Scene::new().await;
    let url = format!("sqlite://{}", scene.file.display());
    let store = |guarded: Guarded| Sqlite::new(&url, vec![Queue::broker("paid", guarded)]).unwrap();
    let locked = store(Guarded::new("shop", "paid"));
    for refused in [locked.prepare().await, locked.guard("paid").await.map(|_| ())] {
        let Err(Error::Setup(why)) = refused else { panic!("{refused:?}") };
        assert_eq!(why, "queues.paid.claim: SQLite has no row locks; write claim = \"lease\"");
    }
    let leased = store(Guarded::new("shop", "paid").lease());
    leased.prepare().await.unwrap();
    let mut tx = leased.begin().await.unwrap();
    let delivery = Delivery::unclaimed(Message::new("paid", Key::new(["1"]), *b"{}"));
    let lock = leased.lock(&mut tx, &delivery).await;
    assert!(matches!(&lock, Err(Error::Setup(why)) if why.contains("claim = \"lease\"")), "{lock:?}");
    leased.rollback(tx).await.unwrap();
}
