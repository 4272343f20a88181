//! What only this server does behind our back: a deadlock that ends the transaction, and DDL that commits it. What an action
//! writes afterwards must not be there, and the message is not done.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    Error, NewMessage, Operate, Queue, Result, Status, Table,
    store::{Database, Processes, Queues, Registration, Transactions},
};
use ichido_mysql::{MySql, Tx};
use ichido_test_servers as servers;
use ichido_testkit::fixture::TABLES;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};

struct Scene {
    url: String,
    store: MySql,
}

impl Scene {
    async fn new() -> Self {
        let url = servers::MariaDb::shared().fresh_database();
        let status = Status::new("status", "0", "1").failed("2");
        let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
        let store = MySql::new(&url, None, 6, false, vec![queue]).unwrap();
        let scene = Scene { url, store };
        sqlx::raw_sql(TABLES).execute(&mut scene.connection().await).await.unwrap();
        sqlx::raw_sql("insert into only_one values (1), (2)").execute(&mut scene.connection().await).await.unwrap();
        scene.store.migrate().await.unwrap();
        let mut tx = scene.store.begin().await.unwrap();
        scene.store.send(MySql::connection(&mut tx), "orders", &[NewMessage::new(r#"{"id":1}"#)]).await.unwrap();
        scene.store.commit(tx).await.unwrap();
        scene
    }

    async fn connection(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url).await.unwrap()
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query(AssertSqlSafe(query)).fetch_one(&mut self.connection().await).await.unwrap().get(0)
    }

    /// Claims the order, lets `action` play with the transaction, and completes.
    async fn complete(&self, action: impl AsyncFnOnce(&mut Tx)) -> Result<(), Error> {
        let process = Registration::new("guards", Duration::from_mins(20), BTreeMap::from([("orders".into(), 3)]));
        self.store.register(&process).await?;
        let claimed = self.store.claim(process.id, "orders", 1).await?;
        let mut tx = self.store.begin().await?;
        action(&mut tx).await;
        let completed = self.store.complete(&mut tx, &claimed).await;
        self.store.rollback(tx).await?;
        completed
    }
}

async fn run(tx: &mut Tx, statement: &'static str) -> Result<(), sqlx::Error> {
    MySql::connection(tx).execute(statement).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_swallowed_deadlock_nothing_stays() {
    let scene = Scene::new().await;
    let mut other = scene.connection().await;
    // The one with less to undo is the victim: the other has written more.
    let heavy = "begin; insert into ledger values ('x', 'x'), ('x', 'x'), ('x', 'x'), ('x', 'x'), ('x', 'x'), ('x', 'x'); update only_one set id = id where id = 2";
    sqlx::raw_sql(heavy).execute(&mut other).await.unwrap();
    let completed = scene
        .complete(async |tx| {
            run(tx, "insert into ledger values ('early', 'action')").await.unwrap();
            run(tx, "update only_one set id = id where id = 1").await.unwrap();
            let circle = tokio::spawn(async move {
                sqlx::raw_sql("update only_one set id = id where id = 1").execute(&mut other).await.unwrap();
                sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
            });
            let deadlock = run(tx, "update only_one set id = id where id = 2").await.unwrap_err();
            assert!(MySql::is_fault(&deadlock), "{deadlock}");
            circle.await.unwrap();
            run(tx, "insert into ledger values ('late', 'action')").await.unwrap();
        })
        .await;
    assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "{completed:?}");
    assert_eq!(scene.number("select count(*) from ledger").await, 0);
    assert_eq!(scene.number("select count(*) from received_order where status = '0'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_ddl_in_an_action_later_writes_do_not_stay_and_the_message_is_not_done() {
    let scene = Scene::new().await;
    let completed = scene
        .complete(async |tx| {
            run(tx, "create table made_by_action (id int)").await.unwrap();
            run(tx, "insert into ledger values ('late', 'action')").await.unwrap();
        })
        .await;
    assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "{completed:?}");
    assert_eq!(scene.number("select count(*) from ledger").await, 0);
    assert_eq!(scene.number("select count(*) from received_order where status = '0'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_equal_for_the_collation_or_too_wide_are_refused() {
    let scene = Scene::new().await;
    let table = "create table word (id int primary key, state varchar(3) not null, taken_by char(36), narrow char(32)) default charset utf8mb4";
    sqlx::raw_sql(table).execute(&mut scene.connection().await).await.unwrap();
    let refusal = async |owner: &str, status: Status| {
        let queue = Queue::table("words", Table::new("word", owner, status));
        match MySql::new(&scene.url, None, 4, false, vec![queue]).unwrap().prepare().await {
            Err(Error::Setup(text)) => text,
            other => panic!("expected a refusal, got {other:?}"),
        }
    };
    assert!(refusal("taken_by", Status::new("state", "new", "NEW")).await.contains("are equal"));
    assert!(refusal("taken_by", Status::new("state", "n", "n ")).await.contains("are equal"));
    assert!(refusal("taken_by", Status::new("state", "new", "done")).await.contains("does not fit"));
    assert!(refusal("narrow", Status::new("state", "new", "ok")).await.contains("36 characters"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_galera_cluster_is_refused_unless_one_node_does_the_writing() {
    let server = servers::MariaDb::start(&[("wsrep_on", "ON"), ("binlog_format", "ROW")]);
    let url = server.fresh_database();
    let many = MySql::new(&url, None, 4, false, Vec::new()).unwrap();
    match many.prepare().await {
        Err(Error::Setup(text)) => assert!(text.contains("Galera") && text.contains("single_writer"), "{text}"),
        other => panic!("expected a refusal, got {other:?}"),
    }
    let one = MySql::new(&url, None, 4, true, Vec::new()).unwrap();
    one.migrate().await.unwrap();
    one.prepare().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_holds_what_is_the_same_group_for_the_collation() {
    let scene = Scene::new().await;
    let tables = "create table plain (id int primary key, g varchar(20), s char(1) default '0' not null, o char(36)) default charset utf8mb4 collate utf8mb4_general_ci;
        create table exact (id int primary key, g varchar(20) not null, s char(1) default '0' not null, o char(36)) default charset utf8mb4 collate utf8mb4_bin;
        create table latin (id int primary key, g varchar(20), s char(1) default '0' not null, o char(36)) default charset latin1;
        insert into plain (id, g) values (1, 'a'), (2, 'A'), (3, 'á '), (4, 'b');
        insert into exact (id, g) values (1, 'a'), (2, 'a '), (3, 'a'), (4, 'A');
        insert into latin (id, g) values (1, 'ä'), (2, 'Ä'), (3, 'ä '), (4, 'b')";
    sqlx::raw_sql(tables).execute(&mut scene.connection().await).await.unwrap();
    let status = || Status::new("s", "0", "1").failed("2");
    let queue = |name: &str| Queue::table(name, Table::new(name, "o", status()).group_by("g"));
    let store = MySql::new(&scene.url, None, 4, false, ["plain", "exact", "latin"].map(queue).into()).unwrap();
    let queues = ["plain", "exact", "latin"].map(|queue| (queue.into(), 3));
    let process = Registration::new("guards", Duration::from_mins(20), BTreeMap::from(queues));
    store.register(&process).await.unwrap();
    for queue in ["plain", "exact", "latin"] {
        let first = store.claim(process.id, queue, 10).await.unwrap();
        let ids: Vec<_> = first.iter().map(|delivery| delivery.message.id().to_string()).collect();
        assert_eq!(ids, [format!("{queue}/1"), format!("{queue}/4")]);
        assert!(store.park(&first[0], &ichido::store::Failure::dead("no", 3)).await.unwrap());
        assert!(store.claim(process.id, queue, 10).await.unwrap().is_empty(), "{queue}: the first holds its group");
        assert!(store.retry(&first[0].message.id()).await.unwrap());
        let again = store.claim(process.id, queue, 10).await.unwrap();
        assert_eq!(again[0].message.id().to_string(), format!("{queue}/1"));
        store.release(&again).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_messages_are_sent_in_packets_that_the_server_takes() {
    let scene = Scene::new().await;
    let store = MySql::new(&scene.url, None, 4, false, vec![Queue::managed("mail").payload_limit(1 << 20)]).unwrap();
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    let mut messages = vec![NewMessage::new(large); 30];
    messages.extend((0..1200).map(|n| NewMessage::new(n.to_string())));
    let mut tx = store.begin().await.unwrap();
    let sent = store.send(MySql::connection(&mut tx), "mail", &messages).await.unwrap();
    store.commit(tx).await.unwrap();
    let ids: std::collections::BTreeSet<_> = sent.iter().map(ToString::to_string).collect();
    assert_eq!(ids.len(), messages.len());
    for (at, payload) in [(30, 0), (529, 499), (530, 500), (1229, 1199)] {
        let id = &sent[at].key;
        assert_eq!(
            scene.number(&format!("select cast(payload as signed) from ichido_message where id = {id}")).await,
            payload
        );
    }
}
