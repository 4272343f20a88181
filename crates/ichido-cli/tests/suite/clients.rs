//! Programs in other languages, on drivers that know nothing of ichido: they send with the statements that `ichido send --sql` prints.
//! The senders in `examples/clients` are run as they are.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use ichido::store::MigrateOptions;
use ichido_testkit::LIMIT;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

use crate::testenv::{Env, Kind, next};

on_all!(
    the_sender_in_python_sends_with_its_row_or_not_at_all,
    what_is_printed_sends_once_and_as_it_was_asked_for,
    what_is_printed_sends_rows_of_a_table,
    what_is_printed_is_sql_with_comments,
);

on_servers!(the_sender_in_node_sends_with_its_row_or_not_at_all);

/// A file of the repository.
pub(crate) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The folder of packages that `./test` installs.
fn packages(folder: &str, one: &str) -> PathBuf {
    let folder = file("target").join(folder);
    assert!(folder.join(one).is_dir(), "{one} is not in {}: run ./test, which installs it", folder.display());
    folder
}

/// Python with the drivers and the clients' module.
pub(crate) fn python(script: &Path) -> Command {
    let paths = [packages("python", "psycopg"), file("examples/clients/python")];
    let mut python = Command::new("python3");
    python.arg(script).env("PYTHONPATH", std::env::join_paths(paths).unwrap()).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// Runs a program with this input, and returns what it printed.
pub(crate) async fn output_of(mut program: Command, input: &str) -> String {
    let program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut program = program.spawn().expect("it starts; ./test installs python3 and node");
    program.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let ended = timeout(LIMIT, program.wait_with_output()).await.expect("the client ends").unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

/// The database as other drivers name it.
pub(crate) fn database(env: &Env) -> String {
    match env.kind {
        Kind::Sqlite => env.folder().join("test.db").display().to_string(),
        Kind::Postgres => env.url.clone(),
        Kind::MariaDb => env.url.split('?').next().unwrap().to_owned(),
    }
}

/// What `send --sql --json` prints, in a file.
pub(crate) async fn how(env: &Env, queue: &str, more: &[&str]) -> PathBuf {
    let printed = env.ok(&[&["send", "--sql", "--json", queue], more].concat()).await;
    let path = env.folder().join(format!("{queue}.json"));
    std::fs::write(&path, printed).unwrap();
    path
}

/// A queue whose messages leave a line each.
async fn world(kind: Kind) -> Env {
    let env = Env::new(kind).await;
    env.sql("create table member (name varchar(40) not null); create table greeted (name varchar(40) not null)").await;
    env.configure(|config| {
        format!(
            "{config}\n[queues.welcome]\n[actions.Greet]\nfrom = \"welcome\"\nretry = {{ attempts = 3, first = 0, max = 0 }}\n\
             sql = [\"insert into greeted (name) values (:name)\"]\n"
        )
    });
    env
}

/// Whoever has signed up is greeted once, and nobody else.
async fn assert_greeted(env: &Env, sender: Command) {
    let process = env.start("run", &["run", "Greet"]);
    process.until_logged("process starts").await;
    let printed = output_of(sender, "").await;
    let expected = ["Anna has signed up", "Mallory has not: we do not take everybody", "Bjørn 'b' has signed up"];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    env.until("select count(*) from greeted", 2).await;
    env.until_none("ichido_message").await;
    process.kill().await;
    for table in ["member", "greeted"] {
        assert_eq!(env.number(&format!("select count(*) from {table}")).await, 2, "{table}");
        let names = format!("select count(*) from {table} where name in ('Anna', 'Bjørn ''b''')");
        assert_eq!(env.number(&names).await, 2, "{table}");
    }
}

const NAMES: [&str; 3] = ["Anna", "Mallory", "Bjørn 'b'"];

async fn the_sender_in_python_sends_with_its_row_or_not_at_all(kind: Kind) {
    let env = world(kind).await;
    let script = match kind {
        Kind::Sqlite => "examples/clients/python/sign_up_sqlite.py",
        Kind::Postgres => "examples/clients/python/sign_up_postgres.py",
        Kind::MariaDb => "examples/clients/python/sign_up_mariadb.py",
    };
    let mut sender = python(&file(script));
    sender.arg(database(&env)).arg(how(&env, "welcome", &[]).await).args(NAMES);
    assert_greeted(&env, sender).await;
}

/// Node looks for packages beside the file that imports them: the example lies beside those that `./test` has installed.
async fn the_sender_in_node_sends_with_its_row_or_not_at_all(kind: Kind) {
    let env = world(kind).await;
    let script = if kind == Kind::Postgres { "sign_up_postgres.mjs" } else { "sign_up_mariadb.mjs" };
    let modules = packages("node", "node_modules/pg").join("node_modules");
    std::os::unix::fs::symlink(modules.canonicalize().unwrap(), env.folder().join("node_modules")).unwrap();
    for name in [script, "ichido_send.mjs"] {
        std::fs::copy(file("examples/clients/node").join(name), env.folder().join(name)).unwrap();
    }
    let mut sender = Command::new("node");
    sender.arg(env.folder().join(script)).arg(database(&env)).arg(how(&env, "welcome", &[]).await).args(NAMES);
    assert_greeted(&env, sender).await;
}

/// Brings ichido's tables to a version that this binary does not know: what it has printed still works.
async fn migrate_further(env: &Env) {
    let options = MigrateOptions::default().next(next::next_version(env.kind, "of_the_next_version"));
    next::migrate(env, options).await.unwrap_or_else(|error| panic!("{error}"));
}

/// Sends each line through an ordinary driver.
pub(crate) async fn send_plain(env: &Env, lines: &[Value]) {
    let kind = match env.kind {
        Kind::Sqlite => "sqlite",
        Kind::Postgres => "postgres",
        Kind::MariaDb => "mysql",
    };
    let mut sender = python(&file("crates/ichido-cli/tests/suite/plain_sends.py"));
    sender.args([kind, &database(env)]);
    output_of(sender, &lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")).await;
}

async fn what_is_printed_sends_once_and_as_it_was_asked_for(kind: Kind) {
    let env = world(kind).await;
    let how = how(&env, "welcome", &[]).await;
    migrate_further(&env).await;
    let message = |name: &str| json!({ "how": how, "message": { "name": name } });
    let with = |name: &str, options: Value| {
        let mut line = message(name);
        line.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        line
    };
    let (commit, rollback) = (json!({ "end": "commit" }), json!({ "end": "rollback" }));
    let lines = [
        message("plain"),
        with("日本 \"x\"", json!({ "group": "g", "headers": { "tenant": "é" } })),
        with("first", json!({ "unique": "k" })),
        with("second", json!({ "unique": "k" })),
        with("second and later", json!({ "unique": "k", "delay": 3_600_000 })),
        with("late", json!({ "delay": 3_600_000 })),
        with("late and unique", json!({ "delay": 3_600_000, "unique": "l" })),
        with("not again", json!({ "unique": "l" })),
        commit,
        message("gone"),
        with("gone too", json!({ "delay": 1, "unique": "m" })),
        rollback,
    ];
    send_plain(&env, &lines).await;
    assert_eq!(env.number("select count(*) from ichido_message").await, 5);
    assert_eq!(env.number("select count(*) from ichido_parked where state = 'waiting'").await, 2);
    let headers = "select count(*) from ichido_message where group_key = 'g' and headers like '%tenant%'";
    assert_eq!(env.number(headers).await, 1);
    env.ok(&["run", "Greet", "--drain"]).await;
    assert_eq!(env.number("select count(*) from greeted").await, 3);
    for name in ["plain", "日本 \"x\"", "first"] {
        assert_eq!(env.number(&format!("select count(*) from greeted where name = '{name}'")).await, 1, "{name}");
    }
    env.sql("update ichido_parked set due_at = parked_at").await;
    env.ok(&["run", "Greet", "--drain"]).await;
    assert_eq!(env.number("select count(*) from greeted where name like 'late%'").await, 2);
    assert_eq!(env.number("select count(*) from greeted").await, 5);
}

async fn what_is_printed_sends_rows_of_a_table(kind: Kind) {
    let env = world(kind).await;
    let all = how(&env, "orders", &[]).await;
    send_plain(&env, &[json!({ "how": all, "message": { "id": 1, "name": "it's" } }), json!({ "end": "commit" })])
        .await;
    let some = how(&env, "orders", &[r#"{"id":1,"name":"x","status":"7"}"#]).await;
    send_plain(&env, &[json!({ "how": some, "message": { "id": 2, "name": "two" } }), json!({ "end": "commit" })])
        .await;
    env.ok(&["run", "ProjectCreation", "--drain"]).await;
    env.assert_exact(2).await;
    env.run(&["send", "--sql", "orders", r#"{"nme":1}"#]).await.assert_refused(127, &["`nme`", "`name`"]);
}

async fn what_is_printed_is_sql_with_comments(kind: Kind) {
    let env = world(kind).await;
    let lanes = "\n[lanes.vip]\npolicy = \"strict\"\n[[lanes.vip.levels]]\nlevel = \"gold\"\nqueue = \"g\"\n[[lanes.vip.levels]]\nlevel = \"plain\"\nqueue = \"p\"\n";
    env.reconfigure(|config| config + lanes);
    let printed = env.ok(&["send", "--sql", "welcome"]).await;
    for part in
        ["-- Sends to the managed queue welcome", "ichido's tables", "payload (text):", "insert into ichido_message"]
    {
        assert!(printed.contains(part), "{printed}");
    }
    assert_eq!(printed.contains("pg_notify"), kind == Kind::Postgres, "{printed}");
    assert!(printed.lines().all(|line| line.is_empty() || line.starts_with("-- ") || line.ends_with(';')), "{printed}");
    assert!(env.ok(&["send", "--sql", "vip", "--level", "gold"]).await.contains("queue g,"));
    env.run(&["send", "--sql", "vip"]).await.assert_refused(127, &["--level"]);
    env.run(&["send", "--sql", "mial"]).await.assert_refused(127, &["mial", "mail"]);
    env.run(&["send", "--sql", "mail", "1", "--delay", "1h"]).await.assert_refused_by_clap();
    env.run(&["send", "mail", "1", "--json"]).await.assert_refused_by_clap();
    assert_eq!(env.number("select count(*) from ichido_message").await, 0, "nothing is sent");
}
