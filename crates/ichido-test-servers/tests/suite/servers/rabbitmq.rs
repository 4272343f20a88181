//! RabbitMQ keeps what the servers promise.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::{fs, io};

use ichido_test_servers::RabbitMq;
use ichido_testkit::size;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use super::test_process::{TestProcess, assert_gone, play};

#[tokio::test]
async fn tests_share_one_node_and_each_has_its_vhost() {
    let node = RabbitMq::shared();
    assert_eq!(node.address(), RabbitMq::shared().address());
    let (one, other) = (node.fresh_vhost(), node.fresh_vhost());
    assert_ne!(one, other);
    let channel = connect(&one).await;
    send(&channel).await;
    assert_eq!(waiting(&channel).await, 1);
    assert_eq!(waiting(&connect(&other).await).await, 0);
}

#[test]
#[should_panic(expected = "badmatch")]
fn failing_erlang_shows_the_nodes_words() {
    RabbitMq::shared().eval("1 = 2");
}

#[tokio::test]
async fn nobody_logs_in_without_the_password() {
    let url = RabbitMq::shared().fresh_vhost().replace(":once@", ":twice@");
    let refused = Connection::connect(&url, ConnectionProperties::default()).await.expect_err("a wrong password");
    assert!(refused.to_string().contains("ACCESS"), "{refused}");
}

/// A node beside the shared one, which nobody stops: each start takes seconds.
fn own() -> &'static RabbitMq {
    static OWN: OnceLock<RabbitMq> = OnceLock::new();
    OWN.get_or_init(|| RabbitMq::start(&[("consumer_timeout", "12345")]))
}

#[test]
fn a_node_of_ones_own_has_its_own_settings() {
    let node = own();
    assert_ne!(node.address(), RabbitMq::shared().address());
    assert_eq!(node.eval("application:get_env(rabbit, consumer_timeout)"), "{ok, 12345}");
}

#[test]
fn a_node_starts_no_port_mapper_and_tells_none_its_name() {
    let node = own();
    // What it does once a minute.
    node.eval("rabbit_epmd_monitor ! check, sys:get_state(rabbit_epmd_monitor, infinity), ok");
    assert_eq!(node.eval("erl_epmd:names()"), "{error, address}");
    let folder = node.folder().to_str().expect("a path in UTF-8");
    let mapper = fs::read_dir("/proc").expect("processes").flatten().find(|process| {
        let file = |name| fs::read(process.path().join(name)).unwrap_or_default();
        file("comm") == b"epmd\n" && String::from_utf8_lossy(&file("environ")).contains(folder)
    });
    assert!(mapper.is_none(), "{mapper:?}");
}

#[test]
fn a_node_that_does_not_start_says_why() {
    let start = || RabbitMq::start(&[("no.such.setting", "1")]);
    let panic = catch_unwind(start).expect_err("a setting that is none");
    let words = panic.downcast_ref::<String>().expect("a message");
    assert!(words.starts_with("RabbitMQ did not start"), "{words}");
    assert!(words.contains("failed_to_prepare_configuration"), "{words}");
}

#[tokio::test]
async fn a_node_keeps_what_was_confirmed_however_it_ends() {
    let node = RabbitMq::start(&[]);
    let vhost = node.fresh_vhost();
    for (round, killed) in (1..).zip([false, true, true].into_iter().take(size(2, 3) as usize)) {
        send(&connect(&vhost).await).await;
        if killed {
            node.kill();
        } else {
            node.stop();
        }
        let refused = TcpStream::connect(node.address()).expect_err("stopped");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        node.start_again();
        assert_eq!(waiting(&connect(&vhost).await).await, round);
    }
}

#[test]
#[should_panic(expected = "eaddrinuse")]
fn a_node_whose_port_was_taken_meanwhile_says_so() {
    let node = RabbitMq::start(&[]);
    node.stop();
    let _taken = TcpListener::bind(node.address()).expect("a free port");
    node.start_again();
}

#[test]
fn a_memory_alarm_is_raised_and_ended() {
    let node = own();
    let alarms = || node.eval("rabbit_alarm:get_alarms()");
    node.memory_alarm(true);
    assert!(alarms().contains("memory"), "{}", alarms());
    node.memory_alarm(false);
    assert_eq!(alarms(), "[]");
}

#[test]
fn a_dropped_node_is_gone() {
    let node = RabbitMq::start(&[]);
    let (address, folder, pid) = (node.address(), node.folder().to_owned(), process_of(&node));
    drop(node);
    assert_gone(pid, &folder);
    TcpStream::connect(address).expect_err("dropped");
}

#[test]
fn the_node_ends_when_the_test_process_is_killed() {
    let mut child = TestProcess::of("servers::rabbitmq::child", "is killed");
    child.kill();
    assert_eq!(child.end().signal(), Some(9));
}

/// Not a test of its own: what the process of the test above runs.
#[test]
#[ignore = "started by the test above"]
fn child() {
    play(|| (process_of(RabbitMq::shared()), RabbitMq::shared().folder().to_owned()));
}

fn process_of(node: &RabbitMq) -> u32 {
    let pid = node.eval("list_to_integer(os:getpid())").parse().expect("a process id");
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).expect("a process");
    assert_eq!(name.trim(), "beam.smp");
    pid
}

async fn connect(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    // Whoever holds the channel holds the connection open.
    std::mem::forget(connection);
    channel
}

async fn send(channel: &Channel) {
    waiting(channel).await;
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let sent = channel.basic_publish("".into(), "q".into(), BasicPublishOptions::default(), b"x", persistent);
    assert!(sent.await.expect("sent").await.expect("confirmed").is_ack());
}

async fn waiting(channel: &Channel) -> u32 {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("q".into(), durable, FieldTable::default()).await.expect("a queue").message_count()
}
