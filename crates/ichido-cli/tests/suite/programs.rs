//! Programs of the user's own under ichido's command line: the examples, run from outside. A test starts its own binary again,
//! which then is one of them.

use std::{path::PathBuf, process::Stdio};

use crate::testenv::{Env, Kind};
use ichido::{BatchAction, Context, Outcome, Pool, QueueOf, Result};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;
use ichido_testkit::fixture::ReaderFixture;
use tokio::process::Command;

#[allow(dead_code, reason = "its main is not run here")]
#[path = "../../examples/directory.rs"]
mod directory;
#[allow(dead_code, reason = "its main is not run here")]
#[path = "../../examples/elapsed.rs"]
mod elapsed;
#[allow(dead_code, reason = "its main is not run here")]
#[path = "../../examples/rate_limit.rs"]
mod rate_limit;
#[allow(dead_code, reason = "its main is not run here")]
#[path = "../../examples/state.rs"]
mod state;
#[allow(dead_code, reason = "its main is not run here")]
#[path = "../../examples/statuses.rs"]
mod statuses;
#[allow(dead_code, reason = "its main is not run here")]
#[path = "../../examples/tenant.rs"]
mod tenant;

const PROGRAM: &str = "ICHIDO_TEST_PROGRAM";
const ARGUMENTS: &str = "ICHIDO_TEST_ARGUMENTS";

const MAIL: QueueOf<String> = QueueOf::named("mail");

async fn greet(_: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    println!("dear {name}");
    Ok(Outcome::Done)
}

/// How many messages it gets together.
struct Count;

impl BatchAction<Sqlite> for Count {
    type Message = String;

    async fn handle(&self, _: &mut Context<Sqlite>, names: Vec<String>) -> Result<Outcome> {
        println!("{} together", names.len());
        Ok(Outcome::Done)
    }
}

/// Not a test: one of the programs.
#[test]
#[ignore = "run by other tests, in processes of their own"]
fn child() {
    let Ok(name) = std::env::var(PROGRAM) else { return };
    let program: Program<Sqlite> = match name.as_str() {
        "elapsed" => elapsed::program(),
        "rate_limit" => rate_limit::program(),
        "state" => state::program(),
        "stateless" => Program::new().action_fn("Greet", state::greet),
        "stateless, declared" => Program::new().needs::<state::Greeter>("Greet").action_fn("Greet", state::greet),
        "statuses" => statuses::program(),
        "tenant" => tenant::program(),
        "typed" => Program::new().on(&MAIL, "Greet", greet),
        "batch" => Program::new().batch_action("Greet", Count),
        other => panic!("no program {other}"),
    };
    let arguments = std::env::var(ARGUMENTS).unwrap();
    let words = std::iter::once("program").chain(arguments.split('\n')).map(Into::into);
    std::process::exit(program.run(words).into())
}

/// A world with an action `Greet` in Rust, and how a program ends in it.
struct World(Env);

impl World {
    async fn new() -> Self {
        let env = Env::new(Kind::Sqlite).await;
        env.configure(|config| {
            config + "\n[actions.Greet]\nfrom = \"mail\"\nconcurrency = 2\nretry = { attempts = 1 }\n"
        });
        World(env)
    }

    async fn run(&self, program: &str, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "programs::child", "--ignored", "--nocapture"]).current_dir(self.0.folder());
        command.env(PROGRAM, program).env(ARGUMENTS, args.join("\n")).env("ICHIDO_LOG", "info");
        let ended = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
    }

    async fn code(&self, args: &[&str]) -> Option<i32> {
        self.run("statuses", args).await.0
    }
}

#[tokio::test]
async fn every_row_of_the_table_of_exit_codes() {
    let world = World::new().await;
    let rows = [
        ("-1", 1),
        ("-404", 1),
        ("0", 0),
        ("1", 1),
        ("57", 57),
        ("127", 127),
        ("199", 199),
        ("200", 0),
        ("207", 0),
        ("399", 0),
        ("400", 10),
        ("401", 11),
        ("402", 15),
        ("403", 12),
        ("404", 13),
        ("408", 15),
        ("409", 14),
        ("499", 15),
        ("500", 20),
        ("503", 20),
        ("99999", 20),
    ];
    for (status, code) in rows {
        assert_eq!(world.code(&["run", "Greet/G1", "--", "--status", status]).await, Some(code), "{status}");
    }
    assert_eq!(world.code(&["run", "Greet/G1", "--", "--error", "403"]).await, Some(12));
    assert_eq!(world.code(&["run", "Greet/G1", "--", "--error", "no number"]).await, Some(20));
    assert_eq!(world.code(&["run", "Greet/G1", "--", "stray"]).await, Some(127));
    assert_eq!(world.code(&["run", "Geet/G1"]).await, Some(13));
    assert_eq!(world.code(&["run", "--drian"]).await, Some(127));
    assert_eq!(world.code(&["--config", "nowhere.toml", "run"]).await, Some(127));
    assert_eq!(world.code(&["run", "Greet", "--drain"]).await, Some(0));
    world.0.ok(&["send", "mail", "1"]).await;
    assert_eq!(world.code(&["run", "Greet", "--", "--abort", "150"]).await, Some(150));
}

#[tokio::test]
async fn a_handler_in_rust_sees_every_message_and_the_action_its_arguments() {
    let world = World::new().await;
    world.0.run_with_input(&["send", "mail", "--file", "-"], b"\"anna\"\n\"ben\"\n").await;
    let (code, stdout, stderr) = world.run("elapsed", &["run", "Greet", "--drain"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("hello anna") && stdout.contains("hello ben"), "{stdout}");
    assert!(stderr.contains("mail/1 took") && stderr.contains("mail/2 took"), "{stderr}");
    let (_, stdout, _) = world.run("elapsed", &["check"]).await;
    let row = stdout.lines().find(|line| line.starts_with("14 ")).unwrap();
    assert!(row.contains("Elapsed") && row.contains("worker"), "{stdout}");
}

#[tokio::test]
async fn state_reaches_the_actions_of_a_program_and_its_lack_ends_it() {
    let world = World::new().await;
    world.0.reconfigure(|config| format!("{config}\n[queues.greeted]\n"));
    world.0.ok(&["send", "mail", "\"anna\""]).await;
    for program in ["stateless", "stateless, declared"] {
        let (code, stdout, stderr) = world.run(program, &["run", "Greet", "--drain"]).await;
        assert_eq!(code, Some(127), "{program}: {stderr}");
        assert!(!stdout.contains("anna"), "{stdout}");
        assert!(stderr.contains("state::Greeter`") && stderr.contains("`.state(…)`"), "{program}: {stderr}");
    }
    let (code, _, stderr) = world.run("stateless, declared", &["check"]).await;
    assert!(code == Some(127) && stderr.contains("`.state(…)`"), "{stderr}");
    world.0.reconfigure(|config| format!("{config}\n[actions.Count]\nfrom = \"greeted\"\n"));
    let (code, stdout, stderr) = world.run("state", &["run", "--drain"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("ahoy anna") && stdout.contains("anna is number 1"), "{stdout}");
}

#[tokio::test]
async fn a_handler_that_a_program_has_registered_is_put_in_by_the_configuration() {
    let world = World::new().await;
    let handlers =
        r#"handlers = [{ name = "tenant", before = "worker transaction", options = { default = "nobody" } }]"#;
    world.0.reconfigure(|config| config.replacen("poll  =", &format!("{handlers}\npoll  ="), 1));
    world.0.run_with_input(&["send", "mail", "--file", "-"], b"{\"tenant\":\"acme\"}\n{}\n").await;
    let (code, stdout, stderr) = world.run("tenant", &["run", "Greet", "--drain", "--", "--greeting", "hi"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("hi acme") && stdout.contains("hi nobody"), "{stdout}");
    world.0.reconfigure(|config| config.replacen("default =", "defualt =", 1));
    let (code, _, stderr) = world.run("tenant", &["run", "Greet", "--drain"]).await;
    assert_eq!(code, Some(127));
    assert!(stderr.contains("no option `defualt`") && stderr.contains("did you mean `default`?"), "{stderr}");
    world.0.reconfigure(|config| {
        config.replacen("\"worker transaction\"", "\"loop\"", 1).replacen("defualt", "default", 1)
    });
    let (code, _, stderr) = world.run("tenant", &["check"]).await;
    assert_eq!(code, Some(127));
    assert!(stderr.contains("there is no message before it; move `tenant` after `read`"), "{stderr}");
    let (code, _, stderr) = world.run("statuses", &["check"]).await;
    assert_eq!(code, Some(127));
    assert!(stderr.contains("no handler `tenant`"), "{stderr}");
}

#[tokio::test]
async fn an_action_of_a_typed_queue_takes_from_no_other() {
    let world = World::new().await;
    world.0.ok(&["send", "mail", "\"anna\""]).await;
    let (code, stdout, stderr) = world.run("typed", &["run", "Greet", "--drain"]).await;
    assert_eq!((code, stdout.contains("dear anna")), (Some(0), true), "{stderr}");
    world.0.reconfigure(|config| {
        config.replacen("from = \"mail\"\nconcurrency = 2", "from = \"orders\"\nconcurrency = 2", 1)
    });
    for command in ["run", "check"] {
        let (code, _, stderr) = world.run("typed", &[command]).await;
        assert_eq!(code, Some(127));
        let expected = "actions.Greet.from: this program's action is for messages of `mail`, not of `orders`";
        assert!(stderr.contains(expected), "{command}: {stderr}");
    }
}

#[tokio::test]
async fn a_batch_action_of_a_program_gets_messages_together() {
    let world = World::new().await;
    world.0.reconfigure(|config| config.replacen("concurrency = 2", "concurrency = 1\ncommit_interval = 3", 1));
    world.0.run_with_input(&["send", "mail", "--file", "-"], b"\"a\"\n\"b\"\n\"c\"\n").await;
    let (code, stdout, stderr) = world.run("batch", &["run", "Greet", "--drain"]).await;
    assert_eq!((code, stdout.contains("3 together")), (Some(0), true), "{stdout}{stderr}");
}

#[tokio::test]
async fn a_handler_that_waits_lets_every_message_through() {
    let world = World::new().await;
    world.0.run_with_input(&["send", "mail", "--file", "-"], b"\"a\"\n\"b\"\n\"c\"\n").await;
    let (code, stdout, stderr) = world.run("rate_limit", &["run", "Greet", "--drain"]).await;
    assert_eq!((code, stdout.matches("hello").count()), (Some(0), 3), "{stderr}");
}

#[tokio::test]
async fn a_program_for_another_database_and_an_action_that_nobody_registered_are_refused() {
    let world = World::new().await;
    let (code, _, stderr) = world.run("statuses", &["--database-url", "postgres://127.0.0.1:1/x", "run"]).await;
    assert_eq!(code, Some(127));
    assert!(stderr.contains("this program's actions are for Sqlite, but the database is Postgres"), "{stderr}");
    world.0.run(&["run", "Greet"]).await.assert_refused(127, &["actions.Greet", "no Rust action", "it has none"]);
    world.0.reconfigure(|config| config.replace("[actions.Greet]", "[actions.Great]"));
    let (code, _, stderr) = world.run("statuses", &["run"]).await;
    assert_eq!(code, Some(127));
    assert!(stderr.contains("actions.Great") && stderr.contains("it has: Greet"), "{stderr}");
}

/// The folder that the example reads.
struct Files {
    folder: tempfile::TempDir,
    store: Sqlite,
}

impl ReaderFixture for Files {
    type Store = Sqlite;

    async fn fresh() -> Self {
        use ichido::Operate;
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::new(&format!("sqlite://{}", folder.path().join("test.db").display()), vec![]).unwrap();
        store.migrate().await.unwrap();
        let files = Files { folder, store };
        std::fs::create_dir(files.inbox()).unwrap();
        files
    }

    fn store(&self) -> Sqlite {
        self.store.clone()
    }

    async fn put(&self, ids: std::ops::RangeInclusive<i64>) {
        for id in ids {
            let draft = self.inbox().join("draft");
            std::fs::write(&draft, format!(r#"{{"id":{id}}}"#)).unwrap();
            std::fs::rename(draft, self.inbox().join(format!("{id:04}.json"))).unwrap();
        }
    }

    fn pool(&self, pool: Pool) -> Pool {
        pool.reader(directory::Directory::new(self.inbox()))
    }
}

impl Files {
    fn inbox(&self) -> PathBuf {
        self.folder.path().join("inbox")
    }
}

ichido_testkit::reading!(Files);

#[test]
fn the_examples_of_handlers_are_short() {
    for (name, text) in [
        ("elapsed", include_str!("../../examples/elapsed.rs")),
        ("tenant", include_str!("../../examples/tenant.rs")),
        ("rate_limit", include_str!("../../examples/rate_limit.rs")),
        ("statuses", include_str!("../../examples/statuses.rs")),
    ] {
        assert!(text.lines().count() < 60, "{name}");
    }
    let elapsed = include_str!("../../examples/elapsed.rs");
    let handler = elapsed.split("impl<S: Store>").nth(1).unwrap().split("\n}\n").next().unwrap();
    assert!(handler.lines().count() < 9, "nine lines with the last brace");
}
