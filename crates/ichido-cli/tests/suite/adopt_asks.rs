//! What `adopt` cannot know, it asks: which rows are done where nothing says so, and what bare numbers mean. Its advice never makes
//! a row new that is done.

use crate::schemas::world;
use crate::testenv::{Env, Kind};

on_all!(
    the_advice_for_a_table_without_a_status_leaves_done_rows_alone,
    numbers_are_never_applied_unless_they_are_given,
    a_table_of_which_no_row_is_done_is_asked_about,
    a_name_that_may_be_a_persons_is_no_owner,
);

/// Refused, and nothing has changed.
async fn assert_not_applied(env: &Env, parts: &[&str]) {
    let before = env.everything().await;
    env.run(&["adopt", "--table", "job", "--apply"]).await.assert_refused(127, parts);
    assert_eq!(env.everything().await, before);
}

async fn the_advice_for_a_table_without_a_status_leaves_done_rows_alone(kind: Kind) {
    let rows = "create table job (id integer primary key, name varchar(9), sent_at timestamp null); \
         insert into job values (1, 'old', '2026-01-01 00:00:00'), (2, 'one', null), (3, 'two', null)";
    let env = world(kind, rows, "job", "name").await;
    env.heal().await;
    let before = env.everything().await;
    let asked = env.run(&["adopt", "--table", "job", "--apply"]).await;
    assert_eq!((asked.code, env.everything().await), (Some(127), before), "{asked:?}");
    assert!(asked.stderr.contains("Perhaps those where") && asked.stderr.contains("sent_at"), "{asked:?}");
    let statements = asked.stderr.lines().filter(|line| line.contains(';') && !line.contains("adopt"));
    let statements: Vec<_> = statements.filter(|line| !line.contains("--table")).collect();
    env.sql(&statements.join("\n").replace('…', "sent_at is not null")).await;
    env.sql("insert into job (id, name) values (4, 'three')").await;

    env.ok(&["adopt", "--table", "job", "--apply"]).await;
    env.ok(&["migrate"]).await;
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from effect").await, 3);
    assert_eq!(env.number("select count(*) from effect where what = 'old'").await, 0, "it was done before");
    assert_eq!(env.number("select count(*) from job where status = 'done'").await, 4);
}

async fn numbers_are_never_applied_unless_they_are_given(kind: Kind) {
    // 0 is a draft, 1 is queued, 2 is sent.
    let rows = "create table job (id integer primary key, name varchar(9), status smallint default 0 not null); \
         insert into job values (1, 'draft', 0), (2, 'queued', 1), (3, 'queued', 1), (4, 'sent', 2)";
    let env = world(kind, rows, "job", "name").await;
    env.heal().await;
    let looked = env.run(&["adopt", "--table", "job"]).await;
    assert_eq!(looked.stderr.matches("<- check this").count(), 3, "{looked:?}");
    assert_not_applied(&env, &["only a guess that `0` means new", "a number can mean anything", "--new and --done"])
        .await;
    env.ok(&["adopt", "--table", "job", "--new", "1", "--done", "2", "--apply"]).await;
    env.ok(&["migrate"]).await;
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from job where status = 2").await, 3);
    assert_eq!(env.number("select count(*) from effect where what = 'queued'").await, 2);
    assert_eq!(env.number("select count(*) from effect").await, 2);
}

async fn a_table_of_which_no_row_is_done_is_asked_about(kind: Kind) {
    let rows = "create table job (id integer primary key, status varchar(9) default 'new' not null check (status in ('new', 'done', 'error'))); \
         insert into job (id) values (1), (2)";
    let env = world(kind, rows, "job", "id").await;
    assert_not_applied(&env, &["only a guess that `done` means done", "no row is done yet", "--new and --done"]).await;
    env.sql("update job set status = 'done' where id = 1").await;
    env.ok(&["adopt", "--table", "job", "--apply"]).await;
    assert!(env.file().contains(r#"new = "new", done = "done", failed = "error" }"#), "{}", env.file());
}

async fn a_name_that_may_be_a_persons_is_no_owner(kind: Kind) {
    let rows = "create table job (id integer primary key, status varchar(9) not null, owner varchar(50)); \
         insert into job (id, status, owner) values (1, 'new', null), (2, 'done', 'anne')";
    let env = world(kind, rows, "job", "id").await;
    assert_not_applied(&env, &["`owner` may be the owner column", "--owner"]).await;
    env.ok(&["adopt", "--table", "job", "--owner", "process_id", "--apply"]).await;
    assert!(env.file().contains("owner  = \"process_id\""), "{}", env.file());
}
