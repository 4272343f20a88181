//! Waking up: an idle process looks at once when something is sent, not at its next poll, which is an hour away here.

use std::time::Duration;

use ichido::{
    CancellationToken, Client, Context, Error, Outcome, Pool, Process, Result,
    store::{Database, Transactions},
};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    fixture::{Fixture, effects},
    in_time,
};

/// A process that serves `orders` and `mail`, and whose orders send mail.
struct Running {
    stop: CancellationToken,
    ended: JoinHandle<Result<i32, Error>>,
    seen: mpsc::UnboundedReceiver<String>,
}

struct Tell<F>(mpsc::UnboundedSender<String>, std::marker::PhantomData<fn() -> F>);

impl<F: Fixture> ichido::Action<F::Store> for Tell<F> {
    type Message = Value;

    async fn handle(&self, cx: &mut Context<F::Store>, message: Value) -> Result<Outcome> {
        let queue = cx.message()?.queue.clone();
        let made = cx.message()?.clone();
        crate::fixture::effect::<F>(cx.tx().await?, &made).await?;
        if &*queue == "orders" {
            cx.send("mail", &message["id"]).await?;
        }
        let _ = self.0.send(queue.to_string());
        Ok(Outcome::Done)
    }
}

impl Running {
    fn start<F: Fixture>(store: F::Store) -> Self {
        let (tell, seen) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let process = Process::new(store).poll(Duration::from_hours(1)).stop_on(stop.clone());
        let process = ["orders", "mail"].into_iter().fold(process, |process, queue| {
            process.action(Pool::new(queue), Tell::<F>(tell.clone(), std::marker::PhantomData))
        });
        Running { stop, ended: tokio::spawn(process.run()), seen }
    }

    async fn sees(&mut self, queue: &str) {
        let seen = in_time("an idle process wakes up", self.seen.recv()).await;
        assert_eq!(seen.as_deref(), Some(queue));
    }

    async fn end(self) {
        self.stop.cancel();
        assert_eq!(self.ended.await.unwrap().unwrap(), 0);
    }
}

/// An idle process, and a client of its store.
async fn idle<F: Fixture>() -> (F, F::Store, Running, Client<F::Store>) {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let running = Running::start::<F>(store.clone());
    let client = Client::new(store.clone());
    (fixture, store, running, client)
}

async fn send<F: Fixture>(client: &Client<F::Store>, store: &F::Store, queue: &str, message: Value) {
    let mut tx = store.begin().await.unwrap();
    client.queue(queue).send(F::Store::connection(&mut tx), &message).await.unwrap();
    store.commit(tx).await.unwrap();
}

pub async fn a_send_in_the_same_process_wakes_an_idle_worker<F: Fixture>() {
    let (fixture, store, mut running, client) = idle::<F>().await;
    for number in 1..=5 {
        send::<F>(&client, &store, "mail", number.into()).await;
        running.sees("mail").await;
    }
    running.end().await;
    assert_eq!(effects(&fixture).await, 5);
}

pub async fn what_an_action_sends_wakes_an_idle_worker<F: Fixture>() {
    let (fixture, store, mut running, client) = idle::<F>().await;
    for id in 1..=3 {
        send::<F>(&client, &store, "orders", serde_json::json!({ "id": id })).await;
        running.sees("orders").await;
        running.sees("mail").await;
    }
    running.end().await;
    assert_eq!(effects(&fixture).await, 6);
}

pub async fn a_send_by_another_process_of_the_host_wakes_an_idle_worker<F: Fixture>() {
    let fixture = F::fresh().await;
    let mut running = Running::start::<F>(fixture.store());
    let store = fixture.store();
    let client = Client::new(store.clone());
    for number in 1..=3 {
        send::<F>(&client, &store, "mail", number.into()).await;
        running.sees("mail").await;
    }
    running.end().await;
}

pub async fn a_message_that_is_due_wakes_an_idle_worker<F: Fixture>() {
    let (fixture, store, mut running, client) = idle::<F>().await;
    send::<F>(&client, &store, "mail", 1.into()).await;
    running.sees("mail").await;
    let mut tx = store.begin().await.unwrap();
    let soon = client.queue("mail").delay(Duration::from_millis(1));
    soon.send(F::Store::connection(&mut tx), &2).await.unwrap();
    store.commit(tx).await.unwrap();
    running.sees("mail").await;
    running.end().await;
    assert_eq!(effects(&fixture).await, 2);
}

pub async fn a_message_that_is_to_run_now_wakes_an_idle_worker<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let mut running = Running::start::<F>(fixture.store());
    let client = Client::new(store.clone());
    // It has looked, and sleeps for an hour.
    send::<F>(&client, &store, "mail", 1.into()).await;
    running.sees("mail").await;
    let later = client.queue("mail").delay(Duration::from_hours(1)).send_and_commit(&2).await.unwrap();
    assert!(client.message(&later).run_now().await.unwrap().is_yes());
    running.sees("mail").await;
    running.end().await;
    assert_eq!(effects(&fixture).await, 2);
}
