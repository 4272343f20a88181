//! Tables that would fail on every row are refused when the store is prepared, before anything is claimed.

use ichido::{Error, Queue, Status, Table, store::Database};

use crate::fixture::Fixture;

async fn assert_refused<F: Fixture>(fixture: &F, table: Table, parts: &[&str]) {
    match fixture.store_with(vec![Queue::table("unfit", table)]).prepare().await {
        Err(Error::Setup(text)) => assert!(parts.iter().all(|part| text.contains(part)), "{text}"),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

pub async fn a_column_that_the_database_computes_is_neither_status_nor_owner<F: Fixture>() {
    let fixture = F::fresh().await;
    let rows = "create table computed (id integer primary key, sent integer, state varchar(9) default 'new', taken_by char(36), \
         status varchar(9) generated always as (case when sent = 1 then 'done' else 'new' end) stored, \
         owner char(36) generated always as (cast(null as char(36))) stored)";
    fixture.sql(rows).await;
    let table = |status: &str, owner: &str| Table::new("computed", owner, Status::new(status, "new", "done"));
    let ways_out = ["is generated", "use an ordinary column"];
    assert_refused(&fixture, table("status", "taken_by"), &[&["queues.unfit.status"], &ways_out[..]].concat()).await;
    let deleting = table("status", "taken_by").delete_done();
    assert_refused(&fixture, deleting, &[&["queues.unfit.status"], &ways_out[..]].concat()).await;
    assert_refused(&fixture, table("state", "owner"), &[&["queues.unfit.owner"], &ways_out[..]].concat()).await;
    fixture.store_with(vec![Queue::table("unfit", table("state", "taken_by"))]).prepare().await.unwrap();
}

pub async fn a_view_is_refused_with_a_way_out<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql("create view todo as select * from received_order").await;
    let table = Table::new("todo", "process_id", Status::new("status", "0", "1")).key(["id"]);
    assert_refused(&fixture, table, &["queues.unfit.table", "`todo` is a view", "name the table behind it"]).await;
}
