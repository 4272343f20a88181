//! From a table that is there to processed rows with three commands, on schemas as people have them.
//! What is refused is in `adopt_refusals.rs`.

use crate::schemas::{dialect, world};
use crate::testenv::{Env, Kind};

on_all!(
    the_classic_receive_table,
    a_mail_outbox_with_a_smallint,
    payments_by_uuid_with_a_flag,
    readings_with_two_key_columns_and_an_enum,
    invoices_by_decimal_with_a_constraint,
    orders_in_japanese,
    events_by_time_with_codes_of_their_own,
    a_table_in_another_schema,
    names_and_values_that_try_to_leave_their_quotes,
    without_a_file_one_is_made,
    an_index_that_serves_is_recognised,
    a_large_table_is_not_counted_to_its_end,
    the_proposal_as_json,
    a_flag_is_true_and_false_on_every_database,
    many_rows_by_every_kind_of_key,
    a_queue_with_an_order_and_groups_gets_its_index,
);

/// What bare digits mean, nobody knows but the user.
const CLASSIC: &[&str] = &["--new", "0", "--done", "1", "--failed", "2"];

/// A table, and how its rows are processed.
struct Case<'a> {
    /// As the command line names it.
    table: &'a str,
    queue: &'a str,
    flags: &'a [&'a str],
    /// The column that the action writes down.
    column: &'a str,
    /// Rows that are new; one of them is poison.
    new: i64,
    /// Rows that were done before.
    old: i64,
    /// Counts the done rows.
    done: &'a str,
}

/// Three commands on a schema of the folder.
async fn adopt(kind: Kind, sql: &str, case: Case<'_>) {
    let env = world(kind, sql, case.queue, case.column).await;
    run_through(&env, &case).await;
}

/// Looking changes nothing; three commands process what is new; what fails is put aside and retried; a second adoption finds
/// nothing missing.
async fn run_through(env: &Env, case: &Case<'_>) {
    let look: Vec<&str> = ["adopt", "--table", case.table].into_iter().chain(case.flags.iter().copied()).collect();
    let apply: Vec<&str> = look.iter().copied().chain(["--apply"]).collect();
    let (before, file) = (env.everything().await, env.file());
    let looked = env.run(&look).await;
    assert_eq!(looked.code, Some(0), "{looked:?}");
    assert_eq!(env.everything().await, before, "looking changed something");
    assert!(looked.stdout.contains(&format!("[queues.{}]", case.queue)), "{looked:?}");
    assert!(looked.stdout.contains("create index") && looked.stderr.contains("nothing was changed"), "{looked:?}");

    let applied = env.run(&apply).await;
    assert_eq!(applied.code, Some(0), "{applied:?}");
    env.ok(&["migrate"]).await;
    env.ok(&["run", "--drain"]).await;

    assert!(env.file().starts_with(&file), "what was there is kept: {}", env.file());
    assert!(!env.file().contains("# [actions."), "it has an action already: {}", env.file());
    assert_eq!(env.number(case.done).await, case.old + case.new - 1, "all but the poison after {applied:?}");
    assert_eq!(env.number("select count(*) from effect").await, case.new);
    assert_retried(env, case).await;
    assert_eq!(env.number(case.done).await, case.old + case.new);
    let checked = env.run(&["check"]).await;
    assert!(checked.code == Some(0) && !checked.stderr.contains("no index"), "{checked:?} after {applied:?}");
    assert_nothing_missing(env, [&look, &apply]).await;
}

/// The poisoned message is parked; an operator finds it by its id and runs it again.
async fn assert_retried(env: &Env, case: &Case<'_>) {
    let failed: serde_json::Value = serde_json::from_str(&env.ok(&["failed", "list", "--json"]).await).unwrap();
    assert_eq!(failed.as_array().map(Vec::len), Some(1), "{failed}");
    let id = failed[0]["id"].as_str().unwrap();
    assert!(env.ok(&["failed", "show", id]).await.contains("poison"), "its payload is found by its id");
    env.heal().await;
    assert_eq!(env.ok(&["failed", "retry", id]).await, format!("{id} retried\n"));
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from effect").await, case.new);
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0);
}

async fn assert_nothing_missing(env: &Env, commands: [&[&str]; 2]) {
    let before = (env.shape().await, env.file());
    for command in commands {
        let again = env.run(command).await;
        assert!(again.code == Some(0) && again.stderr.contains("nothing is missing"), "{again:?}");
        assert_eq!(again.stdout, "");
    }
    assert_eq!(before, (env.shape().await, env.file()), "a second time changed something");
}

async fn the_classic_receive_table(kind: Kind) {
    let case = Case {
        table: "INS_PROJECT_RECEIVE_MESSAGE",
        queue: "ins_project_receive_message",
        flags: CLASSIC,
        column: if kind == Kind::Postgres { "project_name" } else { "PROJECT_NAME" },
        new: 4,
        old: 2,
        done: "select count(*) from INS_PROJECT_RECEIVE_MESSAGE where STATUS = '1'",
    };
    adopt(kind, include_str!("schemas/nablarch.sql"), case).await;
}

async fn a_mail_outbox_with_a_smallint(kind: Kind) {
    let case = Case {
        table: "mail_request",
        queue: "mail_request",
        flags: &["--new", "0", "--done", "1", "--failed", "9"],
        column: "address",
        new: 3,
        old: 1,
        done: "select count(*) from mail_request where send_status = 1 and process_id is null",
    };
    adopt(kind, include_str!("schemas/mail.sql"), case).await;
}

async fn payments_by_uuid_with_a_flag(kind: Kind) {
    let case = Case {
        table: "payment",
        queue: "payment",
        flags: &[],
        column: "payer",
        new: 3,
        old: 1,
        done: "select count(*) from payment where processed and locked_by is null",
    };
    adopt(kind, include_str!("schemas/payment.sql"), case).await;
}

async fn readings_with_two_key_columns_and_an_enum(kind: Kind) {
    let case = Case {
        table: "device_reading",
        queue: "device_reading",
        flags: &["--failed", "rejected"],
        column: "reading",
        new: 3,
        old: 1,
        done: "select count(*) from device_reading where state = 'processed'",
    };
    adopt(kind, include_str!("schemas/reading.sql"), case).await;
}

async fn invoices_by_decimal_with_a_constraint(kind: Kind) {
    let case = Case {
        table: "invoice",
        queue: "invoice",
        flags: &["--new", "NEW", "--done", "DONE", "--owner", "owner"],
        column: "customer",
        new: 4,
        old: 0,
        done: "select count(*) from invoice where status = 'DONE' and owner is null",
    };
    adopt(kind, include_str!("schemas/invoice.sql"), case).await;
}

async fn orders_in_japanese(kind: Kind) {
    let case = Case {
        table: "受注",
        queue: "queue",
        flags: &[],
        column: "品名",
        new: 3,
        old: 1,
        done: &dialect(kind, "select count(*) from \"受注\" where \"処理状態\" = '処理済'"),
    };
    adopt(kind, include_str!("schemas/juchu.sql"), case).await;
}

async fn events_by_time_with_codes_of_their_own(kind: Kind) {
    let case = Case {
        table: "event_log",
        queue: "events",
        flags: &["--queue", "events", "--new", "10", "--done", "20", "--failed", "-1", "--owner", "taken_by"],
        column: "what",
        new: 3,
        old: 1,
        done: "select count(*) from event_log where state = 20",
    };
    adopt(kind, include_str!("schemas/event.sql"), case).await;
}

async fn a_table_in_another_schema(kind: Kind) {
    let env = world(kind, "", "order_request", "item").await;
    let schema = match kind {
        Kind::Sqlite => "main".to_owned(),
        Kind::Postgres => "sales".to_owned(),
        Kind::MariaDb => format!("{}_sales", env.url.rsplit('/').next().unwrap().split('?').next().unwrap()),
    };
    if kind != Kind::Sqlite {
        env.sql(&format!("create schema {schema}")).await;
    }
    env.sql(&dialect(kind, &include_str!("schemas/sales.sql").replace("SCHEMA", &schema))).await;
    let case = Case {
        table: &format!("{schema}.order_request"),
        queue: "order_request",
        flags: CLASSIC,
        column: "item",
        new: 2,
        old: 1,
        done: &format!("select count(*) from {schema}.order_request where status = '1' and process_id is null"),
    };
    run_through(&env, &case).await;
}

async fn names_and_values_that_try_to_leave_their_quotes(kind: Kind) {
    let sql = include_str!("schemas/hostile.sql");
    let (table, status, sql) = match kind {
        Kind::MariaDb => {
            // Only names change their quotes, and a backslash must be told apart from an escape.
            let names =
                sql.replace("\"order\"", "`order`").replace("\"a 'b'\"", "`a 'b'`").replace("\"Group\"", "`Group`");
            ("`we\"ird.`` '; drop table effect; -- x`", "`st\"a``tus 状態`", names.replace('\\', "\\\\"))
        }
        _ => ("\"we\"\"ird.` '; drop table effect; -- x\"", "\"st\"\"a`tus 状態\"", sql.to_owned()),
    };
    let sql: Vec<_> = sql.lines().filter(|line| !line.starts_with("--")).collect();
    let env = world(kind, "", "hostile", "item").await;
    env.sql(&sql.join("\n").replace("TABLE", table).replace("STATUS", status)).await;
    let case = Case {
        table: "\"we\"\"ird.` '; drop table effect; -- x\"",
        queue: "hostile",
        flags: &[
            "--queue",
            "hostile",
            "--status",
            "st\"a`tus 状態",
            "--new",
            "it's \"new\" \\ ${HOME}",
            "--done",
            "'done'); --",
            "--owner",
            "Group",
        ],
        column: "item",
        new: 3,
        old: 1,
        done: &format!("select count(*) from {table} where {status} like '%done%'"),
    };
    run_through(&env, &case).await;
}

async fn without_a_file_one_is_made(kind: Kind) {
    let env = Env::bare(kind).await;
    let file = env.folder().join("ichido.toml");
    std::fs::remove_file(&file).unwrap();
    env.run(&["adopt", "--table", "received_order"])
        .await
        .assert_refused(127, &["ichido.toml", "no such file", "--database-url"]);
    env.ok(&["adopt", "--table", "received_order", "--database-url", &env.url]).await;
    assert!(!file.exists(), "looking made a file");
    env.ok(&["adopt", "--table", "received_order", "--database-url", &env.url, "--new", "0", "--done", "1", "--apply"])
        .await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "it may hold a password");
    assert!(env.file().contains("# [actions.ReceivedOrder]") && env.file().contains(":id, :name"), "{}", env.file());
    env.ok(&["migrate"]).await;
    assert_eq!(env.ok(&["send", "received_order", r#"{"id":1,"name":"x"}"#]).await, "received_order/1\n");
}

async fn an_index_that_serves_is_recognised(kind: Kind) {
    let env = Env::bare(kind).await;
    let looked = env.run(&["adopt", "--table", "received_order"]).await;
    assert!(looked.stdout.is_empty() && looked.stderr.contains("nothing is missing"), "{looked:?}");
    env.reconfigure(|config| config.replace("\"received_order\"", "\"other\""));
    let looked = env.run(&["adopt", "--table", "received_order"]).await;
    assert!(looked.stdout.contains("[queues.received_order]") && !looked.stdout.contains("create index"), "{looked:?}");
    assert!(looked.stderr.contains("an index covers the claimable rows"), "{looked:?}");
    let table = if kind == Kind::MariaDb { " on received_order" } else { "" };
    env.sql(&format!("drop index received_order_claim{table}; create index by_name on received_order (name, status)"))
        .await;
    let looked = env.run(&["adopt", "--table", "received_order"]).await;
    assert!(looked.stdout.contains("create index") && !looked.stdout.contains("alter table"), "{looked:?}");
    assert!(!looked.stdout.contains("received_order_owner"), "{looked:?}");
    if kind != Kind::MariaDb {
        env.sql("drop index received_order_owner").await;
        let applied = env.run(&["adopt", "--table", "received_order", "--new", "0", "--done", "1", "--apply"]).await;
        assert!(applied.code == Some(0) && applied.stdout.contains("received_order_owner"), "{applied:?}");
        let looked = env.run(&["adopt", "--table", "received_order"]).await;
        assert!(looked.stderr.contains("nothing is missing"), "{looked:?}");
    }
}

/// A query for the numbers from 1 on, as `n`.
fn numbers(kind: Kind, most: u32) -> String {
    match kind {
        Kind::Sqlite => {
            format!("with recursive s(n) as (select 1 union all select n + 1 from s where n < {most}) select n from s")
        }
        Kind::Postgres => format!("select n from generate_series(1, {most}) n"),
        Kind::MariaDb => format!("select seq as n from seq_1_to_{most}"),
    }
}

async fn a_large_table_is_not_counted_to_its_end(kind: Kind) {
    let env = Env::bare(kind).await;
    let numbers = numbers(kind, 150_000);
    let rows = format!(
        "insert into received_order (id, name, status) select n, 'x', case when n > 149993 then '0' when n < 50 then '2' else '1' end from ({numbers}) s"
    );
    env.sql(&rows).await;
    let looked = env.run(&["adopt", "--table", "received_order"]).await;
    let told = "`1` 99944, `2` 49, `0` 7 (in the first and last 50000 rows by key)";
    assert!(looked.code == Some(0) && looked.stderr.contains(told), "{looked:?}");
}

async fn the_proposal_as_json(kind: Kind) {
    let env = world(kind, include_str!("schemas/invoice.sql"), "invoice", "customer").await;
    let before = env.everything().await;
    let report: serde_json::Value =
        serde_json::from_str(&env.ok(&["adopt", "--table", "invoice", "--owner", "owner", "--json"]).await).unwrap();
    assert_eq!(env.everything().await, before);
    assert_eq!((&report["queue"], &report["key"]), (&"invoice".into(), &serde_json::json!(["invoice_no"])));
    let status = &report["status"];
    let values = [&status["new"]["value"], &status["done"]["value"], &status["failed"]["value"]];
    assert_eq!(values, ["NEW", "DONE", "ERROR"].map(serde_json::Value::from).each_ref());
    assert_eq!(status["counts"]["values"], serde_json::json!([["NEW", 4], ["CANCELLED", 1]]));
    assert_eq!((report["owner"]["there"].as_bool(), report["applied"].as_bool()), (Some(true), Some(false)));
    assert!(report["config"].as_str().unwrap().contains("[queues.invoice]"), "{report}");
    let ddl = report["claim"]["ddl"].as_array().unwrap();
    let (first, indexes) = (ddl[0].as_str().unwrap(), if kind == Kind::MariaDb { 1 } else { 2 });
    assert!(ddl.len() == indexes && first.contains("invoice_claim_2"), "that name is taken: {report}");
    assert!(!report["claim"]["steps"].as_array().unwrap().is_empty(), "{report}");
}

async fn a_flag_is_true_and_false_on_every_database(kind: Kind) {
    let env = world(kind, include_str!("schemas/payment.sql"), "payment", "payer").await;
    env.reconfigure(|config| {
        config + "\n[queues.payment]\ntable = \"payment\"\nstatus = { column = \"processed\", new = false, done = true }\nowner = \"locked_by\"\n"
    });
    env.ok(&["adopt", "--table", "payment", "--new", "false", "--done", "true", "--apply"]).await;
    env.ok(&["migrate"]).await;
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from payment where processed").await, 3);
    assert_eq!(env.number("select count(*) from effect").await, 3);
    let sent = r#"{"payment_id":"0b54a2e0-9f0e-4b6a-8f34-555555555555","payer":"new","amount":1}"#;
    env.ok(&["send", "payment", sent]).await;
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from payment where processed").await, 4);
}

/// A type of key, its type, and a value of it for each number `n`.
fn keys(kind: Kind) -> [(&'static str, &'static str, &'static str); 5] {
    let (time, time_of, uuid, uuid_of, text_of) = match kind {
        Kind::Sqlite => (
            "timestamp",
            "strftime('%Y-%m-%d %H:%M:%f', 1767225600 + n * 1.001, 'unixepoch')",
            "uuid",
            "printf('%08x-0000-4000-8000-%012d', n * 2654435761 % 4294967296, n)",
            "'k ' || n",
        ),
        Kind::Postgres => (
            "timestamptz",
            "timestamptz '2026-01-01' + n * interval '1000001 microseconds'",
            "uuid",
            "gen_random_uuid()",
            "'k ' || n",
        ),
        Kind::MariaDb => {
            ("datetime(6)", "timestampadd(microsecond, n * 1000001, '2026-01-01')", "uuid", "uuid()", "concat('K ', n)")
        }
    };
    [
        ("by_number", "decimal(12, 4)", "round(n * 12345.6789, 4)"),
        ("by_time", time, time_of),
        ("by_uuid", uuid, uuid_of),
        ("by_text", "char(10)", text_of),
        ("by_name", "varchar(40)", text_of),
    ]
}

/// More rows than one claim takes: a claim goes on where the last one ended, whatever the key is.
async fn many_rows_by_every_kind_of_key(kind: Kind) {
    let env = Env::bare(kind).await;
    env.configure(|_| format!("[database]\nurl = \"{}\"\n\n[process]\npoll = \"50ms\"\n", env.url));
    env.sql("create table effect (what varchar(60) not null, n integer not null)").await;
    for (table, key, value) in keys(kind) {
        env.sql(&format!(
            "create table {table} (part integer not null, id {key} not null, n integer not null, status char(1) default '0' not null, primary key (part, id)); \
             insert into {table} (part, id, n) select n % 3, {value}, n from ({}) s",
            numbers(kind, 200)
        ))
        .await;
        let action = format!(
            "\n[actions.{table}]\nfrom = \"{table}\"\nconcurrency = 2\nsql = [\"insert into effect (what, n) values ('{table}', :n)\"]\n"
        );
        // Each action waits for its queue, and only the one that is adopted may be missing.
        env.reconfigure(|config| config + &action);
        env.ok(&["adopt", "--table", table, "--new", "0", "--done", "1", "--apply"]).await;
    }
    env.ok(&["migrate"]).await;
    env.ok(&["run", "--drain"]).await;
    for (table, ..) in keys(kind) {
        assert_eq!(
            env.number(&format!("select count(*) from {table} where status = '1' and process_id is null")).await,
            200
        );
        assert_eq!(env.number(&format!("select count(distinct n) from effect where what = '{table}'")).await, 200);
    }
    assert_eq!(env.number("select count(*) from effect").await, 1000);
}

/// What the file says of order, parts and groups is in the index too.
async fn a_queue_with_an_order_and_groups_gets_its_index(kind: Kind) {
    let rows = "create table job (id integer primary key, name varchar(9), priority integer not null, kind varchar(9), customer varchar(9), \
         status char(1) default '0' not null); \
         insert into job (id, name, priority, kind, customer) values (1, 'a', 1, 'x', null), (2, 'b', 2, 'x', null), (3, 'c', 1, 'y', null)";
    let env = world(kind, rows, "job", "name").await;
    let queue = "\n[queues.job]\ntable = \"job\"\nstatus = { column = \"status\", new = \"0\", done = \"1\", failed = \"2\" }\n\
         owner = \"process_id\"\norder_by = [\"-priority\", \"id\"]\nonly = { kind = \"x\" }\ngroup_by = \"customer\"\n";
    env.reconfigure(|config| config + queue);
    let file = env.file();
    env.ok(&["adopt", "--table", "job", "--apply"]).await;
    assert_eq!(env.file(), file);
    assert_nothing_missing(&env, [&["adopt", "--table", "job"], &["adopt", "--table", "job", "--apply"]]).await;
    env.ok(&["migrate"]).await;
    let checked = env.run(&["check"]).await;
    assert!(!checked.stderr.contains("no index on its claimable rows"), "{checked:?}");
    env.ok(&["run", "--drain"]).await;
    assert_eq!(env.number("select count(*) from job where status = '1' and kind = 'x'").await, 2);
    assert_eq!(env.number("select count(*) from job where status = '0' and kind = 'y'").await, 1);
}

#[tokio::test]
async fn a_partitioned_table_is_a_queue_too() {
    let rows = "create table event (id integer, day date, name varchar(9), status char(1) default '0' not null, primary key (id, day)) partition by range (day); \
         create table event_2025 partition of event for values from ('2025-01-01') to ('2026-01-01'); \
         create table event_2026 partition of event for values from ('2026-01-01') to ('2027-01-01'); \
         insert into event values (1, '2025-05-05', 'one', '0'), (2, '2025-05-05', 'poison', '0'), (2, '2026-05-05', 'three', '0')";
    let case = Case {
        table: "event",
        queue: "event",
        flags: CLASSIC,
        column: "name",
        new: 3,
        old: 0,
        done: "select count(*) from event where status = '1'",
    };
    adopt(Kind::Postgres, rows, case).await;
}

/// The README's commands, with what it shows of the first.
#[tokio::test]
async fn the_readme_is_right() {
    let readme = include_str!("../../../../README.md");
    let section = readme.split("## Adopt a table you have").nth(1).unwrap().split("\n## ").next().unwrap();
    let shown: Vec<_> = section.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let rows = "create table purchase_order (shop varchar(9), number integer, item varchar(9), state varchar(9) default 'NEW' \
         check (state in ('NEW', 'DONE', 'ERROR')), primary key (shop, number)); \
         insert into purchase_order (shop, number, item) values ('a', 1, 'x'), ('b', 1, 'y'); \
         insert into purchase_order values ('a', 0, 'z', 'DONE')";
    let env = world(Kind::Sqlite, rows, "purchase_order", "item").await;
    let (command, printed) = shown[0].split_once('\n').unwrap();
    let words = |line: &str| line.trim_start_matches("$ ichido ").split(' ').map(str::to_owned).collect::<Vec<_>>();
    let run = async |line: &str| env.ok(&words(line).iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(run(command).await, printed);
    for line in shown[1].lines() {
        run(line).await;
    }
    assert_eq!(env.number("select count(*) from purchase_order where state = 'DONE'").await, 3);
}
