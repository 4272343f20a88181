//! The built-in action `http`, from outside: a real server, the binary, and what becomes of the messages.

use std::time::Instant;

use ichido_testkit::eventually;

use crate::testenv::server::{CERTIFICATE, Server, answer};
use crate::testenv::{Env, Kind};

/// A world with the action `Post` on the queue `mail`, and its configuration.
async fn posting(server: &Server, more: &str) -> Env {
    let env = Env::new(Kind::Sqlite).await;
    let url = format!("http://127.0.0.1:{}/hook", server.port);
    env.configure(|config| config + &action(&url, more));
    env
}

fn action(url: &str, more: &str) -> String {
    let retry = r#"retry = { attempts = 3, first = "1ms", max = "1ms" }"#;
    format!("\n[actions.Post]\nfrom = \"mail\"\n{retry}\nhttp = {{ url = \"{url}\"{more} }}\n")
}

const RUN: &[&str] = &["run", "Post", "--drain"];

/// The reasons of messages that have failed for good.
async fn failed(env: &Env) -> Vec<String> {
    let list = env.ok(&["failed", "list", "--json"]).await;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    list.as_array().unwrap().iter().map(|parked| parked["error"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_message_is_posted_as_json_with_its_id_as_key() {
    let server = Server::start(|_| answer("204 No Content", "", "")).await;
    let env =
        posting(&server, r#", headers = { X-Token = "${TOKEN:-abc}", Content-Type = "application/vnd.x+json" }"#).await;
    let payload = r#"{"price": 12345678901234567890.10, "big": 9007199254740993}"#;
    env.ok(&["send", "mail", payload]).await;
    env.ok(RUN).await;
    let posts = server.posts();
    assert_eq!(posts.len(), 1, "{posts:?}");
    let head = &posts[0].head;
    for line in
        ["post /hook http/1.1", "idempotency-key: mail/1", "x-token: abc", "content-type: application/vnd.x+json"]
    {
        assert!(head.lines().any(|found| found == line), "no `{line}` in {head}");
    }
    let body = &posts[0].body;
    assert_eq!((&body["id"], &body["queue"], &body["attempt"]), (&"mail/1".into(), &"mail".into(), &1.into()));
    assert_eq!(body["headers"], serde_json::json!({}));
    assert!(posts[0].text.ends_with(&format!("\"payload\":{payload}}}")), "{}", posts[0].text);
    assert_eq!(env.number("select count(*) from ichido_message").await, 0, "it is done");
}

#[tokio::test]
async fn the_row_of_a_table_is_posted_with_its_columns_as_fields() {
    let server = Server::start(|_| answer("200 OK", "", "{}")).await;
    let env = posting(&server, "").await;
    env.reconfigure(|config| config.replace("from = \"mail\"", "from = \"orders\""));
    env.send_orders([7]).await;
    env.ok(RUN).await;
    let body = &server.posts()[0].body;
    assert_eq!(
        (&body["id"], &body["payload"]["id"], &body["payload"]["name"]),
        (&"orders/7".into(), &7.into(), &"order 7".into())
    );
    assert_eq!(env.done().await, 1);
}

#[tokio::test]
async fn busy_and_broken_servers_are_asked_again_with_the_same_key() {
    for status in [
        "408 Request Timeout",
        "425 Too Early",
        "429 Too Many Requests",
        "500 Oops",
        "503 Service Unavailable",
        "599 X",
    ] {
        let server = Server::start(move |at| match at {
            0 => answer(status, "", ""),
            _ => answer("201 Created", "", ""),
        })
        .await;
        let env = posting(&server, "").await;
        env.ok(&["send", "mail", "{}"]).await;
        env.ok(RUN).await;
        let posts = server.posts();
        assert_eq!(
            posts.iter().map(|post| post.body["attempt"].as_i64().unwrap()).collect::<Vec<_>>(),
            [1, 2],
            "{status}"
        );
        assert!(posts.iter().all(|post| post.head.contains("idempotency-key: mail/1\r\n")), "{posts:?}");
        assert_eq!(env.number("select count(*) from ichido_message").await, 0, "{status}");
    }
}

#[tokio::test]
async fn a_server_that_is_broken_for_good_is_told_in_the_reason() {
    let server = Server::start(|_| answer("500 Internal Server Error", "", "out of\ncheese")).await;
    let env = posting(&server, "").await;
    env.ok(&["send", "mail", "{}"]).await;
    env.ok(RUN).await;
    let reason = format!("http://127.0.0.1:{}/hook answered 500 Internal Server Error: out of cheese", server.port);
    assert_eq!(failed(&env).await, [reason]);
    assert_eq!(server.posts().len(), 3, "as often as `attempts` says");
}

#[tokio::test]
async fn what_the_server_refuses_and_redirects_are_parked_at_once() {
    let long = "é".repeat(5000);
    let answers = [
        ("400 Bad Request", "", &*long, "answered 400 Bad Request: éé"),
        ("404 Not Found", "", "", "answered 404 Not Found"),
        ("422 Unprocessable Entity", "", "no \x1b[31m name", "answered 422 Unprocessable Entity: no [31m name"),
        (
            "302 Found",
            "location: http://u:p@other.example/login?token=x\r\n",
            "",
            "answered 302 Found, a redirect to http://other.example/login; redirects are not followed",
        ),
    ];
    for (status, headers, body, reason) in answers {
        let answered = answer(status, headers, body);
        let server = Server::start(move |_| answered.clone()).await;
        let env = posting(&server, "").await;
        env.ok(&["send", "mail", "{}"]).await;
        env.ok(RUN).await;
        let reasons = failed(&env).await;
        assert!(reasons.len() == 1 && reasons[0].contains(reason) && reasons[0].len() < 1200, "{reasons:?}");
        assert_eq!(server.posts().len(), 1, "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_says_when_is_asked_then() {
    let server = Server::start(|at| match at {
        0 => answer("503 Service Unavailable", "retry-after: 2\r\n", ""),
        _ => answer("200 OK", "", ""),
    })
    .await;
    let env = posting(&server, "").await;
    env.ok(&["send", "mail", "{}"]).await;
    // Time itself: a server that says two seconds is left alone for so long.
    let began = Instant::now();
    env.ok(RUN).await;
    assert!(began.elapsed().as_millis() >= 1900, "it has waited for {:?}", began.elapsed());
    assert_eq!(server.posts().len(), 2);
    // By date, and the longest that is waited.
    let server = Server::start(|_| answer("429 Slow Down", "retry-after: Tue, 31 Dec 2199 23:59:59 GMT\r\n", "")).await;
    let env = posting(&server, "").await;
    env.ok(&["send", "mail", "{}"]).await;
    let mut process = env.start("log", &["run", "Post"]);
    process.until_logged("runs again in 86400.0s").await;
    process.stop().await;
}

#[tokio::test]
async fn no_connection_and_no_answer_are_retried() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let env = Env::new(Kind::Sqlite).await;
    env.configure(|config| config + &action(&format!("http://127.0.0.1:{nobody}/"), ""));
    env.ok(&["send", "mail", "{}"]).await;
    env.ok(RUN).await;
    let reasons = failed(&env).await;
    assert!(
        reasons[0].starts_with(&format!("http://127.0.0.1:{nobody}/: ")) && reasons[0].contains("refused"),
        "{reasons:?}"
    );

    assert_eq!(env.number("select attempts from ichido_parked").await, 3);

    let silent = Server::start(|_| String::new()).await;
    let env = posting(&silent, r#", timeout = "1s""#).await;
    env.ok(&["send", "mail", "{}"]).await;
    env.ok(RUN).await;
    assert!(failed(&env).await[0].ends_with("/hook: no answer within 1s"), "{:?}", failed(&env).await);
    assert_eq!(env.number("select attempts from ichido_parked").await, 3);
    assert!(!silent.posts().is_empty());
}

#[tokio::test]
async fn an_answer_without_end_is_no_trap() {
    let server =
        Server::start(|_| format!("HTTP/1.1 400 No\r\ncontent-length: 9999999999\r\n\r\n{}", "x".repeat(1 << 20)))
            .await;
    let env = posting(&server, r#", timeout = "20s""#).await;
    env.ok(&["send", "mail", "{}"]).await;
    env.ok(RUN).await;
    assert!(failed(&env).await[0].contains("answered 400 Bad Request: xxx"), "{:?}", failed(&env).await);
}

#[tokio::test]
async fn a_status_counts_though_its_body_never_comes() {
    let server = Server::start(|at| match at {
        0 => "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nwait".to_owned(),
        _ => "HTTP/1.1 400 No\r\ncontent-length: 9\r\n\r\nwait".to_owned(),
    })
    .await;
    // The body takes all of it; the head must come within it, also on a busy machine.
    let env = posting(&server, r#", timeout = "4s""#).await;
    env.ok(&["send", "mail", "1"]).await;
    env.ok(RUN).await;
    assert_eq!((server.posts().len(), failed(&env).await.len()), (1, 0), "it is done");
    env.ok(&["send", "mail", "2"]).await;
    env.ok(RUN).await;
    assert!(failed(&env).await[0].ends_with("answered 400 Bad Request: wait"), "{:?}", failed(&env).await);
}

#[tokio::test]
async fn secrets_are_found_in_part_and_where_the_answer_is_cut() {
    let answers = ["no such token: canary-token", "no such key: canary-query", "canary-pässword"];
    let cut = |secret: &str| format!("{}{secret}", "x".repeat(1000 - secret.len() / 2));
    let bodies = answers.map(ToOwned::to_owned).into_iter().chain([cut("canary-header"), cut("canary-card")]);
    let bodies: Vec<_> = bodies.collect();
    let count = bodies.len();
    let server = Server::start(move |at| answer("400 Echo", "", &bodies[at])).await;
    let more = r#", headers = { Authorization = "Bearer canary-token", X-Key = "canary-header" }"#;
    let env = posting(&server, more).await;
    env.reconfigure(|config| {
        let url = config.replace("http://127", "http://me:canary-p%C3%A4ssword@127");
        url.replace("/hook", "/hook?key=canary-query") + "\n[log]\nmask = [\"card\"]\n"
    });
    for _ in 0..count {
        env.ok(&["send", "mail", r#"{"card":"canary-card"}"#]).await;
    }
    let ran = env.run(RUN).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = [ran.stderr, ran.stdout, format!("{:?}", failed(&env).await)].concat();
    assert_eq!(failed(&env).await.len(), count);
    assert!(!shown.contains("canary") && shown.contains("no such token: ***"), "{shown}");
}

#[tokio::test]
async fn no_transaction_is_open_while_the_server_thinks() {
    let server = Server::start(|_| String::new()).await;
    let env = posting(&server, "").await;
    env.ok(&["send", "mail", "{}"]).await;
    let process = env.start("log", &["run", "Post"]);
    eventually("a post", async || !server.posts().is_empty()).await;
    // On SQLite an open business transaction would keep every other writer waiting.
    env.sql("insert into burnt values (1)").await;
    process.kill().await;
}

#[tokio::test]
async fn secrets_are_sent_and_shown_nowhere() {
    let server = Server::start(|at| match at {
        0 => answer("500 Echo", "", "you sent Authorization: Basic dXNlcjpjYW5hcnktMQ== and canary-2, canary-1"),
        _ => answer("403 Echo", "", "canary-1 canary-2"),
    })
    .await;
    let env = posting(&server, r#", headers = { X-Token = "${TOKEN:-canary-2}" }"#).await;
    env.reconfigure(|config| {
        config.replace("http://127", "http://user:canary-1@127").replace("/hook", "/hook?key=canary-3")
    });
    env.ok(&["send", "mail", "{}"]).await;
    let ran = env.run(&["run", "Post", "--drain", "-vv"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let head = &server.posts()[0].head;
    assert!(
        head.contains("authorization: basic dxnlcjpjyw5hcnktmq==\r\n") && head.contains("x-token: canary-2\r\n"),
        "{head}"
    );
    assert!(head.starts_with("post /hook?key=canary-3 http/1.1\r\n"), "{head}");
    let shown = [ran.stderr, ran.stdout, format!("{:?}", failed(&env).await), env.ok(&["check"]).await].concat();
    assert!(shown.contains("***") && shown.contains("/hook"), "{shown}");
    for secret in ["canary-", "dXNlcjpjYW5hcnktMQ=="] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[tokio::test]
async fn a_certificate_is_checked() {
    let server = Server::start_tls(|_| answer("200 OK", "", "")).await;
    let env = Env::new(Kind::Sqlite).await;
    env.configure(|config| config + &action(&format!("https://localhost:{}/", server.port), ""));
    env.ok(&["send", "mail", "{}"]).await;
    env.ok(RUN).await;
    assert!(failed(&env).await[0].contains("certificate"), "{:?}", failed(&env).await);
    assert!(server.posts().is_empty());

    env.ok(&["failed", "retry", "mail/1"]).await;
    let ran = env.run_with(RUN, &[("SSL_CERT_FILE", CERTIFICATE)]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(server.posts().len(), 1);
}

#[tokio::test]
async fn a_payload_that_is_no_json_is_parked_and_its_neighbours_go_on() {
    let server = Server::start(|_| answer("200 OK", "", "")).await;
    let env = posting(&server, "").await;
    env.sql(
        "insert into ichido_message (queue, payload, headers) values ('mail', '{oops', '{}'), ('mail', '[1]', '{}')",
    )
    .await;
    env.ok(RUN).await;
    assert!(failed(&env).await[0].contains("cannot read the message: not JSON"), "{:?}", failed(&env).await);
    assert_eq!(server.posts().len(), 1);
}

#[tokio::test]
async fn check_shows_where_messages_go_and_a_bad_address_is_refused() {
    let env = Env::new(Kind::Sqlite).await;
    env.configure(|config| config + &action("https://me:secret@example.org/hook?x=y", ""));
    let shown = env.ok(&["check"]).await;
    assert!(shown.contains("Post") && shown.contains("http: POST https://example.org/hook\n"), "{shown}");
    env.configure(|config| config + &action("https://me:secret@/hook", ""));
    for command in [&["check"][..], &["run"]] {
        env.run(command).await.assert_refused(127, &["actions.Post.http: the url"]);
    }
}
