//! Migrating while processes are at work, migrations that are cut off, and tables that are in use. The next version is one that
//! the tests make up (`testenv/next.rs`); the way to it is the product's own.

use std::time::Duration;

use ichido::{
    CancellationToken, Error, Operate,
    store::{MigrateOptions, Migration},
};
use ichido_mysql::MySql;
use ichido_postgres::Postgres;
use ichido_sqlite::VERSION;
use ichido_testkit::{eventually, size};
use sqlx::{Connection, Executor, MySqlConnection, PgConnection};

use crate::{
    rolling,
    testenv::{
        Env, Kind, Process,
        next::{migrate, next_version},
    },
};

on_all!(migrating_under_load_loses_nothing_again_and_again);
on_servers!(a_migration_cut_off_anywhere_goes_on, a_table_in_use_is_waited_for_and_its_user_named);

const RUN: &[&str] = &["run"];

/// `letter` is the ledger of the managed queue.
const MAIL: &str = r#"
[actions.Mail]
from        = "mail"
concurrency = 4
sql         = ["insert into letter (n) values (:n)"]
"#;

/// How many messages may wait: a load, and not a backlog that takes longer than the test.
const BACKLOG: i64 = 1000;

async fn migrating_under_load_loses_nothing_again_and_again(kind: Kind) {
    let rounds = size(4, 100);
    let env = Env::new(kind).await;
    env.sql("create table letter (n integer)").await;
    env.reconfigure(|config| config.replace("lease = \"1s\"", "lease = \"10s\"") + MAIL);
    let migrated = CancellationToken::new();
    let rounds = async {
        let retries = migrate_often(&env, rounds).await;
        migrated.cancel();
        (rounds, retries)
    };
    let ((rounds, retries), sent) = tokio::join!(rounds, send(&env, &migrated));
    env.ok(&["run", "--drain"]).await;
    rolling::assert_exact(&env, sent).await;
    println!(
        "{kind:?}: {rounds} migrations under load, {retries} steps tried again, {} messages: LOST 0, DOUBLE 0, failed 0",
        2 * sent
    );
}

/// Migrates so often while processes work; every few times one of them is stopped, and another started. Says how often a step
/// had to be tried again.
async fn migrate_often(env: &Env, rounds: u32) -> u32 {
    let mut processes = ["one", "two"].map(|name| env.start(name, RUN));
    let mut retries = 0;
    for round in 0..rounds {
        // Work is done between any two of them.
        let done = env.done().await;
        env.until("select count(*) from received_order where status = '1'", done + 10).await;
        let options = MigrateOptions::default().next(next_version(env.kind, &format!("round_{round}")));
        let migration = migrate(env, options).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!((migration.from, migration.to), (VERSION, VERSION + 1));
        retries += migration.retries;
        env.ok(&["migrate"]).await;
        // The next round has other columns under the same number: processes start on one version more, not on two.
        env.sql(&format!("delete from ichido_schema where version > {VERSION}")).await;
        if round % 4 == 3 {
            let at = (round / 4 % 2) as usize;
            stop(&mut processes[at]).await;
            processes[at] = env.start(&format!("after {round}"), RUN);
            let serves = format!("select count(*) from ichido_process where pid = {}", processes[at].pid());
            env.until(&serves, 1).await;
        }
    }
    for process in &mut processes {
        stop(process).await;
    }
    retries
}

async fn stop(process: &mut Process) {
    process.signal("-TERM").await;
    let code = process.exit_code().await;
    let log = process.log();
    assert_eq!(code, 0, "{log}");
    for trouble in ["ERROR", "runs again", "deadlock"] {
        assert!(!log.contains(trouble), "`{trouble}`:\n{log}");
    }
}

const PER_ROUND: u32 = 100;

/// Orders and mails, every other time in a group, for as long as it is migrated; says how many of each.
async fn send(env: &Env, migrated: &CancellationToken) -> i64 {
    let mut round = 0;
    while !migrated.is_cancelled() {
        let ids = round * PER_ROUND + 1..=(round + 1) * PER_ROUND;
        let mails: Vec<_> = ids.clone().map(|n| format!(r#"{{"n":{n}}}"#)).collect();
        env.send_orders(ids).await;
        let name = format!("group {round}");
        let grouped: &[&str] = if round % 2 == 0 { &[] } else { &["--group", &name] };
        let args = [&["send", "mail", "--file", "-"], grouped].concat();
        let sent = env.run_with_input(&args, mails.join("\n").as_bytes()).await;
        assert_eq!(sent.code, Some(0), "{sent:?}");
        round += 1;
        let waiting =
            "select (select count(*) from ichido_message) + (select count(*) from received_order where status = '0')";
        eventually("a backlog that is not too long", async || {
            migrated.is_cancelled() || env.number(waiting).await < BACKLOG
        })
        .await;
    }
    i64::from(round * PER_ROUND)
}

/// A database is cut off after each statement in turn, by running so many of them by hand; each has a schema of its own.
async fn a_migration_cut_off_anywhere_goes_on(kind: Kind) {
    let env = Env::bare(kind).await;
    // Databases of MariaDB are not in the one of the test.
    let whole = format!("whole_{}", std::process::id());
    in_schema(&env, &whole, async |pending| assert_eq!(pending.from, 0)).await;
    let expected = catalog(&env, &whole).await;
    assert!(expected.contains("ichido_outbox"), "{expected}");
    let mut cut = 0;
    loop {
        let schema = format!("cut_{cut}_{}", std::process::id());
        let mut all = 0;
        let by_hand = async |pending: &Migration| {
            let statements: Vec<_> = pending.statements.iter().flat_map(|step| statements(step)).collect();
            all = statements.len();
            let some: Vec<_> = pending.session.iter().chain(statements.iter().take(cut)).map(String::as_str).collect();
            let schema = if kind == Kind::Postgres { format!("create schema {schema};") } else { String::new() };
            env.sql(&format!("{schema}{}", some.join(";\n"))).await;
        };
        let migration = in_schema(&env, &schema, by_hand).await;
        assert_eq!(catalog(&env, &schema).await, expected, "cut off after statement {cut}");
        assert_eq!(env.number(&format!("select count(*) from {schema}.ichido_origin")).await, 1, "{cut}");
        if cut == all {
            assert_eq!(migration.from, migration.to, "everything was done by hand");
            break;
        }
        cut += 1;
    }
    assert!(cut > 25, "there are more than {cut} statements");
}

/// Does something with what is to be done in a schema, and migrates there.
async fn in_schema(env: &Env, schema: &str, first: impl AsyncFnOnce(&Migration)) -> Migration {
    async fn on<S: Operate>(store: S, first: impl AsyncFnOnce(&Migration)) -> Migration {
        first(&store.pending().await.unwrap()).await;
        let migrated = store.migrate().await.unwrap_or_else(|error| panic!("{error}"));
        assert!(store.pending().await.unwrap().statements.is_empty());
        store.overview().await.unwrap_or_else(|error| panic!("{error}"));
        migrated
    }
    match env.kind {
        Kind::Postgres => on(Postgres::new(&env.url, Some(schema), 4, Vec::new()).unwrap(), first).await,
        _ => on(MySql::new(&env.url, Some(schema), 4, false, Vec::new()).unwrap(), first).await,
    }
}

/// The single statements of a step.
fn statements(step: &str) -> Vec<String> {
    if step.starts_with("do $ichido$") {
        return vec![step.to_owned()]; // a block, which has semicolons inside
    }
    let code: Vec<_> = step.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let code = code.join("\n");
    code.split(';').map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned).collect()
}

/// All that the server knows about the tables of a schema.
async fn catalog(env: &Env, schema: &str) -> String {
    let queries: &[&str] = match env.kind {
        Kind::Postgres => &[
            "select string_agg(concat_ws(' ', table_name, ordinal_position, column_name, data_type, character_maximum_length, \
             collation_name, is_nullable, column_default, is_identity, identity_generation), e'\\n' order by table_name, ordinal_position) \
             from information_schema.columns where table_schema = 'SCHEMA'",
            "select string_agg(indexdef, e'\\n' order by indexname) from pg_indexes where schemaname = 'SCHEMA'",
            "select string_agg(conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid), e'\\n' order by conrelid::regclass::text, conname) \
             from pg_constraint where connamespace = 'SCHEMA'::regnamespace",
            "select string_agg(concat(version, ' ', oldest), e'\\n' order by version) from SCHEMA.ichido_schema",
        ],
        _ => &[
            "select group_concat(concat_ws(' ', table_name, ordinal_position, column_name, column_type, collation_name, is_nullable, \
             column_default, extra, column_key) order by table_name, ordinal_position separator '\\n') \
             from information_schema.columns where table_schema = 'SCHEMA'",
            "select group_concat(concat_ws(' ', table_name, engine, table_collation, row_format) order by table_name separator '\\n') \
             from information_schema.tables where table_schema = 'SCHEMA'",
            "select group_concat(concat_ws(' ', table_name, index_name, seq_in_index, column_name, non_unique, sub_part) \
             order by table_name, index_name, seq_in_index separator '\\n') from information_schema.statistics where table_schema = 'SCHEMA'",
            "select group_concat(concat_ws(' ', table_name, constraint_name, referenced_table_name, delete_rule) order by table_name, constraint_name \
             separator '\\n') from information_schema.referential_constraints where constraint_schema = 'SCHEMA'",
            "select group_concat(concat(version, ' ', oldest) order by version separator '\\n') from SCHEMA.ichido_schema",
        ],
    };
    let mut all = String::new();
    for query in queries {
        all += &env.text(&query.replace("SCHEMA", schema)).await;
        all.push('\n');
    }
    all.replace(schema, "SCHEMA")
}

async fn a_table_in_use_is_waited_for_and_its_user_named(kind: Kind) {
    let env = Env::new(kind).await;
    let options = move |wait| MigrateOptions::default().wait(wait).next(next_version(kind, "blocked"));
    let begin = ["begin", "select count(*) from ichido_message"];
    let (mut holder, id) = Holder::new(&env).await;
    for statement in begin {
        holder.execute(statement).await;
    }
    let refused = match migrate(&env, options(Duration::from_secs(3))).await {
        Err(Error::Failed(cause)) => cause.to_string(),
        other => panic!("expected a refusal, got {other:?}"),
    };
    for part in ["the table ichido_message was in use", "ichido migrate", &format!("id {id} (")] {
        assert!(refused.contains(part), "`{part}` is not in: {refused}");
    }
    // Nobody waits behind a migration that has given up, and what it did before stays.
    env.ok(&["send", "mail", "{}"]).await;
    env.ok(&["migrate"]).await;
    let waits = tokio::spawn({
        let url = env.url.clone();
        async move { migrate_at(kind, &url, options(Duration::from_mins(2))).await }
    });
    eventually("a migration that waits", async || env.number(waiting(kind)).await > 0).await;
    holder.execute("rollback").await;
    let migrated = waits.await.unwrap().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((migrated.from, migrated.to), (VERSION, VERSION + 1));
}

/// How many statements wait for a table.
fn waiting(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "select count(*) from pg_locks where not granted and relation = 'ichido_message'::regclass",
        _ => {
            "select count(*) from information_schema.processlist where db = database() and state like 'Waiting for table metadata%'"
        }
    }
}

async fn migrate_at(kind: Kind, url: &str, options: MigrateOptions) -> ichido::error::Result<Migration> {
    match kind {
        Kind::Postgres => Postgres::new(url, None, 4, Vec::new())?.migrate_with(options).await,
        _ => MySql::new(url, None, 4, false, Vec::new())?.migrate_with(options).await,
    }
}

/// A session from outside.
enum Holder {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

impl Holder {
    /// A session and the server's number for it.
    async fn new(env: &Env) -> (Self, i64) {
        use sqlx::Row;
        if env.kind == Kind::Postgres {
            let mut session = PgConnection::connect(&env.url).await.unwrap();
            let id: i32 = session.fetch_one("select pg_backend_pid()").await.unwrap().get(0);
            return (Holder::Postgres(session), id.into());
        }
        let mut session = MySqlConnection::connect(&env.url).await.unwrap();
        let id = session.fetch_one("select cast(connection_id() as signed)").await.unwrap().get(0);
        (Holder::MariaDb(session), id)
    }

    async fn execute(&mut self, statement: &'static str) {
        match self {
            Holder::Postgres(session) => session.execute(statement).await.map(|_| ()).unwrap(),
            Holder::MariaDb(session) => session.execute(statement).await.map(|_| ()).unwrap(),
        }
    }
}

/// They take turns, a step at a time. The table in use makes both wait, so that both are at work when it is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_migrations_at_once_do_no_harm_on_postgres() {
    let env = Env::new(Kind::Postgres).await;
    let options = || MigrateOptions::default().wait(Duration::from_mins(2)).next(next_version(Kind::Postgres, "twice"));
    let (mut holder, _) = Holder::new(&env).await;
    holder.execute("begin").await;
    holder.execute("select count(*) from ichido_message").await;
    let migrations = [(); 2].map(|()| {
        let url = env.url.clone();
        tokio::spawn(async move { migrate_at(Kind::Postgres, &url, options()).await })
    });
    let waiting = "select count(*) from pg_stat_activity where query like '%ichido%twice%' \
         and datname = current_database() and pid <> pg_backend_pid()";
    env.until(waiting, 1).await;
    holder.execute("rollback").await;
    for migration in migrations {
        let migration = migration.await.unwrap().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(migration.to, VERSION + 1);
    }
    assert_eq!(env.number("select max(version)::bigint from ichido_schema").await, i64::from(VERSION) + 1);
    env.send_orders(1..=5).await;
    env.ok(&["run", "--drain"]).await;
    env.assert_exact(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_migration_is_done_as_a_whole_or_not_at_all() {
    let env = Env::new(Kind::Sqlite).await;
    let mut version = next_version(Kind::Sqlite, "broken");
    version.sql = format!("{}\n\nalter table ichido_nowhere add column broken integer;", version.sql).into();
    let before = env.number("select count(*) from sqlite_schema").await;
    let refused = migrate(&env, MigrateOptions::default().next(version)).await;
    assert!(matches!(&refused, Err(Error::Setup(text)) if text.contains("ichido_nowhere")), "{refused:?}");
    assert_eq!(env.number("select count(*) from sqlite_schema").await, before);
    assert_eq!(env.number("select count(*) from sqlite_schema where sql like '%broken%'").await, 0);
    migrate(&env, MigrateOptions::default().next(next_version(Kind::Sqlite, "whole"))).await.unwrap();
}
