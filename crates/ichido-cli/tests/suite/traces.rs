//! Traces, from outside: what a collector gets of sends, publications and runs, through how many processes they go.

use std::fmt::Write as _;

use crate::{
    axum_service::Service,
    collector::{Collector, Span},
    rabbitmq::world::World,
    testenv::{Env, Kind, server::CERTIFICATE},
};

/// What is in a payload must be in no span.
const SECRET: &str = "payload-7c1d";

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[track_caller]
fn assert_child(child: &Span, parent: &Span) {
    assert_eq!(hex(&child.trace), hex(&parent.trace), "{child:?} is in the trace of {parent:?}");
    assert_eq!(hex(&child.parent), hex(&parent.id), "{child:?} is a child of {parent:?}");
}

on_all!(a_managed_message_is_one_trace);

/// From the header on the command line to the commit, in two processes, and on to what the action sends.
async fn a_managed_message_is_one_trace(kind: Kind) {
    let (env, collector) = (Env::new(kind).await, Collector::start().await);
    let action = "\n[actions.Greet]\nfrom = \"mail\"\nsql = [\"insert into project (id, name, made_by) values (1, :name, 'x')\"]\n";
    env.configure(|config| config + action + &collector.lines("greeter"));
    let header = format!("traceparent={TRACEPARENT}");
    env.ok(&["send", "mail", &format!(r#"{{"name":"{SECRET}"}}"#), "--header", &header]).await;
    let [send] = &collector.until("send", 1).await[..] else { panic!("one send: {:?}", collector.spans()) };
    assert_eq!(hex(&send.trace), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&send.parent), "b7ad6b7169203331");
    assert_eq!(send.service, "greeter");

    env.ok(&["run", "Greet", "--drain"]).await;
    let [message] = &collector.until("message", 1).await[..] else { panic!("one run: {:?}", collector.spans()) };
    assert_child(message, send);
    for name in ["action", "complete", "commit"] {
        let [step] = &collector.until(name, 1).await[..] else { panic!("one {name}: {:?}", collector.spans()) };
        assert_child(step, message);
        assert_eq!(step.failed, None);
    }
    let claims = collector.named("claim");
    assert!(!claims.is_empty() && claims.iter().all(|claim| claim.text.contains("messages")), "{claims:?}");
    for span in collector.spans() {
        assert!(!span.text.contains(SECRET), "a payload in {span:?}");
    }
}

/// Without a collector nothing is written beside the payload.
#[tokio::test]
async fn without_a_collector_messages_have_no_trace() {
    let env = Env::new(Kind::Sqlite).await;
    env.ok(&["send", "mail", "{}"]).await;
    assert_eq!(env.text("select headers from ichido_message").await, "{}");
    env.reconfigure(|config| config + "\n[telemetry]\notlp = \"ftp://collector\"\n");
    env.run(&["status"]).await.assert_refused(127, &["telemetry.otlp", "ftp://collector", "http://127.0.0.1:4318"]);
}

/// Its certificate is checked: what the system does not trust gets no span.
#[tokio::test]
async fn a_collector_is_reached_over_https() {
    let (env, collector) = (Env::new(Kind::Sqlite).await, Collector::start_tls().await);
    env.configure(|config| config + &collector.lines("greeter"));
    let command = ["send", "mail", "{}"];
    let unknown = env.run(&command).await;
    assert_eq!(unknown.code, Some(0), "{unknown:?}");
    assert!(unknown.stderr.contains("cannot send traces"), "{unknown:?}");
    assert!(collector.spans().is_empty());
    let trusted = env.run_with(&command, &[("SSL_CERT_FILE", CERTIFICATE)]).await;
    assert_eq!((trusted.code, trusted.stderr.contains("cannot send traces")), (Some(0), false), "{trusted:?}");
    let [sent] = &collector.until("send", 1).await[..] else { panic!("one send: {:?}", collector.spans()) };
    assert_eq!(sent.service, "greeter");
}

/// A collector that is away costs spans, and nothing else.
#[tokio::test]
async fn a_collector_that_is_away_holds_nobody_up() {
    let env = Env::new(Kind::Sqlite).await;
    env.configure(|config| config + "\n[telemetry]\notlp = \"http://127.0.0.1:9\"\n");
    env.send_orders(1..=3).await;
    let drained = env.run(&["run", "ProjectCreation", "--drain"]).await;
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert_eq!(drained.stderr.matches("cannot send traces").count(), 1, "{drained:?}");
    env.assert_exact(3).await;
}

/// Sent by the axum example, published to RabbitMQ, failed once and done in another process.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_through_rabbitmq_and_a_retry_is_one_trace() {
    let (world, collector) = (World::new(Kind::Sqlite).await, Collector::start().await);
    // What fails is there until the first run has failed.
    let insert = "insert into project (id, name, made_by) values (:id, :item, (select name from pass))";
    world.env.sql("create table pass (name text)").await;
    world.env.reconfigure(|config| {
        let (head, _) = config.split_once("retry       =").unwrap();
        let retry = "retry = { attempts = 1000, first = \"500ms\", max = \"500ms\" }";
        format!("{head}{retry}\nsql = [\"{insert}\"]\n{}", collector.lines("warehouse"))
    });
    let database = format!("sqlite://{}", world.env.folder().join("test.db").display());
    let service = Service::start(&database, &[("AMQP_URL", &world.url), ("OTLP", &collector.url)]).await;
    let mut process = world.env.start("process", &["run", "Ship"]);
    let order = format!(r#"{{"id":1,"item":"{SECRET}"}}"#);
    assert_eq!(service.ask("POST /orders", &order).await, "202");
    let first = collector.until("message", 1).await.remove(0);
    world.env.sql("insert into pass values ('now')").await;
    world.env.until("select count(*) from project", 1).await;
    let commit = collector.until("commit", 1).await.remove(0);
    process.stop().await; // sends what is left
    service.terminate();
    assert_eq!(service.ends().await, Some(0));

    let [request] = &collector.until("POST /orders", 1).await[..] else { panic!("one request") };
    let [send] = &collector.until("send", 1).await[..] else { panic!("one send: {:#?}", collector.spans()) };
    assert!(request.parent.is_empty(), "it is the root: {request:?}");
    assert_child(send, request);
    let (published, messages) = (collector.named("publish"), collector.named("message"));
    assert!(messages.len() >= 2, "it failed, and ran again: {messages:?}");
    assert!(published.len() >= messages.len(), "each run was published: {published:?}");
    for publish in &published {
        assert_child(publish, send);
    }
    for message in &messages {
        let publish = published.iter().find(|publish| publish.id == message.parent);
        assert_child(message, publish.unwrap_or_else(|| panic!("{message:?} came from none of {published:?}")));
        assert_eq!((message.service.as_str(), send.service.as_str()), ("warehouse", "shop"));
        let actions: Vec<_> = collector.named("action").into_iter().filter(|span| span.parent == message.id).collect();
        assert_eq!(actions.len(), 1, "one action in {message:?}");
    }
    let (last, before) = messages.split_last().unwrap();
    assert_eq!((first.failed.as_deref(), &first.id), (Some("error"), &messages[0].id));
    assert!(before.iter().all(|message| message.failed.is_some()), "{before:?}");
    assert_eq!(last.failed, None);
    assert_child(&commit, last);
    for span in collector.spans() {
        assert!(!span.text.contains(SECRET), "a payload in {span:?}");
    }
}
