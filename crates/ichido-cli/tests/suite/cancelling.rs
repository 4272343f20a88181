//! `ichido messages cancel` and `ichido audit`, from outside: what runs, waits, is ready or has failed, by id and by queue; in tables and at RabbitMQ.

use serde_json::Value;

use crate::{
    rabbitmq::world::{DEAD, QUEUE, World},
    testenv::{Env, Kind},
};

on_all!(
    messages_are_cancelled_by_their_ids_and_the_audit_knows_by_whom,
    a_whole_queue_is_cancelled_and_a_dry_run_changes_nothing,
    what_runs_is_cancelled_and_the_process_goes_on,
    what_runs_at_a_broker_is_cancelled_and_no_copy_runs,
);

on_servers!(what_runs_under_a_lock_is_asked_for_and_then_cancelled);

const EFFECTS: &str = "select count(*) from project";

/// Processes look often, and none that is only slow counts as dead.
fn check_often(env: &Env) {
    env.reconfigure(|config| {
        config.replace("[process]", "[process]\ncheck = \"100ms\"").replace("lease = \"1s\"", "lease = \"60s\"")
    });
}

/// Tells who did what to what, of `ichido audit --json`.
async fn audit(env: &Env, args: &[&str]) -> Vec<[String; 4]> {
    let json = env.ok(&[&["audit", "--json"], args].concat()).await;
    let entries: Vec<Value> = serde_json::from_str(&json).unwrap();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| ["verb", "what", "user", "reason"].map(|key| text(entry, key))).collect()
}

async fn messages_are_cancelled_by_their_ids_and_the_audit_knows_by_whom(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=4).await;
    let mail = env.ok(&["send", "mail", "{}"]).await;
    env.sql("update received_order set status = '1' where id = 4").await;
    let args = ["messages", "cancel", "orders/1", mail.trim(), "--reason", "wrong price"];
    let ended = env.run_with(&args, &[("USER", "anna"), ("SUDO_USER", "")]).await;
    assert_eq!(
        (ended.code, ended.stdout),
        (Some(0), format!("orders/1 cancelled\n{}cancelled\n", mail.replace('\n', " ")))
    );
    env.run(&["messages", "cancel", "orders/4", "orders/9"])
        .await
        .assert_refused(1, &["orders/4 is done, and stays done", "orders/9 not found"]);
    assert!(env.ok(&["messages", "cancel", "orders/1"]).await.contains("before"), "it is cancelled already");
    env.run(&["messages", "cancel", "ordres/4"]).await.assert_refused(127, &["`ordres`", "`orders`"]);
    env.run(&["messages", "cancel"]).await.assert_refused_by_clap();
    env.run(&["messages", "cancel", "orders/1", "--queue", "orders"]).await.assert_refused_by_clap();
    env.run(&["messages", "cancel", "orders/1", "--state", "ready"]).await.assert_refused_by_clap();
    env.run_with(&["stop", "R1", "--reason", "release"], &[("USER", "bert"), ("SUDO_USER", "")]).await;
    let of = |verb: &str, what: &str, who: &str, why: &str| [verb, what, who, why].map(str::to_owned);
    let cancelled = |what: &str| of("cancel", what, "anna", "wrong price");
    let all = [of("stop", "R1", "bert", "release"), cancelled(mail.trim()), cancelled("orders/1")];
    assert_eq!(audit(&env, &[]).await, all, "the newest first");
    assert_eq!(audit(&env, &["--queue", "orders"]).await, all[2..]);
    assert_eq!(audit(&env, &["--limit", "1"]).await, all[..1]);
    let table = env.ok(&["audit"]).await;
    assert!(table.starts_with("AT ") && table.contains("anna@") && table.contains("wrong price"), "{table}");
    // In a container nobody may have a name.
    assert_eq!(
        env.run_with(&["unstop", "R1"], &[("USER", ""), ("LOGNAME", ""), ("SUDO_USER", "")]).await.code,
        Some(0)
    );
    assert!(audit(&env, &["--limit", "1"]).await[0][2].starts_with("uid "));
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!((env.number(EFFECTS).await, env.number("select count(*) from ichido_message").await), (2, 0));
    assert_eq!(env.number("select count(*) from received_order where status = '2'").await, 1);
}

async fn a_whole_queue_is_cancelled_and_a_dry_run_changes_nothing(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=250).await;
    let later: Vec<_> = (251..=255).map(|id| format!(r#"{{"id":{id},"name":"later"}}"#)).collect();
    let sent =
        env.run_with_input(&["send", "orders", "--delay", "1h", "--file", "-"], later.join("\n").as_bytes()).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let dry = env.ok(&["messages", "cancel", "--queue", "orders", "--dry-run"]).await;
    assert_eq!(dry.lines().filter(|line| line.ends_with("would be cancelled")).count(), 255, "{dry}");
    let waiting = env.ok(&["messages", "cancel", "--queue", "orders", "--state", "waiting", "--json"]).await;
    let lines: Vec<Value> = waiting.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() == 5 && lines.iter().all(|line| line["result"] == "cancelled"), "{waiting}");
    assert_eq!(env.number("select count(*) from received_order where status = '0'").await, 250);
    let rest = env.ok(&["messages", "cancel", "--queue", "orders", "--state", "ready,failed"]).await;
    assert_eq!(rest.lines().filter(|line| line.ends_with(" cancelled")).count(), 250);
    assert_eq!(env.ok(&["messages", "cancel", "--queue", "orders"]).await, "", "nothing is left");
    assert_eq!(env.number("select count(*) from received_order where status = '2'").await, 255);
    env.run(&["messages", "cancel", "--queue", "orders", "--state", "runing"]).await.assert_refused_by_clap();
    env.run(&["messages", "cancel", "--queue", "ordres"]).await.assert_refused(127, &["`ordres`", "`orders`"]);
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    assert_eq!(env.number(EFFECTS).await, 0);
}

/// On SQLite an open transaction ends first; there the action waits without one.
async fn what_runs_is_cancelled_and_the_process_goes_on(kind: Kind) {
    let env = Env::new(kind).await;
    if kind == Kind::Sqlite {
        let exec = r#"exec = ["sh", "-c", "test $ICHIDO_MESSAGE_ID = orders/1 && sleep 600 || true"]"#;
        env.configure(|config| {
            let (head, _) = config.rsplit_once("sql ").expect("the action");
            format!("{head}{exec}\n")
        });
    } else {
        let endless = env.slow(600_000).replace(", \"select ", "").replace('"', "");
        env.configure(|config| {
            config
                .replace(":process_id)\"", &format!(":process_id)\", \"select case when :id = 1 then {endless} end\""))
        });
    }
    check_often(&env);
    env.send_orders(1..=1).await;
    let mut process = env.start("one", &["run", "ProjectCreation/R1"]);
    env.until("select count(*) from received_order where process_id is not null", 1).await;
    assert_eq!(env.ok(&["messages", "cancel", "orders/1", "--wait", "60s"]).await, "orders/1 cancelled\n");
    process.until_logged("orders/1 was cancelled; rolled back").await;
    env.send_orders(2..=5).await;
    env.until("select count(*) from received_order where status = '1'", 4).await;
    process.stop().await;
    assert!(process.log().contains("cancelled=1") || process.log().contains("cancelled: 1"), "{}", process.log());
    assert_eq!(env.number("select count(*) from project where id = 1").await, 0);
    assert_eq!(env.number("select count(*) from ichido_parked where attempts > 0").await, 0, "no attempt is spent");
    assert_eq!(env.number("select count(*) from ichido_cancel").await, 0);
}

async fn at_a_broker(kind: Kind, way: &str) {
    let world = World::new(kind).await;
    let env = &world.env;
    world.never_end();
    env.reconfigure(|config| config.replace("relay_after = \"1s\"", &format!("relay_after = \"1s\", {way}")));
    check_often(env);
    let ids = world.send(1..=2).await;
    let [mut process] = world.start(["one"], &[]);
    env.until("select count(*) from ichido_process", 1).await;
    world.settles_with(QUEUE, 0, 2).await;
    // One of them runs, the other is in its process's hands.
    let args: Vec<&str> =
        ["messages", "cancel", "--wait", "60s"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    let said = env.ok(&args).await;
    assert_eq!(said.lines().filter(|line| line.ends_with(" cancelled")).count(), 2, "{said}");
    world.settles_at(QUEUE, 0).await;
    assert_eq!((env.number(EFFECTS).await, env.number("select count(*) from ichido_mutex").await), (0, 0));
    world.settles_at(DEAD, 0).await;
    process.stop().await;
    world.configure(|config| config);
    world.send(3..=5).await;
    let [mut process] = world.start(["two"], &[]);
    world.shipped(3).await;
    process.stop().await;
    assert_eq!(env.number("select count(*) from project where id <= 2").await, 0);
    assert_eq!(audit(env, &["--queue", "orders"]).await.len(), 2);
}

async fn what_runs_at_a_broker_is_cancelled_and_no_copy_runs(kind: Kind) {
    // On SQLite its open transaction would end first, and does not.
    if kind != Kind::Sqlite {
        at_a_broker(kind, "claim = \"lease\"").await;
    }
    let world = World::new(kind).await;
    let ids = world.send(1..=3).await;
    let said = world.env.ok(&["messages", "cancel", &ids[1]]).await;
    assert_eq!(said, format!("{} cancelled\n", ids[1]));
    let [mut process] = world.start(["one"], &[]);
    world.shipped(2).await;
    world.comes_to_rest().await;
    process.stop().await;
    assert_eq!(world.env.number("select count(*) from project where id = 2").await, 0);
}

async fn what_runs_under_a_lock_is_asked_for_and_then_cancelled(kind: Kind) {
    at_a_broker(kind, "claim = \"lock\"").await;
}
