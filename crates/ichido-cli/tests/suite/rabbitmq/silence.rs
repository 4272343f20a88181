//! A broker that says nothing any more on the connections that are open, at each step of a message: deliveries, acknowledgements,
//! what a relay publishes, and the confirmation of it. All is done once, nobody pays, and a process can be stopped meanwhile.

use std::time::{Duration, Instant};

use ichido_test_servers::proxy::{Proxy, Silence, Whom};
use ichido_testkit::{eventually, in_time, size};

use crate::{
    rabbitmq::world::{QUEUE, World},
    testenv::Kind,
};

crate::on_servers!(
    all_is_done_once_after_a_silence_of_the_broker,
    a_consumer_can_be_stopped_in_a_silence_of_the_broker
);

/// How often each side gives a sign of life.
const HEARTBEAT: &str = "?heartbeat=2";

const GRACE: Duration = Duration::from_secs(3);

/// A world behind a proxy.
async fn world(kind: Kind) -> (World<'static>, Proxy) {
    let world = World::new(kind).await;
    let proxy = Proxy::start_amqp(world.node.address());
    let (url, grace) =
        (format!("{}{HEARTBEAT}", proxy.url(&world.url)), format!("lease = \"6s\"\ngrace = \"{GRACE:?}\""));
    let slow = world.env.slow(20);
    world.configure(|config| config.replace(&world.url, &url).replace("lease = \"1s\"", &grace).replace("SLOW", &slow));
    (world, proxy)
}

async fn all_is_done_once_after_a_silence_of_the_broker(kind: Kind) {
    let (world, proxy) = world(kind).await;
    let mut processes = world.start(["one", "two"], &[]);
    let orders = size(30, 200);
    let mut sent = 0;
    for (at, (step, nth)) in [("deliver", 7), ("ack", 5), ("publish", 9), ("confirm", 1)].into_iter().enumerate() {
        // In the small size each server has one of the two at a step, and the other server the other one.
        let both = [Silence::Answers, Silence::Both];
        let turn = (at + usize::from(kind == Kind::MariaDb)) % 2;
        for silence in if size(0, 1) == 1 { &both[..] } else { &both[turn..=turn] } {
            let since = Instant::now();
            let begins = async || in_time(format!("silence at {step}"), proxy.silenced()).await;
            let messages = sent + 1..=sent + orders;
            if matches!(step, "deliver" | "ack") {
                proxy.silence_at(*silence, Whom::Everyone, step, nth);
                world.send(messages).await;
            } else {
                // So that the relays of the processes publish them, and not who sends, and none of them before it is silent.
                proxy.refuse(true);
                proxy.sever_all();
                world.send(messages).await;
                proxy.silence_at(*silence, Whom::Everyone, step, nth);
                proxy.refuse(false);
            }
            begins().await;
            sent += orders;
            world.shipped(sent).await;
            for rows in ["ichido_outbox", "ichido_mutex"] {
                world.env.until_none(rows).await;
            }
            println!("{kind:?}: {silence:?} at {step}: all done after {:?}", since.elapsed());
            // What is silent for good at the broker's side too.
            proxy.sever_all();
            world.comes_to_rest().await;
            world.assert_exact(sent).await;
            assert_eq!(world.env.number("select count(*) from ichido_parked").await, 0, "an attempt was spent");
        }
    }
    for process in &mut processes {
        process.stop().await;
        assert!(!process.log().contains("panicked"), "{}", process.log());
    }
}

async fn a_consumer_can_be_stopped_in_a_silence_of_the_broker(kind: Kind) {
    let (world, proxy) = world(kind).await;
    world.env.reconfigure(|config| config.replace(HEARTBEAT, "?heartbeat=60"));
    let mut sent = 0;
    for (step, silence) in [("ack", Silence::Both), ("deliver", Silence::Answers)] {
        for all in [false, true] {
            let [mut process] = world.start([&format!("{step} {all}")], &[]);
            process.until_logged("ichido starts").await;
            world.until_served().await;
            proxy.silence_at(silence, Whom::Everyone, step, 5);
            world.send(sent + 1..=sent + 30).await;
            sent += 30;
            in_time("silence", proxy.silenced()).await;
            if all {
                proxy.hold();
            }
            let since = Instant::now();
            process.signal("-TERM").await;
            process.exit_code().await;
            let took = since.elapsed();
            println!("{kind:?}: {silence:?} at {step}, new connections too {all}: ended after {took:?}");
            // Time itself, at the full size, which has the machine to itself.
            assert!(took < size(60, 1) * GRACE + Duration::from_secs(2), "{took:?}: {}", process.log());
            proxy.sever_all();
            proxy.resume();
            let is_free = async || world.depth(QUEUE).unacknowledged == 0;
            eventually("what the consumer had is back", is_free).await;
        }
    }
    let [mut last] = world.start(["last"], &["--drain"]);
    assert_eq!(last.exit_code().await, 0, "{}", last.log());
    world.assert_exact(sent).await;
}
