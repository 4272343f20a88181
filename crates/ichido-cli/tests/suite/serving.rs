//! `ichido serve`, asked from outside: on every database, with an outage, behind TLS, and by schemathesis with the document that it serves.

use std::{path::PathBuf, process::Stdio, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ichido_testkit::eventually;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
};

use crate::testenv::{Env, Kind, Process, database::Database};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const ANYWHERE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

on_all!(
    everything_is_done_over_http_as_by_hand,
    a_key_is_remembered_on_every_kind_of_queue,
    what_failed_is_repaired_over_http,
    no_database_is_asked_for_what_it_cannot_keep,
    the_document_is_true,
);
on_servers!(a_database_that_is_away_is_told);

/// With a token for an admin.
pub(crate) fn with_token(env: &Env) {
    env.configure(|config| {
        format!("{config}\n[serve]\ntokens = [{{ name = \"anna\", role = \"admin\", token = \"{TOKEN}\" }}]\n")
    });
}

/// Where it listens.
pub(crate) async fn address(process: &Process) -> String {
    process.until_logged("the console is at").await;
    let log = process.log();
    let (_, rest) = log.split_once("127.0.0.1:").unwrap();
    format!("127.0.0.1:{}", rest.chars().take_while(char::is_ascii_digit).collect::<String>())
}

/// Asks with the token; status and body.
pub(crate) async fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn json(address: &str, method: &str, path: &str, body: &str) -> Value {
    let (status, text) = ask(address, method, path, "", body).await;
    assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"))
}

async fn everything_is_done_over_http_as_by_hand(kind: Kind) {
    let env = Env::new(kind).await;
    with_token(&env);
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    let mail = r#"{"messages":[{"payload":{"to":"x"},"delay_seconds":3600,"unique":"u-1","attempts":7,"headers":{"a":"b"}},{"payload":[1.10]}]}"#;
    let sent = json(&at, "POST", "/api/v1/queues/mail/messages", mail).await;
    let (late, now) = (sent["ids"][0].as_str().unwrap(), sent["ids"][1].as_str().unwrap());
    let path = |id: &str| format!("/api/v1/messages/{}", id.replace('/', "%2F"));
    let shown = json(&at, "GET", &path(late), "").await;
    assert_eq!(shown["state"], "waiting");
    assert_eq!(
        ["unique", "most_attempts", "headers"].map(|name| shown[name].to_string()),
        ["\"u-1\"", "7", r#"{"a":"b"}"#]
    );
    assert_eq!(json(&at, "GET", &path(now), "").await["payload"], "[1.10]");
    json(&at, "POST", "/api/v1/messages/run-now", &format!(r#"{{"ids":["{late}"]}}"#)).await;
    assert_eq!(json(&at, "GET", &path(late), "").await["state"], "ready");
    let moved = format!(r#"{{"id":"{late}","at":"2099-12-24T17:00:00Z"}}"#);
    assert_eq!(json(&at, "POST", "/api/v1/messages/reschedule", &moved).await["changed"], true);
    let all = json(&at, "POST", "/api/v1/messages/cancel", r#"{"queue":"mail","reason":"a test"}"#).await;
    assert_eq!(all["messages"].as_array().unwrap().len(), 2, "{all}");
    assert_eq!(env.number("select count(*) from ichido_audit where verb = 'cancel' and by_user = 'anna'").await, 2);

    assert_eq!(json(&at, "POST", "/api/v1/processes/ProjectCreation/pause", "{}").await["paused"], true);
    assert!(env.ok(&["status"]).await.contains("paused"));
    json(&at, "POST", "/api/v1/processes/ProjectCreation/resume", "{}").await;
    let told: Value = serde_json::from_str(&env.ok(&["status", "--json"]).await).unwrap();
    assert_eq!(json(&at, "GET", "/api/v1/status", "").await["requests"], told["requests"]);
    console.stop().await;
}

/// Somebody sees a failure, repairs the data, retries it and sees it done.
async fn what_failed_is_repaired_over_http(kind: Kind) {
    let env = Env::new(kind).await;
    with_token(&env);
    env.sql("create unique index project_once on project (id); insert into project (id, name, made_by) values (1, 'a', 'b')")
        .await;
    env.send_orders([1, 2]).await;
    env.ok(&["run", "--drain"]).await;
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    let done = r#"ichido_messages_total{queue="orders",level="",event="done"}"#;
    let (_, metrics) = ask(&at, "GET", "/metrics", "", "").await;
    assert!(metrics.contains(&format!("{done} 0\n")), "what was done before is not counted: {metrics}");
    let failed = json(&at, "GET", "/api/v1/failed?queue=orders", "").await;
    assert_eq!(failed["messages"].as_array().unwrap().len(), 1, "{failed}");
    assert_eq!(failed["messages"][0]["id"], "orders/1");
    assert!(!failed["messages"][0]["error"].as_str().unwrap().is_empty(), "{failed}");
    let all = |dry: bool| format!(r#"{{"queue":"orders","dry_run":{dry},"reason":"a test"}}"#);
    let would = json(&at, "POST", "/api/v1/failed/retry", &all(true)).await;
    assert_eq!((&would["changed"][0], &would["dry_run"]), (&Value::from("orders/1"), &Value::from(true)), "{would}");
    assert_eq!(json(&at, "GET", "/api/v1/failed", "").await["messages"].as_array().unwrap().len(), 1);
    env.sql("delete from project where made_by = 'b'").await;
    json(&at, "POST", "/api/v1/failed/retry", &all(false)).await;
    env.ok(&["run", "--drain"]).await;
    assert_eq!(json(&at, "GET", "/api/v1/messages/orders%2F1", "").await["state"], "done");
    assert_eq!(json(&at, "GET", "/api/v1/failed", "").await["messages"], Value::from(Vec::<Value>::new()));
    let (_, metrics) = ask(&at, "GET", "/metrics", "", "").await;
    assert!(metrics.contains(&format!("{done} 1\n")), "{metrics}");
    assert!(metrics.contains("ichido_running_seconds_sum{queue=\"orders\",level=\"\"} "), "{metrics}");
    console.stop().await;
}

async fn a_key_is_remembered_on_every_kind_of_queue(kind: Kind) {
    let env = Env::new(kind).await;
    with_token(&env);
    let mut console = env.start("console", &ANYWHERE);
    let mut at = address(&console).await;
    let key = "idempotency-key: order-7\r\n";
    for (queue, payload) in [("mail", r#"{"to":"x"}"#), ("orders", r#"{"id":7,"name":"x"}"#)] {
        let (path, body) =
            (format!("/api/v1/queues/{queue}/messages"), format!(r#"{{"messages":[{{"payload":{payload}}}]}}"#));
        let requests = [(); 6].map(|()| {
            let (at, path, body) = (at.clone(), path.clone(), body.clone());
            tokio::spawn(async move { ask(&at, "POST", &path, key, &body).await })
        });
        let mut created = 0;
        for request in requests {
            let (status, text) = request.await.unwrap();
            assert!(status == 200 || status == 201, "{queue}: {status} {text}");
            created += usize::from(status == 201);
        }
        assert_eq!(created, 1, "{queue}");
        console.stop().await;
        console = env.start("again", &ANYWHERE);
        at = address(&console).await;
        assert_eq!(ask(&at, "POST", &path, key, &body).await.0, 200, "{queue}: another process remembers it");
    }
    assert_eq!(env.number("select count(*) from received_order").await, 1);
    assert_eq!(env.number("select count(*) from ichido_message").await, 1);
    console.stop().await;
}

/// Keys, cursors and texts with NUL, numbers beyond all limits, values of another type: whoever sends them is told, and it is no error of ours.
async fn no_database_is_asked_for_what_it_cannot_keep(kind: Kind) {
    let env = Env::new(kind).await;
    with_token(&env);
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    let after = URL_SAFE_NO_PAD.encode("2026-11-18 10:00:00\norders/a%00");
    for path in [
        "/api/v1/messages/orders%2Fa%2500b",
        "/api/v1/messages/mail%2Fa%2500b",
        "/api/v1/failed/orders%2Fa%2500b",
        "/api/v1/messages?queue=mail&state=ready&after=mail/ready,=%2500",
        "/api/v1/messages?queue=orders&state=failed&after=orders/failed,=%2500,=%2500",
        &format!("/api/v1/failed?after={after}"),
        "/api/v1/failed?error=%00",
        "/api/v1/failed?older_seconds=99999999999999",
        "/api/v1/audit?queue=%00",
        "/api/v1/audit?after=99999999999999999999",
        "/message?id=orders/%00",
        "/message?id=orders/a%2500",
        "/failed?older=4294967295d",
        "/failed?after=orders/a%2500",
        "/queue?name=mail&state=ready&after=mail/ready,=%2500",
    ] {
        let (status, text) = ask(&at, "GET", path, "", "").await;
        assert_eq!(status, 400, "{path}: {text}");
    }
    for path in
        ["/failed?older=36500d", "/api/v1/failed?older_seconds=3153600000", "/api/v1/audit?after=9223372036854775807"]
    {
        let (status, text) = ask(&at, "GET", path, "", "").await;
        assert_eq!(status, 200, "{path}: {text}");
    }
    for (path, body) in [
        ("messages/cancel", r#"{"ids":["orders/a%00b"]}"#),
        ("messages/run-now", r#"{"ids":["mail/a%00b"]}"#),
        ("messages/reschedule", r#"{"id":"orders/a%00b","delay_seconds":1}"#),
        ("failed/retry", r#"{"ids":["orders/a%00b"]}"#),
        ("failed/discard", r#"{"ids":["orders/1"],"reason":"\u0000"}"#),
        ("processes/R1%00/stop", "{}"),
    ] {
        let (status, text) = ask(&at, "POST", &format!("/api/v1/{path}"), "", body).await;
        assert_eq!(status, 400, "{path}: {text}");
    }
    for one in
        [r#""group":"\u0000""#, r#""unique":"\u0000""#, r#""headers":{"a":"\u0000"}"#, r#""headers":{"\u0000":"a"}"#]
    {
        let body = format!(r#"{{"messages":[{{"payload":{{"to":"x"}},{one}}}]}}"#);
        let (status, text) = ask(&at, "POST", "/api/v1/queues/mail/messages", "", &body).await;
        assert!(status < 500, "{one}: {status} {text}");
    }
    console.stop().await;
}

async fn a_database_that_is_away_is_told(kind: Kind) {
    let server = Database::start(kind);
    let env = Env::with_url(kind, server.fresh_database()).await;
    env.ok(&["migrate"]).await;
    with_token(&env);
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    assert_eq!(ask(&at, "GET", "/readyz", "", "").await.0, 200);
    server.end(true);
    for path in ["/readyz", "/api/v1/status", "/metrics", "/"] {
        let (status, text) = ask(&at, "GET", path, "", "").await;
        assert_eq!(status, 503, "{path}: {text}");
    }
    assert_eq!(ask(&at, "GET", "/livez", "", "").await.0, 200);
    server.start_again();
    eventually("the console answers again", async || {
        let (status, text) = ask(&at, "GET", "/api/v1/status", "", "").await;
        if status == 200 { Ok(()) } else { Err(format!("{status} {text}")) }
    })
    .await;
    console.stop().await;
}

#[tokio::test]
async fn an_address_that_others_reach_needs_tokens_and_encryption() {
    let env = Env::new(Kind::Sqlite).await;
    let anybody = ["serve", "--listen", "0.0.0.0:0"];
    env.run(&anybody).await.assert_refused(127, &["serve.listen", "0.0.0.0:0", "serve.tokens"]);
    with_token(&env);
    env.run(&anybody).await.assert_refused(127, &["serve.listen", "serve.tls", "behind_proxy"]);
    env.reconfigure(|config| config.replace("[serve]\n", "[serve]\nbehind_proxy = true\n"));
    let mut console = env.start("console", &["serve", "--listen", "0.0.0.0:0"]);
    console.until_logged("the console is at").await;
    console.stop().await;
    env.reconfigure(|config| config.split("tokens =").next().unwrap().to_owned());
    env.run(&ANYWHERE).await.assert_refused(127, &["serve.behind_proxy", "serve.tokens"]);
}

#[tokio::test]
async fn who_speaks_no_tls_gets_nothing() {
    let env = Env::new(Kind::Sqlite).await;
    with_token(&env);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/suite/tls");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let tls = format!("[serve]\ntls = {{ cert = \"{}\", key = \"{}\" }}\n", cert.display(), key.display());
    env.reconfigure(|config| config.replace("[serve]\n", &tls));
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    assert!(console.log().contains("https://127.0.0.1:"), "{}", console.log());
    let mut plain = TcpStream::connect(&at).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), plain.read_to_end(&mut answer)).await;
    assert!(!String::from_utf8_lossy(&answer).contains("ok"), "{answer:?}");
    let script = "import ssl, sys, urllib.request\n\
        cx = ssl.create_default_context(); cx.check_hostname = False; cx.verify_mode = ssl.CERT_NONE\n\
        print(urllib.request.urlopen(sys.argv[1], context=cx).read().decode())";
    let asked = Command::new("python3").args(["-c", script, &format!("https://{at}/livez")]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), "ok", "{asked:?}");
    console.stop().await;
}

async fn the_document_is_true(kind: Kind) {
    let env = Env::new(kind).await;
    with_token(&env);
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/schemathesis");
    assert!(
        folder.join("schemathesis").is_dir(),
        "schemathesis is not in {}: run ./test, which installs it",
        folder.display()
    );
    let known = "[[operations]]\ninclude-path-regex = \"/queues/\"\nparameters = { \"path.queue\" = \"mail\" }\n";
    std::fs::write(env.folder().join("schemathesis.toml"), known).unwrap();
    let examples = ichido_testkit::size(10, 100).to_string();
    let mut command = Command::new("python3");
    command.args(["-m", "schemathesis.cli", "run", &format!("http://{at}/api/v1/openapi.json")]);
    command.args(["-H", &format!("Authorization: Bearer {TOKEN}"), "--phases", "coverage,fuzzing", "--seed", "1"]);
    command.args(["--max-examples", &examples, "--suppress-health-check", "all", "--no-color", "--mode", "all"]);
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
                  negative_data_rejection,unsupported_method";
    command.args(["--checks", checks]).current_dir(env.folder()).stdin(Stdio::null());
    command.env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_mins(10), command.output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("passed"), "{said}");
    console.stop().await;
}
