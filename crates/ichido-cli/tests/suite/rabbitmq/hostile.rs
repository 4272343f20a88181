//! A hostile peer at the broker: whoever can publish floods the queue, and a process holds no more of it than its prefetch.

use ichido_rabbitmq::Envelope;
use ichido_testkit::size;

use super::world::{DEAD, World};
use crate::testenv::{Kind, Process};

const BODY: usize = 1 << 20;

/// What the process has in memory, or has had at most, in KiB.
fn memory(process: &Process, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("a field of /proc").parse().expect("a number")
}

/// Some of it has no id, some has a rubbish one, some an id that nobody knows: all of it is dead-lettered, a few at a time.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_takes_no_more_memory_than_the_prefetch() {
    let world = World::new(Kind::Sqlite).await;
    world.configure_queue("prefetch = 4");
    let [mut process] = world.start(["flooded"], &[]);
    world.send([1]).await;
    world.env.until("select count(*) from project", 1).await;
    // The flood waits at the broker and comes all at once: one by one, each would be dead-lettered before the next is there.
    world.env.ok(&["pause", "R1"]).await;
    process.until_logged("is paused").await;
    let count = size(96, 500);
    for (_, id) in (0..count).zip(["", "nobody's", "\u{202e}"].into_iter().cycle()) {
        let message = Envelope::new("", super::world::QUEUE, vec![b'x'; BODY]).expect("short names");
        let message =
            if id.is_empty() { message } else { message.header("x-message-mutex", id).expect("a short name") };
        world.publish(&[message]).await;
    }
    world.settles_at(super::world::QUEUE, count).await;
    let before = memory(&process, "VmHWM");
    world.env.ok(&["resume", "R1"]).await;
    world.settles_at(DEAD, count).await;
    let most = memory(&process, "VmHWM") - before;
    // What is held and what is about to be a dead letter is a dozen of them, with the buffers of both connections; the flood is much more.
    assert!(most < 48 * 1024, "{most} KiB more than before, for {count} bodies of 1 MiB and a prefetch of 4");
    process.stop().await;
    assert_eq!(world.env.number("select count(*) from project").await, 1);
}
