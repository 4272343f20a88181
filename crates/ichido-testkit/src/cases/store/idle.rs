//! What an idle process costs: one look for all queues that have nothing to claim, no claims, and nobody who asks again and again whether
//! something is due.

use std::{sync::Arc, time::Duration};

use ichido::{
    Client, Context, Error, NewMessage, Outcome, Pool, Process, Result, RetryPolicy,
    store::{Database, Queues, Transactions},
};

use crate::{
    eventually,
    faults::{Faults, FaultyStore, HEARTBEAT, LEASE, Order, Running, Scene, Verb, one_line, orders},
    fixture::{Fixture, Player, effect, send, send_orders, until},
};

const HOUR: Duration = Duration::from_hours(1);

pub async fn one_look_tells_in_which_queues_there_is_something_to_claim<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let queues: [Arc<str>; 3] = ["orders", "mail", "urgent"].map(Into::into);
    let look = async || player.store.claimable(&queues).await.unwrap();
    // A look that took long, on a busy machine, is left to the claim for a while.
    let nothing = async || {
        let claims = async || {
            player.claim("orders", 10).await;
            player.claim("mail", 10).await;
            let seen = look().await;
            if seen.contains(&true) { Err(format!("{seen:?}")) } else { Ok(()) }
        };
        eventually("nothing to claim", claims).await;
    };
    assert_eq!(look().await, [false, false, false]);
    send(&fixture, "mail", &["{}"]).await;
    assert_eq!(look().await, [false, true, false]);
    let claimed = player.claim("mail", 10).await;
    nothing().await;
    player.store.release(&claimed).await.unwrap();
    send_orders(&fixture, 1).await;
    assert_eq!(look().await, [true, true, false]);
    for queue in ["orders", "mail"] {
        while let Some(delivery) = player.claim(queue, 10).await.first() {
            player.finish(delivery).await.unwrap();
        }
    }
    nothing().await;
    let mut tx = player.store.begin().await.unwrap();
    let grouped = [NewMessage::new("{}").group("a")];
    player.store.send(F::Store::connection(&mut tx), "mail", &grouped).await.unwrap();
    player.store.commit(tx).await.unwrap();
    assert_eq!(look().await, [false, true, false], "also the first of a group");
}

pub async fn an_idle_process_looks_and_does_not_claim<F: Fixture>() {
    let (fixture, faults) = (F::fresh().await, Arc::<Faults>::default());
    let process = Process::new(FaultyStore::new(fixture.store(), faults.clone())).poll(Duration::from_millis(10));
    let process = process.action_fn(orders(), one_line::<F>).action_fn(Pool::new("mail"), one_line::<F>);
    let running = Running::start(process);
    faults.has_ended(Verb::Look, 20).await;
    let claims = faults.begun(Verb::Claim);
    assert!(claims <= 4, "{claims} claims in two empty queues, though it only had to look");
    send_orders(&fixture, 3).await;
    until(&fixture, "select count(*) from ledger", 3).await;
    running.stop().await;
}

pub async fn it_is_known_when_the_next_message_is_due<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let queues: [Arc<str>; 2] = ["orders", "mail"].map(Into::into);
    let next = async || player.store.next_due(&queues).await.unwrap();
    assert_eq!(next().await, [None, None]);
    let mut tx = player.store.begin().await.unwrap();
    let late = [NewMessage::new("1").delay(Duration::MAX), NewMessage::new("2").delay(HOUR)];
    player.store.send(F::Store::connection(&mut tx), "mail", &late).await.unwrap();
    player.store.commit(tx).await.unwrap();
    let [None, Some(wait)] = next().await[..] else { panic!("{:?}", next().await) };
    assert!(wait <= HOUR && wait > HOUR / 2, "{wait:?}");
    fixture.sql("update ichido_parked set due_at = parked_at").await;
    assert_eq!(next().await, [None, Some(Duration::ZERO)]);
    assert_eq!(player.store.return_due(&player.registration).await.unwrap(), 2);
    assert_eq!(next().await, [None, None]);
}

/// Its time passes only when the test says so: nothing is polled.
pub async fn whoever_does_the_chores_wakes_for_a_message_that_is_sent_to_run_soon<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let store = scene.fixture.store();
    let faulty = FaultyStore::new(store.clone(), scene.faults.clone());
    let process = Process::new(faulty).lease(LEASE).poll(LEASE).check(LEASE).clock(scene.dial.clone());
    let running = Running::start(process.action_fn(orders(), one_line::<F>));
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.has_ended(Verb::Return, 1).await;
    let order = |id: i64| serde_json::json!({ "id": id, "name": "an order" });
    let client = Client::new(store);
    for (id, delay) in [(1, Duration::from_millis(5)), (2, Duration::ZERO)] {
        client.queue("orders").delay(delay).send_and_commit(&order(id)).await.unwrap();
        until(&scene.fixture, "select count(*) from ledger", id).await;
    }
    running.stop().await;
}

async fn second_time<F: Fixture>(cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
    let message = cx.message()?.clone();
    if cx.attempt() == 1 {
        return Err(Error::Failed("not yet".into()).into());
    }
    effect::<F>(cx.tx().await?, &message).await?;
    Ok(Outcome::Done)
}

/// No poll and no chores within an hour.
pub async fn a_process_returns_what_it_has_parked_for_a_moment<F: Fixture>() {
    let fixture = F::fresh().await;
    send_orders(&fixture, 2).await;
    let retry = RetryPolicy { first: Duration::from_millis(10), ..RetryPolicy::default() };
    let process = Process::new(fixture.store()).lease(3 * HOUR).poll(HOUR).check(HOUR);
    let running = Running::start(process.action_fn(orders().retry(retry), second_time::<F>));
    until(&fixture, "select count(*) from ledger", 2).await;
    running.stop().await;
}

/// By its clock no time passes at all: what it has claimed is always gone at once.
pub async fn claims_grow_with_what_a_process_gets_through<F: Fixture>() {
    let scene = Scene::<F>::new(300).await;
    let two = Pool::new("Failing").from("orders").concurrency(2);
    scene.drain(scene.process().action_fn(two, one_line::<F>)).await;
    let claims = scene.faults.begun(Verb::Claim);
    assert!(scene.done().await == 300 && claims < 75, "{claims} claims; of four messages each there would be 75");
}
