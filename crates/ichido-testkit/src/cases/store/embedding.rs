//! A process inside an application: it runs until the application says so, stops gracefully, and can be asked whether it is ready.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use ichido::{Action, CancellationToken, Context, Message, Outcome, Pool, Process, Result};
use serde::Deserialize;
use tokio::sync::{Semaphore, oneshot};

use crate::{
    eventually,
    faults::{Faults, FaultyStore, Running, Verb, one_line, orders},
    fixture::{Fixture, effect, effects, with_orders},
    in_time,
};

/// An action that waits for the test.
struct Slow<F> {
    begun: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
    fixture: PhantomData<fn() -> F>,
}

impl<F> Slow<F> {
    /// So many orders may end.
    fn new(may_end: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Slow { begun: semaphore(0), may_end: semaphore(may_end), fixture: PhantomData }
    }
}

#[derive(Deserialize)]
struct Order {}

impl<F: Fixture> Action<F::Store> for Slow<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
        self.begun.add_permits(1);
        self.may_end.acquire().await?.forget();
        let message: Message = cx.message()?.clone();
        effect::<F>(cx.tx().await?, &message).await?;
        Ok(Outcome::Done)
    }
}

/// The first of two orders is running when the application ends.
pub async fn a_process_runs_until_its_application_ends<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let slow = Slow::<F>::new(0);
    let (begun, may_end) = (slow.begun.clone(), slow.may_end.clone());
    let process = Process::new(fixture.store()).poll(Duration::from_millis(20));
    let process = process.action(Pool::new("Slow").from("orders").concurrency(1), slow);
    let probe = process.probe();
    assert!(probe.ready().is_err(), "it does not run yet");
    let (end, application) = oneshot::channel::<()>();
    let running = tokio::spawn(process.run_until(application));
    begun.acquire().await.unwrap().forget();
    assert!(probe.ready().is_ok());
    end.send(()).unwrap();
    eventually("it is not ready any more", async || probe.ready().is_err()).await;
    assert!(!running.is_finished(), "what runs is not interrupted");
    may_end.add_permits(2);
    let code = in_time("the process ends", running).await.unwrap().unwrap();
    assert_eq!((code, effects(&fixture).await), (0, 1), "the second order was not begun");
    assert_eq!(fixture.number("select count(*) from received_order where process_id is not null").await, 0);
    assert!(probe.ready().is_err());
}

pub async fn a_process_that_ends_by_itself_does_not_wait_for_its_application<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Process::new(fixture.store()).poll(Duration::from_millis(5)).drain();
    let process = process.action(Pool::new("Slow").from("orders"), Slow::<F>::new(1));
    let ended = in_time("the process ends", process.run_until(std::future::pending::<()>())).await;
    assert_eq!((ended.unwrap(), effects(&fixture).await), (0, 1));
}

pub async fn a_token_stops_what_runs_until_a_future_is_ready<F: Fixture>() {
    let fixture = F::fresh().await;
    let stop = CancellationToken::new();
    let process = Process::new(fixture.store()).stop_on(stop.clone());
    let process = process.action(Pool::new("Slow").from("orders"), Slow::<F>::new(0));
    let probe = process.probe();
    let running = tokio::spawn(process.run_until(std::future::pending::<()>()));
    eventually("it is ready", async || probe.ready().is_ok()).await;
    stop.cancel();
    assert_eq!(in_time("the process ends", running).await.unwrap().unwrap(), 0);
}

/// Its heartbeat and its workers move all the while; a claim that takes longer than the database allows is a bug of the process's own.
pub async fn a_process_whose_claimer_hangs_is_not_live<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let faults = Arc::new(Faults::default());
    faults.promise(Duration::from_millis(50));
    let store = FaultyStore::new(fixture.store(), faults.clone());
    let process = Process::new(store).lease(Duration::from_secs(1)).poll(Duration::from_millis(20));
    let process = process.action_fn(orders(), one_line::<F>);
    let probe = process.probe();
    let running = Running::start(process);
    eventually("the order is done", async || effects(&fixture).await == 1).await;
    eventually("it is live", async || probe.live()).await;
    faults.hold(Verb::Claim);
    eventually("the claimer is found", async || match probe.live() {
        Err(why) if why.contains("the claimer of queue `orders` has not moved for") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    faults.resume(Verb::Claim);
    eventually("it is live again", async || probe.live()).await;
    running.stop().await;
}
