//! Tables and columns that would fail on every row are refused at start, with a way out; so is a name that no table has.

use crate::schemas::world;
use crate::testenv::{Env, Kind};

on_all!(
    a_column_that_the_database_computes_is_refused_at_start,
    what_is_not_a_table_is_refused_at_start,
    the_nearest_table_is_named,
);

/// Adds a queue to the configuration.
fn add_queue(env: &Env, table: &str, status: &str, owner: &str, more: &str) {
    env.reconfigure(|config| {
        format!(
            "{config}\n[queues.q]\ntable = {table:?}\nstatus = {{ column = \"{status}\", new = \"new\", done = \"done\" }}\nowner = \"{owner}\"\n{more}\n"
        )
    });
}

/// Makes ichido's own tables, while the action has no queue yet; gives the configuration.
async fn migrated(env: &Env) -> String {
    let config = env.file();
    let managed = config.clone() + "\n[queues.q]\n";
    env.configure(|_| managed);
    env.ok(&["migrate"]).await;
    env.configure(|_| config.clone());
    config
}

async fn assert_refused_at_start(env: &Env, parts: &[&str]) {
    for command in [&["check"][..], &["run", "--drain"]] {
        env.run(command).await.assert_refused(127, parts);
    }
}

async fn a_column_that_the_database_computes_is_refused_at_start(kind: Kind) {
    let done = "case when sent = 1 then 'done' else 'new' end";
    let rows = format!(
        "create table job (id integer primary key, sent integer default 0, status varchar(9) generated always as ({done}) stored, \
         plain varchar(9) default 'new', process_id char(36), computed char(36) generated always as (cast(null as char(36))) stored)"
    );
    let env = world(kind, &rows, "q", "id").await;
    let config = migrated(&env).await;
    for on_done in ["status", "delete"] {
        env.configure(|_| config.clone());
        add_queue(&env, "job", "status", "process_id", &format!("on_done = \"{on_done}\""));
        let parts = ["queues.q.status", "`status` is generated", "use an ordinary column"];
        assert_refused_at_start(&env, &parts).await;
    }
    env.configure(|_| config.clone());
    add_queue(&env, "job", "plain", "computed", "");
    assert_refused_at_start(&env, &["queues.q.owner", "`computed` is generated", "use an ordinary column"]).await;
    env.configure(|_| config.clone());
    add_queue(&env, "job", "plain", "process_id", "");
    env.ok(&["check"]).await;
    env.configure(|_| config.clone());
    let named = env.run(&["adopt", "--table", "job", "--status", "status", "--queue", "q"]).await;
    named.assert_refused(127, &["--status: `status` is generated", "--status"]);
}

async fn what_is_not_a_table_is_refused_at_start(kind: Kind) {
    let rows = "create table job (id integer primary key, status varchar(9), process_id char(36)); create view todo as select * from job";
    let env = world(kind, rows, "q", "id").await;
    migrated(&env).await;
    add_queue(&env, "todo", "status", "process_id", "");
    assert_refused_at_start(&env, &["queues.q.table", "`todo` is a view", "name the table behind it"]).await;
}

async fn the_nearest_table_is_named(kind: Kind) {
    let env = world(kind, "", "q", "id").await;
    let config = migrated(&env).await;
    let columns = "(id integer primary key, status varchar(9), process_id char(36))";
    let schema = match kind {
        Kind::Sqlite => "main".to_owned(),
        Kind::Postgres => "Billing".to_owned(),
        Kind::MariaDb => format!("{}_Billing", env.url.rsplit('/').next().unwrap().split('?').next().unwrap()),
    };
    let quoted = if kind == Kind::MariaDb { format!("`{schema}`") } else { format!("\"{schema}\"") };
    if kind != Kind::Sqlite {
        env.sql(&format!("create schema {quoted}")).await;
    }
    let table = if kind == Kind::MariaDb { "`InvoiceLine`" } else { "\"InvoiceLine\"" };
    env.sql(&format!("create table {quoted}.{table} {columns}")).await;
    // SQLite finds a table however it is capitalised, so there a letter is missing.
    let (typed, meant) = match kind {
        Kind::Sqlite => ("invoicelne".to_owned(), "InvoiceLine".to_owned()),
        _ => (format!("{}.invoiceline", schema.to_lowercase()), format!("{schema}.InvoiceLine")),
    };
    let meant = format!("did you mean `{meant}`?");
    env.run(&["adopt", "--table", &typed, "--queue", "q"]).await.assert_refused(127, &["there is no table", &meant]);
    add_queue(&env, &typed, "status", "process_id", "");
    assert_refused_at_start(&env, &["queues.q.table", "there is no table", &meant]).await;
    if kind != Kind::Sqlite {
        env.configure(|_| config.clone());
        env.run(&["adopt", "--table", "invoiceline", "--queue", "q"])
            .await
            .assert_refused(127, &["there is no table", &meant]);
    }
}
