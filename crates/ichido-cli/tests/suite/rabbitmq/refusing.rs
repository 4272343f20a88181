//! Bad configurations, brokers that are away, brokers that are not what the configuration says: one message, the right code, and
//! nothing half done.

use std::net::TcpListener;

use ichido_rabbitmq::{Server, Topology};
use ichido_testkit::eventually;

use crate::{
    rabbitmq::world::{DEAD, QUEUE, World},
    testenv::{Ended, Env, Kind},
};

crate::on_all!(
    a_configuration_that_cannot_work_is_refused_with_one_message,
    a_broker_that_is_away_is_told_by_its_address_alone,
    check_changes_nothing_at_the_broker_and_says_what_will_be,
    a_queue_that_is_not_as_it_should_be_is_refused_at_start,
    what_a_broker_does_not_have_is_named,
);

const COMMANDS: [&[&str]; 3] = [&["check"], &["run"], &["relay"]];

/// A port at which nobody listens.
fn nowhere() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

async fn a_configuration_that_cannot_work_is_refused_with_one_message(kind: Kind) {
    let world = World::new(kind).await;
    let refused = async |keys: &str, parts: &[&str]| {
        world.configure_queue(keys);
        for args in [&["check"][..], &["run"], &["relay"], &["send", "orders", "{}"], &["status"]] {
            world.env.run(args).await.assert_refused(127, parts);
        }
    };
    refused("on_busy = \"wait\"", &["queues.orders.rabbitmq.on_busy", "\"delay\" or \"dead-letter\""]).await;
    refused("exchnge = \"x\"", &["queues.orders.rabbitmq.exchnge", "did you mean `exchange`?"]).await;
    refused("routing_key = \"x\"", &["queues.orders.rabbitmq.routing_key: without `exchange`"]).await;
    if kind == Kind::Sqlite {
        refused("claim = \"lock\"", &["ichido.toml: queues.orders.rabbitmq.claim: SQLite", "claim = \"lease\""]).await;
    }
    assert!(!world.has_queue(QUEUE), "nothing is declared");
    assert_eq!(world.env.number("select count(*) from ichido_outbox").await, 0, "nothing is sent");
}

#[tokio::test]
async fn a_relay_without_a_broker_has_nothing_to_do() {
    let env = Env::new(Kind::Sqlite).await;
    env.run(&["relay"]).await.assert_refused(127, &["nothing to relay: no queue in the configuration uses a broker"]);
}

async fn a_broker_that_is_away_is_told_by_its_address_alone(kind: Kind) {
    let world = World::new(kind).await;
    let (one, two) = (nowhere(), nowhere());
    let urls = format!(r#"["amqp://app:s3cret@{one}/v", "amqp://app:s3cret@{two}/v"]"#);
    world.configure(|config| config.replace(&format!("\"{}\"", world.url), &urls));
    let check = world.env.run(&["check"]).await;
    check.assert_refused(20, &["queues.orders.rabbitmq: the broker at", &one, &two, "does not answer"]);
    let all = world.env.run(&["check", "-vv"]).await;
    assert!(all.code == Some(20) && !all.stderr.contains("s3cret"), "{all:?}");
    let mut process = world.env.start("run", &["run", "-vv"]);
    process.until_logged("continuing without it").await;
    process.stop().await;
    assert!(!process.log().contains("s3cret"), "{}", process.log());
}

async fn check_changes_nothing_at_the_broker_and_says_what_will_be(kind: Kind) {
    let world = World::new(kind).await;
    let missing = world.env.ok(&["check"]).await;
    for part in
        ["TO BE DECLARED", "exchange shipments.dead, queue shipments, queue shipments.dead, queue shipments.busy"]
    {
        assert!(missing.contains(part), "{missing}");
    }
    assert!(!world.has_queue(QUEUE) && !world.has_queue(DEAD));
    world.send([1]).await;
    let there: serde_json::Value = serde_json::from_str(&world.env.ok(&["check", "--json"]).await).unwrap();
    let line = &there["brokers"][0];
    assert_eq!(
        (line["queue"].as_str(), line["missing"].as_array().map(Vec::len)),
        (Some("orders"), Some(0)),
        "{there}"
    );
    assert_eq!(line["broker"].as_str(), Some(&*world.node.address().to_string()), "{there}");
    assert!(line["version"].as_str().unwrap().starts_with("RabbitMQ 3."), "{there}");
    assert!(!there["warnings"].to_string().contains("rabbitmq"), "{there}");
    world.configure_queue("type = \"mirrored\"");
    world.env.run(&["check"]).await.assert_refused(127, &["\"shipments\" exists with settings other than ichido's"]);
}

async fn a_queue_that_is_not_as_it_should_be_is_refused_at_start(kind: Kind) {
    let world = World::new(kind).await;
    world.send([1]).await;
    world.configure_queue("type = \"classic\"");
    for args in COMMANDS {
        let ended = answered(&world, args).await;
        refused_by_broker(
            &ended,
            &["queues.orders.rabbitmq:", "exists with settings other than ichido's", "declare = false"],
        );
    }
    world.configure(|config| config.replace("amqp://ichido:once", "amqp://ichido:twice"));
    for args in COMMANDS {
        let ended = answered(&world, args).await;
        refused_by_broker(&ended, &["queues.orders.rabbitmq:", "refused user \"ichido\""]);
        assert!(!ended.stderr.contains("twice"), "{ended:?}");
        let every_detail = answered(&world, &[args, &["-vv"]].concat()).await;
        assert!(every_detail.code == Some(127) && !every_detail.stderr.contains("twice"), "{every_detail:?}");
    }
}

async fn what_a_broker_does_not_have_is_named(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("exchange = \"shop\", routing_key = \"order.new\"");
    for args in COMMANDS {
        refused_by_broker(
            &answered(&world, args).await,
            &["cannot bind queue \"shipments\": exchange \"shop\" does not exist"],
        );
    }
    assert!(!world.has_queue(QUEUE), "nothing is half declared");
    world.configure_queue("declare = false");
    for args in COMMANDS {
        refused_by_broker(&answered(&world, args).await, &["does not exist, and declare = false"]);
    }
}

/// AMQP does not tell who else is bound; the management API does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_reaches_another_queue_too_is_refused_if_the_management_api_tells() {
    let world = World::managed(Kind::Sqlite).await;
    let mut audit = Topology::new("audit");
    audit.bindings = vec![("amq.topic".to_owned(), "order.*".to_owned())];
    audit.declare(&Server::new([&world.url]).unwrap()).await.unwrap();
    let route = "exchange = \"amq.topic\", routing_key = \"order.new\"";
    let managed = |url: &str| format!("{route}, management = \"{url}\"");
    world.configure_queue(&managed(&world.node.management_url()));
    for args in COMMANDS {
        refused_by_broker(
            &answered(&world, args).await,
            &["also reach queue \"audit\"", "one mutex cannot guard both"],
        );
    }
    let sent = answered(&world, &["send", "orders", "{}"]).await;
    sent.assert_refused(127, &["also reach queue \"audit\"", "nothing was sent"]);
    assert_eq!(world.env.number("select count(*) from ichido_outbox").await, 0);
    assert!(!world.has_queue(QUEUE), "nothing is half declared");
    let away = nowhere();
    world.configure_queue(&managed(&format!("http://u:s3cret@{away}")));
    let check = world.env.run(&["check"]).await;
    check.assert_refused(20, &["queues.orders.rabbitmq:", &away]);
    assert!(!check.stderr.contains("s3cret"), "{check:?}");
    let mut relay = world.env.start("relay", &["relay"]);
    relay.until_logged("continuing without it").await;
    relay.until_logged("relaying `orders`").await;
    relay.stop().await;
    let sent = world.env.run(&["send", "orders", "{}"]).await;
    assert_eq!(sent.code, Some(0), "who is away refuses nothing: {sent:?}");
    world.configure_queue(route);
    let unknown = world.env.run(&["check"]).await;
    assert_eq!(unknown.code, Some(0), "{unknown:?}");
    let warned = ["queues.orders.rabbitmq.guard", "`management`"];
    assert!(warned.iter().all(|part| unknown.stderr.contains(part)), "{unknown:?}");
    let mut relay = world.env.start("relay", &["relay"]);
    relay.until_logged("queues.orders.rabbitmq.guard").await;
    relay.stop().await;
}

/// What the configuration itself binds is known without asking anybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_configuration_sends_to_two_queues_is_refused_by_send_too() {
    let world = World::new(Kind::Sqlite).await;
    let route = |key: &str| format!("exchange = \"amq.fanout\", routing_key = \"{key}\"");
    world.configure_queue(&route("x"));
    let (url, other) = (&world.url, route("y"));
    let audit = format!("[queues.audit]\nrabbitmq = {{ url = \"{url}\", queue = \"audit\", {other} }}\n");
    world.env.reconfigure(|config| format!("{config}\n{audit}"));
    let sent = world.env.run(&["send", "orders", "{}"]).await;
    sent.assert_refused(127, &["also reach queue \"audit\"", "nothing was sent"]);
    assert_eq!(world.env.number("select count(*) from ichido_outbox").await, 0);
}

/// Runs a command until the broker has answered it in time, which a busy machine's broker does not always.
async fn answered(world: &World<'_>, args: &[&str]) -> Ended {
    eventually("an answer of the broker", async || {
        let ended = world.env.run(args).await;
        if ended.code == Some(20) { Err(ended.stderr) } else { Ok(ended) }
    })
    .await
}

/// A refusal that comes from the broker; a process may have said something before.
#[track_caller]
fn refused_by_broker(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.code, Some(127), "{ended:?}");
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("ichido: ") && parts.iter().all(|part| last.contains(part)), "{ended:?}");
    assert!(ended.stdout.is_empty() && !ended.stderr.contains("panicked"), "{ended:?}");
}
