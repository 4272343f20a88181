//! What cannot be adopted is refused with the reason and a way out, and nothing has changed; what is only guessed is told and
//! not applied.

use crate::schemas::world;
use crate::testenv::{Env, Kind};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

on_all!(
    what_is_not_there_is_named_with_what_was_meant,
    what_cannot_be_a_queue_is_refused,
    owners_that_cannot_work_are_refused,
    values_that_cannot_work_are_refused,
    what_the_file_says_already_is_not_changed,
    a_table_that_is_a_queue_by_another_name_is_known,
    several_columns_that_could_be_the_status_are_told,
    guesses_are_told_and_never_applied,
);

async fn what_is_not_there_is_named_with_what_was_meant(kind: Kind) {
    let env = Env::bare(kind).await;
    env.configure(|config| config.replace("\"received_order\"", "\"other\""));
    let with = async |more: &[&str]| {
        env.run(&["adopt", "--table", "received_order"].into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
            .await
    };
    env.run(&["adopt", "--table", "recieved_order"])
        .await
        .assert_refused(127, &["`recieved_order`", "did you mean `received_order`"]);
    env.run(&["adopt", "--table", "nothing_like_it"]).await.assert_refused(127, &["no table `nothing_like_it`"]);
    env.run(&["adopt", "--table", "a.b.c"]).await.assert_refused(127, &["--table", "more than two parts"]);
    with(&["--status", "statsu"]).await.assert_refused(127, &["--status", "`statsu`", "did you mean `status`"]);
    with(&["--owner", "proces_id"]).await.assert_refused(127, &["--owner", "`proces_id`", "did you mean `process_id`"]);
    with(&["--queue", "a b"]).await.assert_refused(127, &["a b", "is not a valid name"]);
    env.run(&["adopt"]).await.assert_refused_by_clap();
    env.configure(|config| config.replace("from        = \"orders\"", "from = \"ordres\""));
    env.run(&["adopt", "--table", "project"])
        .await
        .assert_refused(127, &["actions.ProjectCreation.from", "did you mean `orders`"]);
}

async fn what_cannot_be_a_queue_is_refused(kind: Kind) {
    let env = Env::bare(kind).await;
    env.ok(&["migrate"]).await;
    env.sql("create view todo as select * from received_order; create table heap (id integer, status char(1)); \
         create table nullable (id integer unique, status char(1)); create table plain (id integer primary key, name varchar(9))")
        .await;
    env.run(&["adopt", "--table", "todo"]).await.assert_refused(127, &["`todo` is a view", "adopt the table"]);
    for table in ["heap", "nullable"] {
        env.run(&["adopt", "--table", table])
            .await
            .assert_refused(127, &[table, "neither a primary key", "add one first"]);
    }
    let asked = env.run(&["adopt", "--table", "plain", "--apply"]).await;
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(127), ""), "{asked:?}");
    for part in ["no column of `plain` looks like a status", "--status", "which rows are done already?"] {
        assert!(asked.stderr.contains(part), "{asked:?}");
    }
    env.run(&["adopt", "--table", "ichido_message"])
        .await
        .assert_refused(127, &["`ichido_message` is one of ichido's own tables"]);
    match kind {
        Kind::Sqlite => {
            env.run(&["adopt", "--table", "temp.x"]).await.assert_refused(127, &["schema `main`", "temporary"]);
            env.sql("create virtual table words using fts5(word)").await;
            env.run(&["adopt", "--table", "words"]).await.assert_refused(127, &["virtual table"]);
        }
        Kind::Postgres => {
            env.sql("create materialized view seen as select * from received_order").await;
            env.run(&["adopt", "--table", "seen"]).await.assert_refused(127, &["`seen` is a view"]);
            env.sql(
                "create foreign data wrapper nothing; create server away foreign data wrapper nothing; \
                 create foreign table far (id integer, status char(1)) server away",
            )
            .await;
            env.run(&["adopt", "--table", "far"])
                .await
                .assert_refused(127, &["`far` is a foreign table", "in its own database"]);
            env.run(&["adopt", "--table", "nowhere.x"]).await.assert_refused(127, &["no table `x` in `nowhere`"]);
        }
        Kind::MariaDb => {
            env.sql("create table old (id int primary key, status char(1)) engine = MyISAM").await;
            env.run(&["adopt", "--table", "old"]).await.assert_refused(127, &["engine myisam", "engine = InnoDB"]);
            env.run(&["adopt", "--table", "mysql.user"]).await.assert_refused(127, &["server's own"]);
        }
    }
}

async fn owners_that_cannot_work_are_refused(kind: Kind) {
    let rows = "create table job (id integer primary key, status char(1) default '0' not null, narrow char(32), fixed char(36) default '' not null, \
         number integer, owner varchar(50)); insert into job (id, owner) values (1, 'anne')";
    let env = world(kind, rows, "job", "id").await;
    let owner = async |name: &str| env.run(&["adopt", "--table", "job", "--owner", name]).await;
    if kind != Kind::Sqlite {
        owner("narrow").await.assert_refused(127, &["`narrow` must have room for 36", "--owner"]);
    }
    owner("fixed").await.assert_refused(127, &["`fixed` must be nullable", "--owner"]);
    owner("number").await.assert_refused(127, &["`number` must be", "--owner"]);
    owner("status").await.assert_refused(127, &["`status`", "already"]);
    owner("id").await.assert_refused(127, &["`id`", "already the status or part of the key"]);
    let looked = env.run(&["adopt", "--table", "job"]).await;
    assert!(
        looked.stderr.contains("`owner` looks like the owner, but 1 unprocessed row has a value in it")
            && looked.stderr.contains("process_id is missing; --apply adds it"),
        "{looked:?}"
    );
    let before = env.everything().await;
    env.run(&["adopt", "--table", "job", "--apply"])
        .await
        .assert_refused(127, &["`owner` looks like the owner", "another program", "--owner"]);
    assert_eq!(env.everything().await, before);
    let looked = owner("owner").await;
    assert!(looked.code == Some(0) && looked.stderr.contains("1 unprocessed row has an owner"), "{looked:?}");
    env.ok(&["adopt", "--table", "job", "--owner", "process_id", "--new", "0", "--done", "1", "--apply"]).await;
    assert!(env.file().contains("owner  = \"process_id\""), "{}", env.file());
}

async fn values_that_cannot_work_are_refused(kind: Kind) {
    let rows = "create table job (id integer primary key, status char(2), state char(1) check (state in ('a', 'b')), number integer, at timestamp)";
    let env = world(kind, rows, "job", "id").await;
    let with = async |more: &[&str]| {
        env.run(&["adopt", "--table", "job"].into_iter().chain(more.iter().copied()).collect::<Vec<_>>()).await
    };
    let same = if kind == Kind::Postgres { ["a", "a "] } else { ["a", "A"] };
    with(&["--status", "status", "--new", same[0], "--done", same[1]])
        .await
        .assert_refused(127, &["are equal for the column", "--new"]);
    with(&["--status", "state", "--new", "a", "--done", "c"])
        .await
        .assert_refused(127, &["--done", "allows only a, b, not `c`"]);
    with(&["--status", "status"]).await.assert_refused(127, &["cannot tell", "no rows", "--new and --done"]);
    with(&["--status", "id"]).await.assert_refused(127, &["`id` is part of the key"]);
    with(&["--status", "at"]).await.assert_refused(127, &["`at` has the type timestamp", "a status must be"]);
    if kind != Kind::Sqlite {
        with(&["--status", "status", "--new", "0", "--done", "long"])
            .await
            .assert_refused(127, &["`long` does not fit into 2"]);
        with(&["--status", "number", "--new", "0", "--done", "x"])
            .await
            .assert_refused(127, &["queues.job.status", "x"]);
    }
}

async fn what_the_file_says_already_is_not_changed(kind: Kind) {
    let env = Env::bare(kind).await;
    let with = async |more: &[&str]| {
        env.run(&["adopt", "--table", "received_order"].into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
            .await
    };
    let before = env.everything().await;
    with(&["--done", "9", "--apply"])
        .await
        .assert_refused(127, &["--done", "queues.orders.status.done is `1`", "change it there"]);
    with(&["--queue", "again", "--apply"]).await.assert_refused(127, &["--queue", "already the queue `orders`"]);
    env.run(&["adopt", "--table", "project", "--queue", "mail"])
        .await
        .assert_refused(127, &["`mail` for something else", "--queue"]);
    assert_eq!(env.everything().await, before);
    // Only what the table lacks is added; the file stays as it is.
    let table = if kind == Kind::MariaDb { " on received_order" } else { "" };
    env.sql(&format!("drop index received_order_claim{table}")).await;
    let file = env.file();
    let applied = with(&["--apply"]).await;
    assert!(applied.code == Some(0) && applied.stdout.starts_with("create index"), "{applied:?}");
    assert_eq!(env.file(), file);
    assert!(with(&[]).await.stderr.contains("nothing is missing"));
}

async fn a_table_that_is_a_queue_by_another_name_is_known(kind: Kind) {
    let env = Env::bare(kind).await;
    let schema = match kind {
        Kind::Sqlite => "main",
        Kind::Postgres => "public",
        Kind::MariaDb => env.url.rsplit('/').next().unwrap().split('?').next().unwrap(),
    };
    for table in ["received_order", "RECEIVED_ORDER"] {
        let looked = env.run(&["adopt", "--table", &format!("{schema}.{table}")]).await;
        assert!(looked.stderr.contains("nothing is missing: the table is the queue `orders`"), "{looked:?}");
    }
}

async fn several_columns_that_could_be_the_status_are_told(kind: Kind) {
    let rows = "create table job (id integer primary key, mail_status char(1) not null, print_status char(1) not null); \
         insert into job values (1, '0', '1'), (2, '1', '1'), (3, '1', '0')";
    let env = world(kind, rows, "job", "id").await;
    let looked = env.run(&["adopt", "--table", "job"]).await;
    looked.assert_refused(127, &["several columns", "`mail_status` (`1` 2, `0` 1)", "`print_status`", "name one"]);
    env.ok(&["adopt", "--table", "job", "--status", "print_status"]).await;
}

async fn guesses_are_told_and_never_applied(kind: Kind) {
    let rows = "create table job (id integer primary key, name varchar(9), status char(1)); \
         insert into job values (1, 'a', '0'), (2, 'b', '1'), (3, 'c', '2'), (4, 'd', '2'), (5, 'e', null)";
    let env = world(kind, rows, "job", "name").await;
    let looked = env.run(&["adopt", "--table", "job"]).await;
    assert_eq!(looked.code, Some(0), "{looked:?}");
    for told in
        ["`2` 2", "`0` 1", "null 1", "(all rows)", "2 is more frequent than 1", "check this", "left alone: null 1"]
    {
        assert!(looked.stderr.contains(told), "{told}: {looked:?}");
    }
    assert!(looked.stdout.contains("# check this: new is a guess; done is a guess"), "{looked:?}");
    let before = env.everything().await;
    env.run(&["adopt", "--table", "job", "--apply"])
        .await
        .assert_refused(127, &["only a guess that `0` means new", "`2` 2", "--new and --done", "nothing was changed"]);
    assert_eq!(env.everything().await, before);
    env.ok(&["adopt", "--table", "job", "--new", "0", "--done", "2", "--apply"]).await;
    assert!(env.file().contains(r#"new = "0", done = "2" }"#), "{}", env.file());
    env.ok(&["migrate"]).await;
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from job where status = '2'").await, 3);
}

#[tokio::test]
async fn a_column_that_no_index_can_hold_is_refused() {
    let rows = "create table job (id integer primary key, status char(1) default '0', note text, owner text)";
    let env = world(Kind::MariaDb, rows, "job", "id").await;
    let refused = env.run(&["adopt", "--table", "job", "--owner", "owner"]).await;
    refused.assert_refused(127, &["`owner` must not be text", "claim index", "--owner"]);
    env.run(&["adopt", "--table", "job", "--status", "note"]).await.assert_refused(127, &["has the type text"]);
}

on_servers!(a_value_that_the_column_cannot_have_is_refused_at_start);

/// What the server would take for another value, or cut off, is not a status.
async fn a_value_that_the_column_cannot_have_is_refused_at_start(kind: Kind) {
    let env = world(kind, include_str!("schemas/reading.sql"), "q", "reading").await;
    env.sql("create table numbered (id integer primary key, reading varchar(9), state integer)").await;
    env.ok(&["adopt", "--table", "device_reading", "--queue", "q", "--failed", "rejected", "--apply"]).await;
    env.ok(&["migrate"]).await;
    env.reconfigure(|config| config.replace("\"processed\"", "\"prcessed\""));
    env.run(&["check"]).await.assert_refused(127, &["queues.q.status", "prcessed", "enum"]);
    env.ok(&[
        "adopt",
        "--table",
        "numbered",
        "--queue",
        "n",
        "--new",
        "0",
        "--done",
        "1",
        "--config",
        "n.toml",
        "--database-url",
        &env.url,
        "--apply",
    ])
    .await;
    let file = env.folder().join("n.toml");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace("done = 1", "done = \"one\"")).unwrap();
    env.run(&["check", "--config", "n.toml"]).await.assert_refused(127, &["queues.n.status", "one"]);
}

#[tokio::test]
async fn a_temporary_table_of_another_session_is_refused() {
    let env = Env::bare(Kind::Postgres).await;
    let mut session = PgConnection::connect(&env.url).await.unwrap();
    sqlx::raw_sql("create temporary table brief (id integer primary key, status char(1))")
        .execute(&mut session)
        .await
        .unwrap();
    let schema = sqlx::query("select nspname::text from pg_namespace where oid = pg_my_temp_schema()");
    let schema: String = schema.fetch_one(&mut session).await.unwrap().get(0);
    let refused = env.run(&["adopt", "--table", &format!("{schema}.brief")]).await;
    refused.assert_refused(127, &["`brief` is a temporary table", "make it permanent"]);
}

#[tokio::test]
async fn an_index_that_could_not_be_built_is_no_key_and_is_cleared_away() {
    let rows = "create table job (id integer not null, name varchar(9), status char(1) default '0' not null); \
         insert into job (id, name) values (1, 'x'), (1, 'y')";
    let env = world(Kind::Postgres, rows, "job", "name").await;
    let mut session = PgConnection::connect(&env.url).await.unwrap();
    for torn in ["job_id", "job_claim"] {
        let build = format!("create unique index concurrently {torn} on job (id)");
        assert!(sqlx::raw_sql(AssertSqlSafe(build)).execute(&mut session).await.is_err());
    }
    env.run(&["adopt", "--table", "job"]).await.assert_refused(127, &["neither a primary key"]);
    env.sql("update job set id = 2 where name = 'y'; alter table job add primary key (id)").await;
    env.ok(&["adopt", "--table", "job", "--new", "0", "--done", "1", "--apply"]).await;
    assert_eq!(
        env.number("select count(*) from pg_index where not indisvalid and indexrelid = 'job_id'::regclass").await,
        1
    );
    let claim =
        "select count(*) from pg_index where indisvalid and indexrelid = 'job_claim'::regclass and indpred is not null";
    assert_eq!(env.number(claim).await, 1);
}
