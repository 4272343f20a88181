//! Levels over SQS queues: the policies hold there too, and neither a long poll nor a false empty of one level starves another.

use std::time::{Duration, Instant};

use ichido_test_servers::injector::Faults;
use ichido_testkit::size;

use crate::{sqs::world::World, testenv::Kind};

crate::on_all!(
    a_weighted_set_keeps_its_ratio_while_both_have_work,
    a_strict_set_takes_the_higher_level_first,
    a_long_poll_on_a_high_level_holds_up_no_low_one,
);

// In SQLite an order that does not end keeps all others from writing.
crate::on_servers!(each_level_of_a_dedicated_set_has_its_slots);

struct Lanes {
    world: World,
    free: String,
}

/// Members and everybody else, each in a queue at SQS; the action notes the level in the order of starts.
async fn lanes(kind: Kind, policy: &str, [member, free]: [&str; 2]) -> Lanes {
    let world = World::new(kind).await;
    let number = match kind {
        Kind::Sqlite => "integer primary key autoincrement",
        Kind::Postgres => "serial primary key",
        Kind::MariaDb => "integer auto_increment primary key",
    };
    world.env.sql(&format!("create table started (n {number}, id integer not null)")).await;
    let everybody = format!("{}-free", world.queue);
    let keys = world.keys(&everybody);
    world.configure(|config| {
        let lanes = format!(
            r#"
[queues.everybody]
sqs = {{ {keys} }}

[lanes.site]
policy = "{policy}"
levels = [{{ level = "member", queue = "orders"{member} }}, {{ level = "free", queue = "everybody"{free} }}]
"#
        );
        let config = config.replace("from        = \"orders\"", "from        = \"site\"");
        let action = "insert into project (id, name, made_by) values (:id, :name, 'broker')";
        let config = config.replace(action, "insert into started (id) values (:id)");
        format!("{config}{lanes}")
    });
    Lanes { world, free: everybody }
}

/// Orders of members have numbers below.
const FREE: u32 = 100_000;

impl Lanes {
    async fn send(&self, members: u32, free: u32) {
        self.world.send_to("orders", 1..=members).await;
        self.world.send_to("everybody", FREE + 1..=FREE + free).await;
        self.world.settles_at(&self.world.queue, members).await;
        self.world.settles_at(&self.free, free).await;
    }

    async fn until_started(&self, messages: u32) {
        self.world.env.until("select count(*) from started", messages.into()).await;
    }

    /// How many of the first so many starts were members'.
    async fn members_of(&self, starts: u32) -> i64 {
        let first = format!("(select id from started order by n limit {starts}) s");
        self.world.env.number(&format!("select count(*) from {first} where id < {FREE}")).await
    }
}

async fn a_weighted_set_keeps_its_ratio_while_both_have_work(kind: Kind) {
    let starts = size(500, 5000);
    let lanes = lanes(kind, "weighted", [", weight = 4", ""]).await;
    lanes.send(starts, starts * 3 / 10).await;
    lanes.world.injector.forget_calls();
    lanes.world.injector.inject(Faults { false_empties: 5, ..Faults::none() });
    let [mut process] = lanes.world.start(["process"], &[]);
    lanes.until_started(starts).await;
    process.stop().await;
    let calls: u64 = lanes.world.injector.calls().values().sum();
    let mut farthest = 0;
    for part in 1..=10 {
        let first = starts * part / 10;
        let members = lanes.members_of(first).await;
        farthest = farthest.max((members - i64::from(first) * 4 / 5).abs());
    }
    let members = lanes.members_of(starts).await;
    println!("{kind:?}: {members} of {starts} starts were members', at most {farthest} off, {calls} calls");
    // The workers commit in another order than they start in, and what was released comes later. Of few starts on a busy machine, many may
    // come while a receive of the other level is under way; a set without weights would be 150 of 500 off.
    let off = size(starts / 8, starts / 50 + 8);
    assert!(farthest <= i64::from(off), "{members} of {starts}, at most {farthest} off");
}

async fn a_strict_set_takes_the_higher_level_first(kind: Kind) {
    let lanes = lanes(kind, "strict", ["", ""]).await;
    lanes.world.env.reconfigure(|config| config.replace("concurrency = 4", "concurrency = 1"));
    lanes.send(40, 40).await;
    let [mut process] = lanes.world.start(["process"], &[]);
    lanes.until_started(80).await;
    process.stop().await;
    let members = lanes.members_of(40).await;
    println!("{kind:?}: {members} of the first 40 starts were members'");
    assert!(members >= 38, "{members} of 40");
}

async fn each_level_of_a_dedicated_set_has_its_slots(kind: Kind) {
    let lanes = lanes(kind, "dedicated", [", concurrency = 2", ", concurrency = 2"]).await;
    // No member's order comes to an end; the others' do.
    let endless = lanes.world.env.endless();
    lanes.send(10, 30).await;
    lanes.world.env.reconfigure(|config| {
        let guarded =
            endless.replace("select pg_sleep(600)", "select pg_sleep(case when :id < 100000 then 600 else 0 end)");
        let guarded = guarded.replace("select sleep(600)", "select sleep(case when :id < 100000 then 600 else 0 end)");
        config.replace("values (:id)\"", &format!("values (:id)\"{guarded}"))
    });
    let [process] = lanes.world.start(["process"], &[]);
    lanes.until_started(30).await;
    assert_eq!(lanes.members_of(30).await, 0);
    process.kill().await;
}

/// Time itself: each of them would wait for twenty seconds if it had to wait for the poll.
async fn a_long_poll_on_a_high_level_holds_up_no_low_one(kind: Kind) {
    let lanes = lanes(kind, "strict", ["", ""]).await;
    lanes.world.env.reconfigure(|config| config.replace("wait = \"2s\"", "wait = \"20s\""));
    let [mut process] = lanes.world.start(["process"], &[]);
    process.until_logged("ichido starts").await;
    let begun = Instant::now();
    for order in 1..=9 {
        lanes.world.send_to("everybody", [FREE + order]).await;
        lanes.until_started(order).await;
    }
    println!("{kind:?}: nine messages, one after the other, in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_mins(2), "{:?}", begun.elapsed());
    process.stop().await;
}
