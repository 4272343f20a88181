//! What waits until a commit is safe, and what does not: a claim and a wake-up may be lost with the server, what a message has done may not.

use ichido::{Client, Queue};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::{
    eventually,
    fixture::{Fixture, Player, TABLES, send, send_orders},
    in_time,
};
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinHandle;

use crate::fixture::OnPostgres;

const HANGS: &str = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";

async fn migrated(server: &servers::Postgres) -> OnPostgres {
    let fixture = OnPostgres::at(&server.fresh_database()).await;
    fixture.sql(TABLES).await;
    ichido::Operate::migrate(&fixture.store()).await.unwrap();
    fixture
}

/// From now on the server waits for a standby that never comes: every commit that is to be safe hangs, as that of this statement does.
async fn hang(fixture: &OnPostgres, statement: &'static str) -> JoinHandle<()> {
    fixture.sql("alter system set synchronous_standby_names = 'nobody'").await;
    fixture.sql("select pg_reload_conf()").await;
    let mut writer = PgConnection::connect(&fixture.place()).await.unwrap();
    let hanging = tokio::spawn(async move {
        loop {
            writer.execute(statement).await.unwrap();
        }
    });
    eventually("commits hang", async || fixture.number(HANGS).await == 1).await;
    hanging
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_neither_for_the_disk_nor_for_a_standby() {
    let server = servers::Postgres::start(&[]);
    let fixture = migrated(&server).await;
    send_orders(&fixture, 3).await;
    send(&fixture, "mail", &["{}"]).await;
    let process = Player::join(&fixture).await;
    let hanging = hang(&fixture, "insert into only_one values (1) on conflict (id) do update set id = 1").await;
    assert_eq!(process.claim("orders", 2).await.len(), 2);
    assert_eq!(process.claim("orders", 2).await.len(), 1, "also from where the last one ended");
    assert_eq!(process.claim("mail", 1).await.len(), 1);
    assert_eq!(fixture.number(HANGS).await, 1);
    hanging.abort();
}

/// A NOTIFY takes a lock of the whole server until its commit is safe. The message's own commit is not to be safe here, so that it does not
/// hang for its own sake.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_does_not_wait_for_the_notify_of_somebody_else() {
    let server = servers::Postgres::start(&[]);
    let fixture = migrated(&server).await;
    let hanging = hang(&fixture, "notify whatever").await;
    let local = format!("{}&options[synchronous_commit]=local", fixture.place());
    let store = Postgres::new(&local, None, 4, vec![Queue::managed("mail")]).unwrap();
    let client = Client::new(store);
    for number in 1..=3 {
        in_time("it is sent", Box::pin(client.queue("mail").send_and_commit(&number))).await.unwrap();
    }
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 3);
    assert_eq!(fixture.number(HANGS).await, 1);
    hanging.abort();
}
