//! Messages whose action fails: the row holds the truth, the dead-letter queue a copy, and operators work on the row.

use crate::{
    rabbitmq::world::{DEAD, QUEUE, World},
    testenv::Kind,
};

crate::on_all!(
    an_order_that_fails_is_dead_lettered_and_runs_again_when_an_operator_says_so,
    what_an_operator_discards_is_gone_and_a_copy_of_it_is_a_duplicate,
    what_has_failed_and_is_cancelled_is_gone_at_the_broker_too,
    what_is_discarded_while_the_broker_is_away_is_discarded,
);

/// An order that no attempt can bring into the table: it has no name.
const NAMELESS: &str = r#"{"id":1,"name":null}"#;

/// Sends an order that fails, and runs it until it has failed for good.
pub(crate) async fn fail(world: &World<'_>) -> String {
    let id = world.env.ok(&["send", "orders", NAMELESS]).await.trim().to_owned();
    let [mut process] = world.start(["failing"], &[]);
    world.env.until("select count(*) from ichido_parked where state = 'dead'", 1).await;
    world.settles_at(DEAD, 1).await;
    world.comes_to_rest().await;
    process.stop().await;
    id
}

async fn an_order_that_fails_is_dead_lettered_and_runs_again_when_an_operator_says_so(kind: Kind) {
    let world = World::new(kind).await;
    let id = fail(&world).await;
    let list = world.env.ok(&["failed", "list"]).await;
    assert!(list.contains(&id), "{list}");
    let shown: serde_json::Value =
        serde_json::from_str(&world.env.ok(&["failed", "show", &id, "--json"]).await).unwrap();
    assert_eq!(shown["attempts"], 3, "{shown}");
    assert_eq!(world.env.number("select count(*) from project").await, 0);
    world.configure(|config| config.replace(":name,", "'nobody',"));
    world.env.ok(&["failed", "retry", &id]).await;
    let [mut process] = world.start(["mended"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    assert_eq!(world.env.number("select count(*) from project where name = 'nobody'").await, 1);
    assert_eq!(world.env.number("select count(*) from ichido_mutex").await, 0);
    world.settles_at(QUEUE, 0).await;
    world.settles_at(DEAD, 1).await; // the copy stays where it is
}

async fn what_an_operator_discards_is_gone_and_a_copy_of_it_is_a_duplicate(kind: Kind) {
    is_gone_by(kind, &["failed", "discard"]).await;
}

async fn what_has_failed_and_is_cancelled_is_gone_at_the_broker_too(kind: Kind) {
    is_gone_by(kind, &["messages", "cancel"]).await;
    let world = World::new(kind).await;
    fail(&world).await;
    world.env.ok(&["messages", "cancel", "--queue", "orders", "--state", "failed"]).await;
    world.settles_at(DEAD, 0).await;
}

/// Nothing is left of a failed message after this command.
async fn is_gone_by(kind: Kind, command: &[&str]) {
    let world = World::new(kind).await;
    let id = fail(&world).await;
    world.env.ok(&[command, &[&id]].concat()).await;
    world.settles_at(DEAD, 0).await;
    for table in ["ichido_mutex", "ichido_outbox", "ichido_parked"] {
        assert_eq!(world.env.number(&format!("select count(*) from {table}")).await, 0, "{table}");
    }
    world.publish(&[world.copy(&id, 1).await]).await;
    let [mut process] = world.start(["process"], &[]);
    world.comes_to_rest().await;
    process.stop().await;
    assert_eq!(world.env.number("select count(*) from project").await, 0);
    world.settles_at(DEAD, 0).await;
}

/// The database knows that it is discarded; the copy goes when somebody can reach the broker.
async fn what_is_discarded_while_the_broker_is_away_is_discarded(kind: Kind) {
    let world = World::new(kind).await;
    let id = fail(&world).await;
    let proxy = world.behind_a_proxy();
    proxy.refuse(true);
    let discarded = world.env.run(&["failed", "discard", &id]).await;
    assert_eq!((discarded.code, &*discarded.stdout), (Some(0), &*format!("{id} discarded\n")), "{discarded:?}");
    assert!(discarded.stderr.contains("`ichido doctor --fix` deletes"), "{discarded:?}");
    assert_eq!(world.env.number("select count(*) from ichido_mutex").await, 0);
    world.settles_at(DEAD, 1).await;
    world.configure(|config| config);
    world.env.ok(&["doctor", "--fix"]).await;
    world.settles_at(DEAD, 0).await;
}
