//! Operators stop, pause and look: flags of a request id that every process follows, and one process per request id.

use std::fs::File;

use ichido_testkit::eventually;

use crate::testenv::{Ended, Env, Kind, Process};

on_all!(
    a_stop_ends_all_processes_of_its_request_id_and_keeps_others_from_starting,
    a_paused_request_id_leaves_its_work_to_others_also_after_a_restart,
    of_all_actions_in_one_process_the_one_that_is_stopped_ends,
    the_flags_of_an_id_that_nobody_serves_are_kept_and_bad_ids_are_refused,
    a_second_process_of_a_request_id_ends_with_14_and_a_killed_one_blocks_nobody,
    of_processes_that_start_at_the_same_moment_one_runs,
);

const RUN: &[&str] = &["run", "ProjectCreation/R1"];
const FREE: &str = "select count(*) from received_order where status = '0' and process_id is null";
const LIVING: &str = "select count(*) from ichido_process";

fn quick_check(env: &Env) {
    env.reconfigure(|config| config.replace("[process]", "[process]\ncheck = \"100ms\""));
}

/// So that nobody who is only slow counts as dead.
fn lease(env: &Env, seconds: u32) {
    env.reconfigure(|config| config.replace("lease = \"1s\"", &format!("lease = \"{seconds}s\"")));
}

fn single(env: &Env, more: &str) {
    env.configure(|config| config.replace("[process]", &format!("[process]\nsingle = true\n{more}")));
}

async fn told(env: &Env, args: &[&str]) -> String {
    let ended = env.run(args).await;
    assert!(ended.code == Some(0) && ended.stdout.is_empty() && ended.stderr.lines().count() == 1, "{ended:?}");
    ended.stderr
}

/// The request id's line of `status --json`.
async fn state(env: &Env, request_id: &str) -> serde_json::Value {
    let status: serde_json::Value = serde_json::from_str(&env.ok(&["status", "--json"]).await).unwrap();
    let requests = status["requests"].as_array().unwrap();
    requests.iter().find(|request| request["request_id"] == request_id).cloned().unwrap_or_default()
}

async fn a_stop_ends_all_processes_of_its_request_id_and_keeps_others_from_starting(kind: Kind) {
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 150 } else { 1000 });
    quick_check(&env);
    lease(&env, 30);
    env.send_orders(1..=300).await;
    let mut processes = ["one", "two", "three"].map(|name| env.start(name, RUN));
    let mut other = env.start("other", &["run", "ProjectCreation/R2"]);
    env.until(LIVING, 4).await;
    env.until("select count(*) from project", 3).await;
    assert_eq!(
        told(&env, &["stop", "R1"]).await,
        "R1 is stopped until `ichido unstop R1`; 3 live processes serve it\n"
    );
    for process in &mut processes {
        assert_eq!(process.exit_code().await, 0, "{}", process.log());
        assert!(process.log().contains("`ichido unstop R1` lets it start again"), "{}", process.log());
    }
    let (done, failed) = (env.done().await, env.number("select count(*) from ichido_parked").await);
    assert!(done < 300 && failed == 0, "they stopped in the middle and nothing is counted: {done}, {failed}");
    other.signal("-TERM").await;
    assert_eq!(other.exit_code().await, 0, "nobody else is stopped: {}", other.log());
    assert_eq!(env.number(FREE).await, 300 - env.done().await, "what was not begun is free");
    let refused = env.run(RUN).await;
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(0), 1), "{refused:?}");
    assert!(refused.stderr.contains("ichido unstop R1"), "{refused:?}");
    assert_eq!((env.number(LIVING).await, state(&env, "R1").await["stopped"].as_bool()), (0, Some(true)));
    assert!(env.ok(&["status"]).await.lines().any(|line| line.starts_with("R1") && line.ends_with("stopped")));
    assert_eq!(told(&env, &["unstop", "R1"]).await, "R1 may start again; no live process serves it\n");
    env.configure(|config| config);
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    env.assert_exact(300).await;
}

async fn a_paused_request_id_leaves_its_work_to_others_also_after_a_restart(kind: Kind) {
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { 50 } else { 500 });
    quick_check(&env);
    lease(&env, 5);
    env.send_orders(1..=100).await;
    let process = env.start("first", RUN);
    env.until("select count(*) from project", 2).await;
    assert_eq!(
        told(&env, &["pause", "R1"]).await,
        "R1 is paused until `ichido resume R1`; one live process serves it\n"
    );
    process.until_logged("`R1` is paused").await;
    env.until_none("received_order where process_id is not null").await;
    let done = env.done().await;
    assert!(done < 100, "it paused in the middle");
    let killed = process.pid();
    process.kill().await;
    // The flag is in the database: it outlives the process.
    let mut again = env.start("again", RUN);
    again.until_logged("`R1` is paused").await;
    again.until_logged("process starts").await;
    env.configure(|config| config);
    lease(&env, 5);
    env.ok(&["run", "ProjectCreation/R2", "--drain"]).await;
    env.assert_exact(100).await;
    assert_eq!(env.number("select count(distinct made_by) from project").await, 2, "the paused one did nothing");
    env.send_orders(101..=110).await;
    assert_eq!((env.number(FREE).await, state(&env, "R1").await["paused"].as_bool()), (10, Some(true)));
    env.until_none(&format!("ichido_process where pid = {killed}")).await; // it is forgotten
    assert_eq!(told(&env, &["resume", "R1"]).await, "R1 is resumed; one live process serves it\n");
    env.until("select count(*) from received_order where status = '1'", 110).await;
    env.assert_exact(110).await;
    again.stop().await;
}

async fn of_all_actions_in_one_process_the_one_that_is_stopped_ends(kind: Kind) {
    let env = Env::new(kind).await;
    let mail = "\n[actions.Mail]\nfrom = \"mail\"\nsql = [\"insert into project (id, name, made_by) values (:n, 'mail', 'mail')\"]\n";
    env.configure(|config| config + mail);
    quick_check(&env);
    lease(&env, 5);
    let mut process = env.start("all", &["run"]);
    env.until(LIVING, 1).await;
    env.ok(&["health", "Mail"]).await;
    env.ok(&["stop", "Mail"]).await;
    env.until_none("ichido_process_request where request_id = 'Mail'").await;
    env.ok(&["send", "mail", r#"{"n":7}"#]).await;
    env.send_orders(1..=5).await;
    env.until("select count(*) from received_order where status = '1'", 5).await;
    env.assert_exact(5).await;
    let healthy = async |id: &str| env.run(&["health", id]).await.code;
    assert_eq!((healthy("Mail").await, healthy("ProjectCreation").await), (Some(1), Some(0)));
    env.ok(&["stop", "ProjectCreation"]).await;
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
}

async fn the_flags_of_an_id_that_nobody_serves_are_kept_and_bad_ids_are_refused(kind: Kind) {
    let env = Env::new(kind).await;
    lease(&env, 5);
    let nobody = env.run(&["health", "R1"]).await;
    assert_eq!((nobody.code, nobody.stdout.as_str()), (Some(1), "no live process serves R1\n"));
    assert!(told(&env, &["stop", "R1"]).await.contains("no live process serves it"));
    assert!(told(&env, &["stop", "R1"]).await.contains("is already stopped"));
    assert!(told(&env, &["pause", "R1"]).await.contains("no live process serves it"));
    let json = env.run(&["health", "R1", "--json"]).await;
    let expected = serde_json::json!({"request_id": "R1", "processes": 0, "stopped": true, "paused": true});
    assert_eq!((json.code, serde_json::from_str(&json.stdout).ok()), (Some(1), Some(expected.clone())));
    assert_eq!(state(&env, "R1").await, expected);
    env.ok(&["unstop", "R1"]).await;
    env.ok(&["resume", "R1"]).await;
    assert!(told(&env, &["resume", "R1"]).await.contains("is not paused"));
    assert!(told(&env, &["unstop", "R1"]).await.contains("is not stopped"));
    assert!(state(&env, "R1").await.is_null());
    env.run(&["stop", ""]).await.assert_refused(127, &["request id", "empty"]);
    env.run(&["stop", &"x".repeat(256)]).await.assert_refused(127, &["request id", "longer than 255"]);
    let long = format!("ProjectCreation/{}", "x".repeat(256));
    env.run(&["run", &long]).await.assert_refused(127, &["request id", "longer than 255"]);
    env.run(&["stop"]).await.assert_refused_by_clap();
    let mut process = env.start("process", RUN);
    env.until(LIVING, 1).await;
    assert_eq!(env.ok(&["health", "R1"]).await, "one live process serves R1\n");
    process.stop().await;
    assert_eq!(env.run(&["health", "R1"]).await.code, Some(1));
}

#[track_caller]
fn assert_duplicate(ended: &Ended, code: i32, first: &Process) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let pid = format!("pid {}", first.pid());
    assert!(ended.stderr.contains("`R1` is already served") && ended.stderr.contains(&pid), "{ended:?}");
}

async fn a_second_process_of_a_request_id_ends_with_14_and_a_killed_one_blocks_nobody(kind: Kind) {
    let env = Env::new(kind).await;
    single(&env, "");
    lease(&env, 3);
    assert!(env.ok(&["check"]).await.lines().any(|line| line.contains("one live process per request id")));
    let first = env.start("first", RUN);
    env.until(LIVING, 1).await;
    assert_duplicate(&env.run(RUN).await, 14, &first);
    let mut other_id = env.start("other", &["run", "ProjectCreation/R2"]);
    env.until(LIVING, 2).await;
    single(&env, "exit_duplicate = 50");
    assert_duplicate(&env.run(RUN).await, 50, &first);
    single(&env, "exempt = [\"R0\", \"R1\"]");
    let mut exempt = env.start("exempt", RUN);
    env.until(LIVING, 3).await;
    for process in [&mut other_id, &mut exempt] {
        process.stop().await;
    }
    let by_name = r#"{ name = "single", after = "context", options = { exit = 51, exempt = "R8, R9" } }"#;
    env.configure(|config| config.replace("[process]", &format!("[process]\nhandlers = [{by_name}]")));
    assert_duplicate(&env.run(RUN).await, 51, &first);
    single(&env, "");
    first.kill().await;
    let mut next = env.start("next", RUN);
    env.send_orders(1..=3).await;
    env.until("select count(*) from received_order where status = '1'", 3).await;
    env.assert_exact(3).await;
    // One that was asleep for longer than its lease finds its place taken, unless its lock tells that it is alive.
    put_to_sleep(&env, &next).await;
    let mut successor = env.start("successor", RUN);
    if kind == Kind::Sqlite {
        assert_eq!(successor.exit_code().await, 14, "{}", successor.log());
        next.signal("-CONT").await;
        next.stop().await;
    } else {
        successor.until_logged("process starts").await;
        next.signal("-CONT").await;
        assert_eq!(next.exit_code().await, 14, "{}", next.log());
        successor.stop().await;
    }
}

/// Stops a process with SIGSTOP at a moment at which it does not write: on SQLite everybody would wait for it.
async fn put_to_sleep(env: &Env, process: &Process) {
    let is_free = |lock| File::open(env.folder().join("test.db-ichido").join(lock)).unwrap().try_lock().is_ok();
    eventually("a moment at which it does not write", async || {
        process.signal("-STOP").await;
        eventually("all its threads stand still", async || process.stands_still()).await;
        let free = env.kind != Kind::Sqlite || ["gate.lock", "turn.lock"].into_iter().all(is_free);
        if !free {
            process.signal("-CONT").await;
        }
        free
    })
    .await;
}

async fn of_processes_that_start_at_the_same_moment_one_runs(kind: Kind) {
    let env = Env::new(kind).await;
    single(&env, "");
    lease(&env, 30);
    let mut processes: Vec<_> = (0..5).map(|number| env.start(&number.to_string(), RUN)).collect();
    eventually("four of five are refused", async || {
        processes.retain_mut(|process| match process.ended() {
            None => true,
            Some(status) => {
                assert_eq!(status.code(), Some(14), "{}", process.log());
                false
            }
        });
        processes.len() <= 1
    })
    .await;
    let [last] = &mut processes[..] else { panic!("all were refused") };
    env.send_orders(1..=5).await;
    env.until("select count(*) from received_order where status = '1'", 5).await;
    assert_eq!(env.number(LIVING).await, 1);
    last.stop().await;
}
