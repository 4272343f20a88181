//! What only SQLite does behind our back: an error like FULL may or may not end the transaction. Whatever it does, what was
//! written before and after it has the same fate, and so has the message.

use std::{collections::BTreeMap, time::Duration};

use ichido::{NewMessage, Operate, Queue, Registration, Status, Store, Table};
use ichido_conformance::fixture::TABLES;
use ichido_sqlite::Sqlite;
use sqlx::{AssertSqlSafe, Connection, Executor, Row, SqliteConnection};

#[tokio::test(flavor = "multi_thread")]
async fn after_a_swallowed_full_disk_everything_or_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let mut outside = SqliteConnection::connect(&format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
    sqlx::raw_sql(TABLES).execute(&mut outside).await.unwrap();
    let status = Status::new("status", "0", "1").failed("2");
    let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
    let store = Sqlite::new(&format!("sqlite://{}", file.display()), vec![queue]).unwrap();
    store.migrate().await.unwrap();
    let process = Registration::new("full", Duration::from_secs(30), BTreeMap::from([("orders".into(), 3)]));
    store.register(&process).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.send(Sqlite::connection(&mut tx), "orders", &[NewMessage::new(r#"{"id":1}"#)]).await.unwrap();
    store.commit(tx).await.unwrap();
    let claimed = store.claim(process.id, "orders", 1).await.unwrap();

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
