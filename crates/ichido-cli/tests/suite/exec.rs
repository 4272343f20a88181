//! The built-in action `exec`, from outside: real programs, the binary, and what becomes of the messages.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use ichido_testkit::{eventually, size};

use crate::testenv::{Ended, Env, Kind};

const RUN: &[&str] = &["run", "Do", "--drain"];

/// A world with the action `Do`, a shell script of the test's own.
async fn running(script: &str, more: &str) -> Env {
    let env = Env::new(Kind::Sqlite).await;
    let retry = r#"retry = { attempts = 2, first = "1ms", max = "1ms" }"#;
    let action = format!(
        "\n[actions.Do]\nfrom = \"mail\"\n{retry}\n{more}\nexec = [\"sh\", \"-c\", '''{script}''', \"sh\", \"an argument; $0 `x`\"]\n"
    );
    env.configure(|config| config + &action);
    env
}

/// The same with one message, run until nothing is left to do; and its log.
async fn ran(script: &str, more: &str) -> (Env, Ended) {
    let env = running(script, more).await;
    env.ok(&["send", "mail", r#"{"n": 1.10}"#]).await;
    let ended = env.run(&["run", "Do", "--drain", "-v"]).await;
    (env, ended)
}

async fn failed(env: &Env) -> Vec<String> {
    let list = env.ok(&["failed", "list", "--json"]).await;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    list.as_array().unwrap().iter().map(|parked| parked["error"].as_str().unwrap().to_owned()).collect()
}

fn read(env: &Env, file: &str) -> String {
    std::fs::read_to_string(env.folder().join(file)).unwrap_or_default()
}

/// Waits until a program of the test has written this file; gives what is in it.
async fn until_written(env: &Env, file: &str) -> String {
    eventually(format!("a line in `{file}`"), async || read(env, file).strip_suffix('\n').map(str::to_owned)).await
}

async fn until_gone(pid: &str) {
    eventually(format!("the end of process {pid}"), async || !is_alive(pid)).await;
}

/// Is this process there and not only waiting to be reaped?
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).is_some_and(|state| !"ZX".contains(state))
}

/// Starts a grandchild that would live for ever, writes its id to the file `grandchild`, and waits with it.
const FAMILY: &str =
    "sh -c 'echo $$ > id; mv id grandchild; trap \"\" TERM HUP INT; while :; do sleep 100; done' & wait";

#[tokio::test]
async fn a_program_gets_the_message_and_its_arguments_as_they_are() {
    let (env, ended) = ran(
        r#"cat > got; echo "$1" > argument; echo "$ICHIDO_MESSAGE_ID $ICHIDO_QUEUE $ICHIDO_ATTEMPT $ICHIDO_REQUEST_ID" > variables"#,
        "",
    )
    .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        read(&env, "got"),
        "{\"id\":\"mail/1\",\"queue\":\"mail\",\"attempt\":1,\"headers\":{},\"payload\":{\"n\": 1.10}}\n"
    );
    assert_eq!(read(&env, "argument"), "an argument; $0 `x`\n");
    assert_eq!(read(&env, "variables"), "mail/1 mail 1 Do\n");
    assert_eq!(env.number("select count(*) from ichido_message").await, 0, "it is done");
}

/// The names of the variables that a program sees, and whatever is in them.
async fn variables(more: &str) -> (Vec<String>, String) {
    let env = running("env > variables", more).await;
    env.ok(&["send", "mail", "1"]).await;
    let variables = [
        ("ICHIDO_DATABASE_URL", "sqlite://test.db"),
        ("BROKER", "amqp://guest:pa55word@localhost"),
        ("GIVEN", "a value"),
        ("LANG", "C"),
        ("TZ", "UTC"),
    ];
    let ended = env.run_with(RUN, &variables).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let seen = read(&env, "variables");
    // What the shell sets for itself.
    let lines =
        seen.lines().filter(|line| !["PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|own| line.starts_with(own)));
    let mut names: Vec<_> = lines.filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
    names.sort();
    (names, seen)
}

const GIVEN: [&str; 9] = [
    "HOME",
    "ICHIDO_ATTEMPT",
    "ICHIDO_MESSAGE_ID",
    "ICHIDO_QUEUE",
    "ICHIDO_REQUEST_ID",
    "ICHIDO_USER_ID",
    "LANG",
    "PATH",
    "TZ",
];

#[tokio::test]
async fn a_program_sees_neither_the_database_nor_the_broker() {
    let (names, seen) = variables("").await;
    assert_eq!(names, GIVEN, "{seen}");
    assert!(!seen.contains("sqlite://") && !seen.contains("pa55word"), "{seen}");
}

#[tokio::test]
async fn a_program_sees_the_variables_that_it_is_given() {
    let (names, seen) = variables("env = [\"GIVEN\", \"UNSET\"]").await;
    assert!(names.len() == GIVEN.len() + 1 && seen.contains("\nGIVEN=a value\n"), "{seen}");
}

/// Becomes the process that the kernel hands orphans to, as process 1 of a container is, and then the program that it is given.
const REAPER: &str =
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])";

#[tokio::test]
async fn what_a_program_leaves_behind_is_reaped() {
    let left = "setsid sh -c 'echo $$ > id; mv id orphan; until [ -e go ]; do sleep 0.01; done' & until [ -e orphan ]; do sleep 0.01; done";
    let env = running(left, "").await;
    env.ok(&["send", "mail", "1"]).await;
    let ichido = env!("CARGO_BIN_EXE_ichido");
    let mut process = env.start_program(Path::new("python3"), "log", &["-c", REAPER, ichido, "run", "Do"]);
    let orphan = until_written(&env, "orphan").await;
    env.until_none("ichido_message").await;
    std::fs::write(env.folder().join("go"), "").unwrap();
    eventually(format!("nothing of process {orphan}"), async || !Path::new("/proc").join(&orphan).exists()).await;
    process.signal("-TERM").await;
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
}

#[tokio::test]
async fn its_exit_code_says_what_became_of_the_message() {
    let cases = [
        ("echo for nobody >&2; exit 65", "exited with code 65: for nobody", 1),
        ("exit 65", "exited with code 65", 1),
        ("echo oh no >&2; exit 1", "exited with code 1: oh no", 2),
        ("exit 64", "exited with code 64", 2),
        ("exit 120", "exited with code 120", 2),
        ("exit 99", "exited with code 99", 2),
        ("echo dying >&2; kill -9 $$", "was killed by signal 9: dying", 2),
    ];
    for (script, reason, runs) in cases {
        let (env, ended) = ran(&format!("echo x >> runs; {script}"), "").await;
        assert_eq!(ended.code, Some(0), "{script}: {ended:?}");
        let reasons = failed(&env).await;
        assert!(reasons.len() == 1 && reasons[0].ends_with(reason), "{script}: {reasons:?}");
        assert_eq!(read(&env, "runs").lines().count(), runs, "{script}");
    }
}

#[tokio::test]
async fn codes_from_100_to_119_end_the_process_with_them() {
    for code in [100, 119] {
        let (env, ended) = ran(&format!("echo give up >&2; exit {code}"), "").await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.contains(&format!("exited with code {code}: give up")), "{ended:?}");
        assert_eq!(env.number("select attempts from ichido_parked").await, 1, "an attempt is spent");
    }
}

#[tokio::test]
async fn a_failure_is_told_with_the_end_of_what_the_program_said() {
    let (env, _) = ran("yes 'much ado' | head -c 300000 >&2; printf 'the \\033[31mend' >&2; exit 65", "").await;
    let reason = &failed(&env).await[0];
    assert!(reason.ends_with("the [31mend") && reason.len() < 1200, "{reason}");
}

#[tokio::test]
async fn what_it_says_is_logged_line_by_line_with_the_messages_id() {
    let (_, ended) = ran("echo one; echo two; echo three >&2", "").await;
    for line in ["stdout: one", "stdout: two", "stderr: three"] {
        let logged = ended
            .stderr
            .lines()
            .find(|logged| logged.contains(&format!(" {line} ")))
            .unwrap_or_else(|| panic!("{line}: {ended:?}"));
        assert!(logged.contains("id=mail/1"), "{logged}");
    }
}

#[tokio::test]
async fn a_program_that_says_gigabytes_takes_no_memory() {
    let megabytes = size(60, 2000);
    let env = running(&format!("head -c {megabytes}000000 /dev/zero; echo done > done"), "").await;
    env.ok(&["send", "mail", "{}"]).await;
    let mut process = env.start("log", &["run", "Do"]);
    until_written(&env, "done").await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    // The program itself takes about 30 MB.
    assert!(most.parse::<u64>().unwrap() < 80_000, "{most} kB");
    process.stop().await;
}

#[tokio::test]
async fn a_program_that_reads_nothing_holds_up_nobody() {
    let env = running("head -c 1000000 /dev/zero", "").await;
    env.reconfigure(|config| config.replace("[queues.mail]", "[queues.mail]\npayload_limit = \"4MiB\""));
    env.run_with_input(&["send", "mail", "--file", "-"], format!("\"{}\"", "x".repeat(3 << 20)).as_bytes()).await;
    env.ok(RUN).await;
    assert_eq!(env.number("select count(*) from ichido_message").await, 0, "it is done");
}

#[tokio::test]
async fn what_a_program_leaves_in_its_group_is_ended_with_it() {
    let (env, ended) = ran(&FAMILY.replace("& wait", "& while ! [ -e grandchild ]; do sleep 0.01; done"), "").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let grandchild = until_written(&env, "grandchild").await;
    until_gone(&grandchild).await;
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended_with_its_group() {
    let (env, ended) = ran(FAMILY, "timeout = \"2s\"").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(failed(&env).await, ["timed out after 2s"]);
    let grandchild = until_written(&env, "grandchild").await;
    until_gone(&grandchild).await;
}

#[tokio::test]
async fn a_stop_gives_a_program_its_grace_and_then_ends_it_with_its_group() {
    let env = running(FAMILY, "").await;
    env.reconfigure(|config| config.replace("[process]", "[process]\ngrace = \"500ms\""));
    env.ok(&["send", "mail", "{}"]).await;
    let mut process = env.start("log", &["run", "Do"]);
    let grandchild = until_written(&env, "grandchild").await;
    let before = Instant::now();
    process.signal("-TERM").await;
    process.until_logged("stopping").await;
    assert_eq!(process.exit_code().await, 0);
    assert!(before.elapsed() >= Duration::from_millis(500), "it has its grace");
    until_gone(&grandchild).await;
    assert_eq!(env.number("select count(*) from ichido_message where owner is null").await, 1, "released");
}

#[tokio::test]
async fn a_second_signal_ends_programs_at_once() {
    let env = running(FAMILY, "").await;
    env.ok(&["send", "mail", "{}"]).await;
    let mut process = env.start("log", &["run", "Do"]);
    let grandchild = until_written(&env, "grandchild").await;
    process.signal("-TERM").await;
    process.until_logged("stopping").await;
    process.signal_until_it_ends("-INT").await;
    assert_eq!(process.exit_code().await, 130);
    until_gone(&grandchild).await;
}

#[tokio::test]
async fn programs_do_not_outlive_a_process_that_is_killed() {
    let env = running(FAMILY, "").await;
    env.ok(&["send", "mail", "{}"]).await;
    let process = env.start("log", &["run", "Do"]);
    let grandchild = until_written(&env, "grandchild").await;
    process.kill().await;
    until_gone(&grandchild).await;
}

#[tokio::test]
async fn no_transaction_is_open_while_a_program_runs() {
    let env = running("echo > begun; while ! [ -e go ]; do sleep 0.01; done", "").await;
    env.ok(&["send", "mail", "{}"]).await;
    let mut process = env.start("log", RUN);
    until_written(&env, "begun").await;
    // On SQLite an open business transaction would keep every other writer waiting.
    env.sql("insert into burnt values (1)").await;
    std::fs::write(env.folder().join("go"), "").unwrap();
    assert_eq!(process.exit_code().await, 0);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_refused_at_start() {
    let env = running("", "").await;
    for (program, why) in [
        ("no-such-program", "no program `no-such-program`"),
        ("./ichido.toml", "`./ichido.toml` is not an executable file"),
    ] {
        env.reconfigure(|config| {
            config.split("exec = ").next().unwrap().to_owned() + &format!("exec = [\"{program}\"]\n")
        });
        for command in [&["check"][..], &["run"], &["run", "Do/R1"]] {
            env.run(command).await.assert_refused(127, &["actions.Do.exec: ", why]);
        }
    }
}

#[tokio::test]
async fn check_shows_the_program() {
    let env = running("", "").await;
    let shown = env.ok(&["check"]).await;
    assert!(shown.contains("exec: sh with 4 arguments"), "{shown}");
}
