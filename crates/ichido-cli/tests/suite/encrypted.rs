//! Connections whose other end nobody verifies: `check` and `run` say so, and say what to write. 0.0.0.0 is not loopback by name, and yet
//! reaches the test's own servers.

use crate::{
    rabbitmq::world::World,
    testenv::{Env, Kind},
};
use ichido_test_servers::certificates::{CLIENT_KEY, ClientFiles};

on_servers!(a_database_elsewhere_without_a_verified_certificate_is_told);

const UNVERIFIED: &str = "does not verify the server's certificate";

async fn a_database_elsewhere_without_a_verified_certificate_is_told(kind: Kind) {
    let env = Env::new(kind).await;
    let near = env.run(&["check"]).await;
    assert!(near.code == Some(0) && !near.stdout.contains(UNVERIFIED), "{near:?}");
    env.reconfigure(|config| config.replace("127.0.0.1", "0.0.0.0"));
    let far = env.run(&["check"]).await;
    let told = format!("{}{}", far.stdout, far.stderr);
    let key = if kind == Kind::MariaDb { "ssl-mode=VERIFY_IDENTITY" } else { "sslmode=verify-full" };
    assert!(far.code == Some(0) && told.contains(UNVERIFIED) && told.contains(key), "{told}");
    assert_eq!(env.run(&["check", "--strict"]).await.code, Some(1));
    let ran = env.run(&["run", "--drain"]).await;
    assert!(ran.code == Some(0) && ran.stderr.contains(UNVERIFIED), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_elsewhere_without_encryption_is_told() {
    let world = World::new(Kind::Sqlite).await;
    let near = world.env.run(&["check"]).await;
    assert!(near.code == Some(0) && !near.stdout.contains("is not encrypted"), "{near:?}");
    world.env.reconfigure(|config| config.replace("127.0.0.1", "0.0.0.0"));
    let far = world.env.run(&["check"]).await;
    let told = format!("{}{}", far.stdout, far.stderr);
    assert!(
        told.contains("queues.orders.rabbitmq.url: the connection to 0.0.0.0 is not encrypted; use amqps://"),
        "{told}"
    );
    assert!(!told.contains("once"), "the password: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_is_trusted_by_its_authority_and_knows_us_by_our_certificate() {
    let world = World::new(Kind::Sqlite).await;
    let url = world.node.certified(&world.url);
    let files = ClientFiles::write(world.env.folder());
    let keys = |ca: &std::path::Path, identity: bool| {
        let identity = format!(", cert = {:?}, key = {:?}", files.cert, files.key).repeat(usize::from(identity));
        format!("ca = {ca:?}{identity}")
    };
    let configure = |keys: &str| {
        world.configure_queue(keys);
        world.env.reconfigure(|config| config.replace(&world.url, &url));
    };
    configure(&keys(&files.other_ca, true));
    let unknown = world.env.run(&["check"]).await;
    assert!(unknown.code == Some(20) && unknown.stderr.to_lowercase().contains("certificate"), "{unknown:?}");
    configure(&keys(&files.ca, false));
    let silent = world.env.run(&["check"]).await;
    assert_eq!(silent.code, Some(20), "who shows no certificate gets nothing: {silent:?}");
    configure(&keys(&files.ca, true));
    world.env.ok(&["check"]).await;
    world.send([1, 2, 3]).await;
    world.env.ok(&["run", "--drain"]).await;
    world.assert_exact(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_no_certificates_are_refused_with_their_key() {
    let world = World::new(Kind::Sqlite).await;
    let files = ClientFiles::write(world.env.folder());
    let rubbish = world.env.folder().join("rubbish.pem");
    std::fs::write(&rubbish, "nothing").unwrap();
    let encrypted = world.url.replace("amqp://", "amqps://");
    for (keys, part) in [
        ("ca = \"missing.pem\"".to_owned(), "rabbitmq.ca: cannot read missing.pem"),
        (format!("ca = {rubbish:?}"), "there is no certificate in it"),
        (format!("cert = {:?}", files.cert), "`key` is missing"),
        (format!("key = {:?}", files.key), "`cert` is missing"),
        (format!("cert = {:?}, key = {:?}", files.ca, files.key), "cannot be used together"),
        (format!("cert = {:?}, key = {rubbish:?}", files.cert), "the key cannot be read"),
    ] {
        world.configure_queue(&keys);
        world.env.reconfigure(|config| config.replace(&world.url, &encrypted));
        let refused = world.env.run(&["check"]).await;
        assert!(refused.code == Some(127) && refused.stderr.contains(part), "{keys}: {refused:?}");
        assert!(!refused.stderr.contains(CLIENT_KEY.lines().nth(1).unwrap()), "{refused:?}");
    }
    world.configure_queue(&format!("ca = {:?}", files.ca));
    let plain = world.env.run(&["check"]).await;
    assert!(plain.code == Some(127) && plain.stderr.contains("no address here is encrypted"), "{plain:?}");
}
