//! Messages that are cancelled, whatever state they are in: nothing of them is committed afterwards, their process is told, and what is done
//! stays done. And the audit, which says who did it. What only holds where rows are locked is in `locks`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{
    Client, Context, Delivery, Guarded, Inspect, Key, MessageId, NewMessage, Operate, Outcome, Pool, Process, Queue,
    Result, RetryPolicy,
    broker::{Found, Standing},
    process::Flag,
    stat::WINDOW,
    store::{Audit, By, Cancellable, Cancelled, Cancelling, Failure, Mutexes, Processes, Queues, Transactions},
};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{
    cases::broker_rows::{handed_out, held, join, publish_all, rows, send_all},
    faults::{Fault, Order, Running, Scene, Verb, orders},
    fixture::{
        Fixture, Player, assert_lost, effect, effect_here, effects, failed, one_claimed, queues, send, send_orders,
    },
    in_time,
};

const HOUR: Duration = Duration::from_hours(1);

fn id(queue: &str, key: &impl ToString) -> MessageId {
    MessageId { queue: queue.into(), key: key.to_string().parse().expect("a key") }
}

fn id_of(delivery: &Delivery) -> MessageId {
    delivery.message.id()
}

/// Five messages in each queue.
async fn five_each<F: Fixture>() -> (F, Player<F>) {
    let fixture = F::fresh().await;
    send_orders(&fixture, 5).await;
    send(&fixture, "mail", &["{}"; 5]).await;
    let tickets: Vec<_> = (1..=5).map(|n| format!(r#"{{"region":"a","number":{n},"kind":"urgent"}}"#)).collect();
    send(&fixture, "urgent", &tickets.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let process = Player::join(&fixture).await;
    (fixture, process)
}

pub async fn a_message_is_cancelled_in_whatever_state_it_is<F: Fixture>() {
    let (fixture, process) = five_each::<F>().await;
    let store = &process.store;
    for queue in ["orders", "mail", "urgent"] {
        let mut claimed = process.claim(queue, 4).await;
        let failed = claimed.pop().unwrap();
        assert!(store.park(&failed, &Failure::dead("never", 3)).await.unwrap());
        let waiting = claimed.pop().unwrap();
        assert!(store.park(&waiting, &Failure::waiting("not yet", 1, HOUR)).await.unwrap());
        let (done, running) = (claimed.pop().unwrap(), claimed.pop().unwrap());
        process.finish(&done).await.unwrap();
        for delivery in [&failed, &waiting, &running] {
            assert_eq!(store.cancel(&id_of(delivery)).await.unwrap(), Cancelled::Cancelled, "{}", id_of(delivery));
            assert_eq!(store.cancel(&id_of(delivery)).await.unwrap(), Cancelled::Already, "{}", id_of(delivery));
        }
        assert_lost(&process.finish(&running).await);
        assert!(!store.park(&running, &Failure::dead("late", 1)).await.unwrap(), "its failure is nobody's concern");
        store.release(&[running.copy()]).await.unwrap();
        let told = store.poll(&process.registration).await.unwrap().cancelled;
        assert_eq!(told, [id_of(&running)].into(), "its process is told, of what it had claimed");
        assert!(store.finish_cancel(&running).await.unwrap());
        assert_eq!(store.poll(&process.registration).await.unwrap().cancelled, [].into(), "it is told once");
        let ready = process.claim_one(queue).await;
        store.release(&[ready.copy()]).await.unwrap();
        assert_eq!(store.cancel(&id_of(&ready)).await.unwrap(), Cancelled::Cancelled);
        let gone = if queue == "orders" { Cancelled::Done } else { Cancelled::Unknown };
        assert_eq!(store.cancel(&id_of(&done)).await.unwrap(), gone, "{queue}: what is done stays done");
        assert!(process.claim(queue, 10).await.is_empty(), "{queue}: nothing is left to run");
        assert!(store.is_drained(queue).await.unwrap(), "{queue}");
    }
    assert_eq!(effects(&fixture).await, 3, "the effects of what was done, and of nothing else");
    assert_eq!(failed(&fixture).await, []);
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '2' and process_id is null").await,
        4
    );
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 0);
    assert_eq!(fixture.number("select count(*) from ichido_audit where verb = 'cancel'").await, 12);
    process.tidy().await;
    assert_eq!(fixture.number("select count(*) from ichido_parked where state <> 'discarded'").await, 0);
    assert_eq!(store.cancel(&id("orders", &77)).await.unwrap(), Cancelled::Unknown);
    fixture.sql("update received_order set status = '0' where status = '2'").await;
    assert_eq!(process.claim("orders", 10).await.len(), 4, "an operator's SQL runs a row again");
}

pub async fn a_cancelled_message_frees_its_group_and_its_unique_key<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = Player::join(&fixture).await;
    let store = &process.store;
    let grouped = |key: &str| NewMessage::new("{}").group("a").unique(key);
    send_all(store, "mail", &[grouped("1"), grouped("2"), grouped("3")]).await;
    let first = process.claim_one("mail").await;
    assert!(process.claim("mail", 10).await.is_empty(), "its group is held");
    assert_eq!(store.cancel(&id_of(&first)).await.unwrap(), Cancelled::Cancelled);
    let second = process.claim_one("mail").await;
    assert!(store.park(&second, &Failure::dead("never", 3)).await.unwrap());
    assert!(process.claim("mail", 10).await.is_empty(), "a failed message holds its group");
    assert_eq!(store.cancel(&id_of(&second)).await.unwrap(), Cancelled::Cancelled);
    process.finish(&process.claim_one("mail").await).await.unwrap();
    let again = send_all(store, "mail", &[grouped("1")]).await;
    assert_ne!(again[0], first.message.key, "nobody has its unique key");
    assert_eq!(fixture.number("select count(*) from ichido_group").await, 0);
}

pub async fn a_brokers_message_is_cancelled_with_what_is_to_be_published<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let store = &process.store;
    let keys = send_all(store, "paid", &vec![NewMessage::new(r#"{"id":1}"#); 3]).await;
    assert_eq!(store.cancel(&id("paid", &keys[0])).await.unwrap(), Cancelled::Cancelled);
    assert_eq!(rows(&fixture).await, (2, 2), "it is not published any more");
    publish_all(store, "paid").await;
    let (running, waiting) = (process.take("paid", &keys[1]).await, process.take("paid", &keys[2]).await);
    assert!(store.park(&waiting, &Failure::waiting("not yet", 1, HOUR)).await.unwrap());
    for key in &keys[1..] {
        assert_eq!(store.cancel(&id("paid", key)).await.unwrap(), Cancelled::Cancelled);
        assert_eq!(store.cancel(&id("paid", key)).await.unwrap(), Cancelled::Already);
    }
    assert_lost(&process.finish(&running).await);
    assert!(store.finish_cancel(&running).await.unwrap());
    assert_eq!(process.find("paid", &keys).await, [Found::Nothing; 3], "copies at the broker are of something done");
    assert_eq!((rows(&fixture).await, effects(&fixture).await), ((0, 0), 0));
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn no_copy_of_a_cancelled_message_passes_the_inbox<F: Fixture>() {
    let fixture = F::fresh().await;
    let queues = vec![Queue::broker("paid", Guarded::new("", "paid").inbox())];
    let process = Player::<F>::join_with(fixture.store_with(queues), &["paid"]).await;
    let (store, key) = (&process.store, Key::new(["paid:shop:a:4"]));
    assert_eq!(store.cancel(&id("paid", &key)).await.unwrap(), Cancelled::Unknown, "nobody has heard of it");
    let running = process.take("paid", &key).await;
    assert_eq!(store.cancel(&id("paid", &key)).await.unwrap(), Cancelled::Cancelled);
    assert_lost(&process.finish(&running).await);
    assert!(!store.is_claimed(&running).await.unwrap());
    assert!(store.finish_cancel(&running).await.unwrap(), "it is cancelled, and not done");
    let mut tx = store.begin().await.unwrap();
    let locked = held("paid", &key, process.registration.id, Standing::default(), true);
    assert_eq!(store.lock(&mut tx, &locked).await.unwrap(), Found::Nothing, "whatever a copy says");
    store.rollback(tx).await.unwrap();
    assert_eq!(process.find("paid", std::slice::from_ref(&key)).await, [Found::Nothing]);
    assert_eq!(store.cancel(&id("paid", &key)).await.unwrap(), Cancelled::Already);
    assert_eq!((rows(&fixture).await, effects(&fixture).await), ((0, 0), 0));
    let done = Key::new(["paid:shop:a:5"]);
    let delivery = process.take("paid", &done).await;
    assert_eq!(delivery.message.payload, handed_out("paid", &done).message.payload);
    process.finish(&delivery).await.unwrap();
    assert_eq!(store.cancel(&id("paid", &done)).await.unwrap(), Cancelled::Done);
}

pub async fn many_are_cancelled_in_bounded_transactions<F: Fixture>() {
    let (fixture, process) = five_each::<F>().await;
    let store = &process.store;
    for queue in ["orders", "mail", "urgent"] {
        let mut claimed = process.claim(queue, 3).await;
        assert!(store.park(&claimed.remove(0), &Failure::dead("never", 3)).await.unwrap());
        assert!(store.park(&claimed.remove(0), &Failure::waiting("not yet", 1, HOUR)).await.unwrap());
        let expected = [2, 1, 1, 1];
        for (which, expected) in Cancellable::ALL.into_iter().zip(expected) {
            let seen = store.cancellable(queue, which, 10).await.unwrap();
            assert_eq!(seen.len(), expected, "{queue}: {which:?}");
            let first = store.cancel_some(queue, which, 1).await.unwrap();
            assert_eq!(first.len(), 1, "{queue}: {which:?}: no more than that at a time");
            let rest = store.cancel_some(queue, which, 10).await.unwrap();
            let mut all: Vec<_> = first.into_iter().chain(rest).collect();
            all.sort();
            assert_eq!((all.len(), store.cancel_some(queue, which, 10).await.unwrap().len()), (expected, 0));
        }
        assert!(process.claim(queue, 10).await.is_empty() && store.is_drained(queue).await.unwrap());
    }
    assert_eq!(fixture.number("select count(*) from ichido_audit where verb = 'cancel'").await, 15);
    store.deregister(process.registration.id).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_cancel").await, 0, "nobody reads it any more");
}

/// The action waits for ever, before it writes: on SQLite nobody could cancel it otherwise.
struct Endless {
    begun: Semaphore,
    dropped: AtomicUsize,
    seen: AtomicBool,
}

struct Dropped(Arc<Endless>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

pub async fn what_runs_is_dropped_and_no_attempt_is_spent<F: Fixture>() {
    for together in [1, 3] {
        let (fixture, ids) = (F::fresh().await, ["orders/1", "mail/1", "urgent/a/1"]);
        send_orders(&fixture, 3).await;
        send(&fixture, "mail", &["{}"; 3]).await;
        let tickets: Vec<_> = (1..=3).map(|n| format!(r#"{{"region":"a","number":{n},"kind":"urgent"}}"#)).collect();
        send(&fixture, "urgent", &tickets.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let state =
            Arc::new(Endless { begun: Semaphore::new(0), dropped: AtomicUsize::new(0), seen: AtomicBool::new(false) });
        let endless = |queue: &str| {
            let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
            Pool::new(queue).from(queue).concurrency(1).commit_interval(together).retry(once)
        };
        let mut process =
            Process::new(fixture.store()).poll(Duration::from_millis(20)).check(Duration::from_millis(20));
        for queue in ["orders", "mail", "urgent"] {
            process = process.state(state.clone()).action_fn(endless(queue), wait_for_ever_at_first::<F>);
        }
        let running = Running::start(process);
        in_time("three messages run", state.begun.acquire_many(3)).await.unwrap().forget();
        let client = Client::new(fixture.store());
        for id in ids {
            let cancelled = client.message(&id.parse().unwrap()).by(By::user("anna")).cancel().await.unwrap();
            assert_eq!(cancelled, Cancelled::Cancelled, "{id}");
        }
        crate::fixture::until(&fixture, "select count(*) from ledger", 6).await;
        running.stop().await;
        assert!(state.seen.load(Ordering::SeqCst), "a task of the action's own has seen it");
        assert!(state.dropped.load(Ordering::SeqCst) >= 3);
        assert_eq!((effects(&fixture).await, failed(&fixture).await), (6, Vec::new()), "the others have run");
        let tally = fixture.store().stats(WINDOW).await.unwrap();
        let done: u64 = tally.iter().map(|row| row.stat.tally.done).sum();
        assert_eq!(done, 6, "what was cancelled is not counted as done");
        assert_eq!(fixture.number("select count(*) from ichido_cancel").await, 0, "who has seen it takes it away");
        let who = fixture.store().audit(None, None, 10).await.unwrap();
        assert!(who.len() == 3 && who.iter().all(|entry| entry.by.user.as_deref() == Some("anna")), "{who:?}");
    }
}

/// The first message of each queue does not end.
async fn wait_for_ever_at_first<F: Fixture>(cx: &mut Context<F::Store>, _: Value) -> Result<Outcome> {
    if ["orders/1", "mail/1", "urgent/a/1"].contains(&&*cx.message_id()?.to_string()) {
        let state = cx.state::<Arc<Endless>>()?;
        let _dropped = Dropped(Arc::clone(&state));
        let (cancelled, seen) = (cx.cancelled(), Arc::clone(&state));
        cx.spawn(async move {
            cancelled.await;
            seen.seen.store(true, Ordering::SeqCst);
        });
        state.begun.add_permits(1);
        std::future::pending::<()>().await;
    }
    effect_here::<F>(cx).await?;
    Ok(Outcome::Done)
}

/// COMMIT does not arrive, and before anybody looks the message is cancelled: it is not done, whatever became of its row.
pub async fn an_unknown_commit_before_a_cancel_is_not_counted_as_done<F: Fixture>() {
    async fn one<F: Fixture>(cx: &mut Context<crate::faults::FaultyStore<F::Store>>, _: Order) -> Result<Outcome> {
        let message = cx.message()?.clone();
        effect::<F>(cx.tx().await?, &message).await?;
        Ok(Outcome::Done)
    }
    let scene = Scene::<F>::new(1).await;
    scene.faults.inject(Verb::Commit, Fault::Unreachable, 1);
    scene.faults.hold(Verb::Probe);
    let running = Running::start(scene.process().action_fn(orders(), one::<F>));
    scene.faults.has_begun(Verb::Probe, 1).await;
    let cancelled = ichido::message::cancel_within(&scene.fixture.store(), &id("orders", &1), HOUR).await.unwrap();
    assert_eq!(cancelled, Cancelled::Cancelled);
    scene.faults.resume(Verb::Probe);
    crate::fixture::until(&scene.fixture, "select count(*) from ichido_cancel", 0).await;
    running.stop().await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (0, 0));
    let stats = scene.fixture.store().stats(WINDOW).await.unwrap();
    assert_eq!(stats.iter().map(|row| row.stat.tally.done).sum::<u64>(), 0);
}

pub async fn a_claim_that_was_cancelled_is_told_from_one_that_is_done<F: Fixture>() {
    let (fixture, process, delivery) = one_claimed::<F>().await;
    let store = &process.store;
    assert!(!store.finish_cancel(&delivery).await.unwrap(), "nobody has cancelled it");
    process.finish(&delivery).await.unwrap();
    assert!(!store.is_claimed(&delivery).await.unwrap() && !store.finish_cancel(&delivery).await.unwrap());
    send(&fixture, "mail", &["{}"]).await;
    let mail = process.claim_one("mail").await;
    assert_eq!(store.cancel(&id_of(&mail)).await.unwrap(), Cancelled::Cancelled);
    assert!(!store.is_claimed(&mail).await.unwrap() && store.finish_cancel(&mail).await.unwrap());
    let other = Player::<F>::join_with(fixture.store_with(queues()), &["mail"]).await;
    assert!(other.store.poll(&other.registration).await.unwrap().cancelled.is_empty(), "others are not told");
}

pub async fn the_audit_says_who_did_what_and_why<F: Fixture>() {
    let (fixture, process) = five_each::<F>().await;
    let store = process.store.by(By::user("anna").because(Some("wrong price".into())));
    let dead = process.claim("orders", 2).await;
    for delivery in &dead {
        assert!(store.park(delivery, &Failure::dead("no such customer", 3)).await.unwrap());
    }
    store.retry(&id_of(&dead[0])).await.unwrap();
    store.discard(&id_of(&dead[1])).await.unwrap();
    store.cancel(&id("orders", &4)).await.unwrap();
    for (flag, on) in [(Flag::Stop, true), (Flag::Stop, false), (Flag::Pause, true), (Flag::Pause, false)] {
        assert!(store.set_flag("R1", flag, on).await.unwrap());
        assert!(!store.set_flag("R1", flag, on).await.unwrap(), "what changes nothing is not noted");
    }
    process.store.note("publish", &id("mail", &1), "by a test").await.unwrap();
    let all = store.audit(None, None, 100).await.unwrap();
    let verbs: Vec<_> = all.iter().map(|entry| (&*entry.verb, &*entry.what)).collect();
    let (first, second) = (id_of(&dead[0]).to_string(), id_of(&dead[1]).to_string());
    let expected = [
        ("publish", "mail/1"),
        ("resume", "R1"),
        ("pause", "R1"),
        ("unstop", "R1"),
        ("stop", "R1"),
        ("cancel", "orders/4"),
        ("discard", &second),
        ("retry", &first),
    ];
    assert_eq!(verbs, expected, "the newest first");
    assert!(all[7].detail.contains("no such customer") && all[5].detail == "ready", "{all:?}");
    let by = |entry: &ichido::store::Audited| (entry.by.user.clone(), entry.by.reason.clone());
    assert!(all[1..].iter().all(|entry| by(entry) == (Some("anna".into()), Some("wrong price".into()))), "{all:?}");
    assert!(all[1].by.host.is_some() && all[0].by == By::default(), "a program that does not say who it is: {all:?}");
    assert_eq!(store.audit(None, Some(all[2].number), 3).await.unwrap(), all[3..6], "from there on");
    assert_eq!(store.audit(None, Some(all[7].number), 3).await.unwrap(), [], "that was the first");
    let orders = store.audit(Some("orders"), None, 2).await.unwrap();
    assert_eq!(orders, all[5..7]);
    assert_eq!(store.audit(Some("orders"), Some(orders[1].number), 2).await.unwrap(), all[7..]);
    assert_eq!(store.audit(Some("mail"), None, 100).await.unwrap().len(), 1);
    fixture.sql("update ichido_audit set by_user = null, by_host = null, reason = null where queue = 'orders'").await;
    assert_eq!(
        store.audit(Some("orders"), None, 1).await.unwrap()[0].by,
        By::default(),
        "rows from before say nothing"
    );
}
