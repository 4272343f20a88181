//! A hostile peer at the broker: whoever can publish floods the queue, and a process holds no more of it than its prefetch.

use ichido_rabbitmq::{Envelope, Publisher, PublisherSettings, Server};
use ichido_testkit::{eventually, size};

use super::world::{DEAD, QUEUE, World};
use crate::testenv::{Kind, Process};

const BODY: usize = 1 << 20;

/// What a process of these tests holds.
const PREFETCH: u32 = 4;

/// What is held and what is about to be a dead letter is a dozen of them, with the buffers of both connections, in KiB; the flood is much more.
const BOUND: usize = 48 * 1024;

/// What the process has in memory, or has had at most, in KiB.
fn memory(process: &Process, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("a field of /proc").parse().expect("a number")
}

/// A process that is paused, and a flood that waits for it at the broker and comes all at once. Some of it has no id, some has a rubbish one,
/// some an id that nobody knows.
async fn flooded() -> (World<'static>, Process, u32) {
    let world = World::new(Kind::Sqlite).await;
    world.configure_queue(&format!("prefetch = {PREFETCH}"));
    let [process] = world.start(["flooded"], &[]);
    world.until_served().await;
    world.env.ok(&["pause", "R1"]).await;
    process.until_logged("is paused").await;
    let count = size(96, 500);
    let ids = ["", "nobody's", "\u{202e}"].into_iter().cycle();
    let bodies = (0..count).zip(ids).map(|(_, id)| {
        let message = Envelope::new("", QUEUE, vec![b'x'; BODY]).expect("short names");
        if id.is_empty() { message } else { message.header("x-message-mutex", id).expect("a short name") }
    });
    world.publish(&bodies.collect::<Vec<_>>()).await;
    world.settles_at(QUEUE, count).await;
    (world, process, count)
}

/// The dead-letter queue takes nothing more, as where its limit is reached.
async fn close_the_dead_letters(world: &World<'_>) {
    let rule = r#"[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]"#;
    let place = format!(r#"<<"{}">>, <<"full">>, <<"^{DEAD}$">>"#, world.vhost());
    let set = world.node.eval(&format!(r#"rabbit_policy:set({place}, {rule}, 0, <<"queues">>, <<"test">>)"#));
    assert_eq!(set, "ok");
    let publisher = Publisher::new(Server::new([&world.url]).unwrap(), PublisherSettings::default());
    eventually("the dead-letter queue refuses", async || {
        let one = Envelope::new("", DEAD, b"full".to_vec()).expect("short names");
        publisher.publish(&[one]).await.iter().any(Result::is_err)
    })
    .await;
}

/// Somebody has looked at them, and there is room again. What filled the queue goes while it is closed: later it would take dead letters of the
/// flood along.
fn open_the_dead_letters(world: &World<'_>) {
    let vhost = world.vhost();
    world.purge(DEAD);
    assert_eq!(world.node.eval(&format!(r#"rabbit_policy:delete(<<"{vhost}">>, <<"full">>, <<"test">>)"#)), "ok");
}

/// What cannot be dead-lettered is held until it can be, and the broker keeps the rest; then all of it is dead-lettered, a few at a time.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_takes_no_more_memory_than_the_prefetch() {
    let (world, mut process, count) = flooded().await;
    close_the_dead_letters(&world).await;
    let before = memory(&process, "VmHWM");
    let assert_bounded = |when: &str| {
        let most = memory(&process, "VmHWM") - before;
        let flood = format!("{count} bodies of 1 MiB and a prefetch of {PREFETCH}");
        assert!(most < BOUND, "{when}: {most} KiB more than before, for {flood}");
        println!("{when}: {most} KiB more than before, for {flood}");
    };
    world.env.ok(&["resume", "R1"]).await;
    process.until_logged("delivery not settled yet").await;
    world.settles_with(QUEUE, count - PREFETCH, PREFETCH).await;
    assert_bounded("held");
    open_the_dead_letters(&world);
    world.settles_at(DEAD, count).await;
    assert_bounded("dead-lettered");
    world.send([1]).await;
    world.shipped(1).await;
    process.stop().await;
    assert_eq!(world.env.number("select count(*) from project").await, 1, "only what was sent has an effect");
}
