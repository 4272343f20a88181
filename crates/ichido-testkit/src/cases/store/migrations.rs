//! ichido's own tables, and refusals at start.

use ichido::{Error, Inspect, Operate, Queue, Result, Status, Table, store::Database};

use crate::fixture::{Fixture, Player, send};

pub async fn many_processes_migrate_at_once<F: Fixture>() {
    let fixture = F::empty().await;
    let stores: Vec<_> = (0..8).map(|_| fixture.store()).collect();
    let migrations: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = store.clone();
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    let mut created = 0;
    for migration in migrations {
        let migration = migration.await.unwrap().unwrap();
        created += u32::from(migration.from == 0);
        assert!(migration.to >= 1);
    }
    assert_eq!(created, 1, "one of them creates, the others find it done");
    assert!(fixture.store().pending().await.unwrap().statements.is_empty());
    send(&fixture, "mail", &["{}"]).await;
}

#[track_caller]
fn setup_text<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Setup(text)) => text,
        Err(other) => panic!("expected a refusal, got {other:?}"),
        Ok(_) => panic!("expected a refusal"),
    }
}

pub async fn without_tables_everything_names_migrate<F: Fixture>() {
    let fixture = F::empty().await;
    let store = fixture.store();
    assert!(setup_text(store.prepare().await).contains("ichido migrate"));
    assert!(setup_text(store.overview().await).contains("ichido migrate"));
    assert!(!store.pending().await.unwrap().statements.is_empty());
    assert!(setup_text(store.prepare().await).contains("ichido migrate"), "looking changed nothing");
    store.migrate().await.unwrap();
    store.prepare().await.unwrap();
}

/// The newest version of ichido's tables that this binary knows: there is a row for each.
async fn known<F: Fixture>(fixture: &F) -> i64 {
    fixture.number("select count(*) from ichido_schema").await
}

pub async fn a_schema_one_version_newer_is_used<F: Fixture>() {
    let fixture = F::fresh().await;
    let next = known(&fixture).await + 1;
    fixture.sql(&format!("insert into ichido_schema (version, oldest) values ({next}, {})", next - 1)).await;
    send(&fixture, "mail", &["{}"]).await;
    let process = Player::join(&fixture).await;
    process.finish(&process.claim_one("mail").await).await.unwrap();
    assert_eq!(i64::from(fixture.store().migrate().await.unwrap().to), next, "a newer schema is left alone");
}

pub async fn a_schema_two_versions_newer_is_refused<F: Fixture>() {
    let fixture = F::fresh().await;
    let known = known(&fixture).await;
    fixture.sql(&format!("insert into ichido_schema (version, oldest) values ({}, {known})", known + 2)).await;
    let text = setup_text(fixture.store().prepare().await);
    assert!(text.contains(&format!("version {}", known + 2)) && text.contains("at most one version"), "{text}");
    assert!(text.contains(&format!("this binary knows {known}")), "{text}");
}

pub async fn every_version_admits_the_one_before<F: Fixture>() {
    let fixture = F::fresh().await;
    // Version 2 came before the promise.
    let strict = "select count(*) from ichido_schema where version > 2 and oldest >= version";
    assert_eq!(fixture.number(strict).await, 0, "a rolling deploy over this version would not work");
}

pub async fn an_older_schema_is_refused_and_migrated_with_what_is_in_it<F: Fixture>() {
    let fixture = F::empty().await;
    let steps = fixture.store().pending().await.unwrap().statements;
    let first = steps.iter().position(|step| step.starts_with("insert into ichido_schema")).unwrap();
    for step in &steps[..=first] {
        fixture.sql(step).await;
    }
    fixture.sql("insert into ichido_message (queue, payload, headers) values ('mail', '1', '{}')").await;
    let text = setup_text(fixture.store().prepare().await);
    assert!(text.contains("have version 1") && text.contains("ichido migrate"), "{text}");
    let migration = fixture.store().migrate().await.unwrap();
    assert_eq!((migration.from, i64::from(migration.to)), (1, known(&fixture).await));
    let process = Player::join(&fixture).await;
    process.finish(&process.claim_one("mail").await).await.unwrap();
}

pub async fn a_newer_schema_that_does_not_admit_us_is_refused<F: Fixture>() {
    let fixture = F::fresh().await;
    let next = known(&fixture).await + 1;
    fixture.sql(&format!("insert into ichido_schema (version, oldest) values ({next}, {next})")).await;
    let text = setup_text(fixture.store().prepare().await);
    assert!(text.contains(&format!("needs a binary that knows version {next}")), "{text}");
}

pub async fn what_is_not_there_is_named_with_its_nearest_match<F: Fixture>() {
    let fixture = F::fresh().await;
    let status = || Status::new("status", "0", "1");
    let refusal =
        async |table: Table| setup_text(fixture.store_with(vec![Queue::table("orders", table)]).prepare().await);
    let text = refusal(Table::new("recieved_order", "process_id", status())).await;
    assert!(text.contains("`recieved_order`") && text.contains("`received_order`"), "{text}");
    let text = refusal(Table::new("received_order", "proces_id", status())).await;
    assert!(text.contains("`proces_id`") && text.contains("`process_id`"), "{text}");
    let text = refusal(Table::new("received_order", "process_id", Status::new("state", "0", "1"))).await;
    assert!(text.contains("`state`"), "{text}");
    let text = refusal(Table::new("received_order", "process_id", status()).key(["name"])).await;
    assert!(text.contains("unique index"), "{text}");
    let text = refusal(Table::new("ledger", "who", Status::new("message", "0", "1"))).await;
    assert!(text.contains("no primary key"), "{text}");
    let text = refusal(Table::new("received_order", "status", status())).await;
    assert!(text.contains("nullable"), "{text}");
    let text = refusal(Table::new("received_order", "process_id", status().failed("1"))).await;
    assert!(text.contains("are equal"), "{text}");
    let twice = || Queue::table("orders", Table::new("received_order", "process_id", status()));
    let mut other = twice();
    other.name = "again".into();
    let text = setup_text(fixture.store_with(vec![twice(), other]).prepare().await);
    assert!(text.contains("`orders`") && text.contains("`again`"), "{text}");
}
