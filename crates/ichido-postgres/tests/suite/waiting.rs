//! What waits until a commit is safe, and what does not: a claim may be lost with the server, what a message has done may not.

use ichido_test_servers as servers;
use ichido_testkit::{
    eventually,
    fixture::{Fixture, Player, TABLES, send, send_orders},
};
use sqlx::{Connection, Executor, PgConnection};

use crate::fixture::OnPostgres;

/// The server waits for a standby that never comes: every commit that is to be safe hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_neither_for_the_disk_nor_for_a_standby() {
    let server = servers::Postgres::start(&[]);
    let fixture = OnPostgres::at(&server.fresh_database()).await;
    fixture.sql(TABLES).await;
    ichido::Operate::migrate(&fixture.store()).await.unwrap();
    send_orders(&fixture, 3).await;
    send(&fixture, "mail", &["{}"]).await;
    let process = Player::join(&fixture).await;
    fixture.sql("alter system set synchronous_standby_names = 'nobody'").await;
    fixture.sql("select pg_reload_conf()").await;
    let mut writer = PgConnection::connect(&fixture.place()).await.unwrap();
    let hanging = tokio::spawn(async move {
        loop {
            writer.execute("insert into only_one values (1) on conflict (id) do update set id = 1").await.unwrap();
        }
    });
    let hangs = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    eventually("commits hang", async || fixture.number(hangs).await == 1).await;
    assert_eq!(process.claim("orders", 2).await.len(), 2);
    assert_eq!(process.claim("orders", 2).await.len(), 1, "also from where the last one ended");
    assert_eq!(process.claim("mail", 1).await.len(), 1);
    assert_eq!(fixture.number(hangs).await, 1);
    hanging.abort();
}
