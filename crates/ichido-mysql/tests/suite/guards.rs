//! What only this server does behind our back: a deadlock that ends the transaction, and DDL that commits it. What an action
//! writes afterwards must not be there, and the message is not done.

use ichido::{
    Error, NewMessage, Operate, Queue, Status, Table,
    store::{Database, Queues, Transactions},
};
use ichido_mysql::{MySql, Tx};
use ichido_test_servers as servers;
use ichido_testkit::fixture::{Fixture, Player, assert_group_is_held, effects, refusal, with_orders};
use sqlx::{Connection, Executor, MySqlConnection};

use crate::fixture::OnMariaDb;

/// Claims the order, lets `action` play with the transaction, and completes: in vain. The message is not done, and no line of the
/// action is left.
async fn assert_broken_by(fixture: &OnMariaDb, action: impl AsyncFnOnce(&mut Tx)) {
    let Player { store, registration } = Player::join(fixture).await;
    let claimed = store.claim(registration.id, "orders", 1).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    action(&mut tx).await;
    let completed = store.complete(&mut tx, &claimed).await;
    store.rollback(tx).await.unwrap();
    assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "{completed:?}");
    assert_eq!(effects(fixture).await, 0);
    assert_eq!(fixture.number("select count(*) from received_order where status = '0'").await, 1);
}

async fn run(tx: &mut Tx, statement: &'static str) -> Result<(), sqlx::Error> {
    MySql::connection(tx).execute(statement).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_swallowed_deadlock_nothing_stays() {
    let fixture = with_orders::<OnMariaDb>(1).await;
    fixture.sql("insert into only_one values (1), (2)").await;
    let mut other = MySqlConnection::connect(&fixture.place()).await.unwrap();
    // The one with less to undo is the victim: the other has written more.
    let heavy = "begin; insert into ledger values ('x', 'x'), ('x', 'x'), ('x', 'x'), ('x', 'x'), ('x', 'x'), ('x', 'x'); update only_one set id = id where id = 2";
    sqlx::raw_sql(heavy).execute(&mut other).await.unwrap();
    let action = async |tx: &mut Tx| {
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
    };
    assert_broken_by(&fixture, action).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_ddl_in_an_action_later_writes_do_not_stay_and_the_message_is_not_done() {
    let action = async |tx: &mut Tx| {
        run(tx, "create table made_by_action (id int)").await.unwrap();
        run(tx, "insert into ledger values ('late', 'action')").await.unwrap();
    };
    assert_broken_by(&with_orders::<OnMariaDb>(1).await, action).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_equal_for_the_collation_or_too_wide_are_refused() {
    let fixture = OnMariaDb::fresh().await;
    let table = "create table word (id int primary key, state varchar(3) not null, taken_by char(36), narrow char(32)) default charset utf8mb4";
    fixture.sql(table).await;
    let refusal = async |owner: &str, status: Status| {
        refusal(fixture.store_with(vec![Queue::table("words", Table::new("word", owner, status))])).await
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
    let fixture = OnMariaDb::fresh().await;
    let tables = "create table plain (id int primary key, g varchar(20), s char(1) default '0' not null, o char(36)) default charset utf8mb4 collate utf8mb4_general_ci;
        create table exact (id int primary key, g varchar(20) not null, s char(1) default '0' not null, o char(36)) default charset utf8mb4 collate utf8mb4_bin;
        create table latin (id int primary key, g varchar(20), s char(1) default '0' not null, o char(36)) default charset latin1;
        insert into plain (id, g) values (1, 'a'), (2, 'A'), (3, 'á '), (4, 'b');
        insert into exact (id, g) values (1, 'a'), (2, 'a '), (3, 'a'), (4, 'A');
        insert into latin (id, g) values (1, 'ä'), (2, 'Ä'), (3, 'ä '), (4, 'b')";
    fixture.sql(tables).await;
    let status = || Status::new("s", "0", "1").failed("2");
    let queue = |name: &str| Queue::table(name, Table::new(name, "o", status()).group_by("g"));
    for name in ["plain", "exact", "latin"] {
        let store = fixture.store_with(vec![queue(name)]);
        assert_group_is_held(&Player::<OnMariaDb>::join_with(store, &[name]).await, name, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_messages_are_sent_in_packets_that_the_server_takes() {
    let fixture = OnMariaDb::fresh().await;
    let store = fixture.store_with(vec![Queue::managed("mail").payload_limit(1 << 20)]);
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
            fixture.number(&format!("select cast(payload as signed) from ichido_message where id = {id}")).await,
            payload
        );
    }
}
