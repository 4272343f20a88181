//! Where a test injects faults: a fresh database with orders, and a process whose store and clock are in the test's hands.

use std::{sync::Arc, time::Duration};

use ichido::{CancellationToken, Context, Error, Outcome, Pool, Process, Result, Store, testing::Dial};
use serde::Deserialize;
use tokio::task::JoinHandle;

use super::{Faults, FaultyStore};
use crate::{
    fixture::{Fixture, effect, send_orders},
    in_time,
};

/// Longer than any test: only the dial makes it pass.
pub const LEASE: Duration = Duration::from_hours(3);
/// The time between two heartbeats.
pub const HEARTBEAT: Duration = Duration::from_hours(1);

/// A fresh database with orders, and a process on it whose store fails when the test says so.
pub struct Scene<F: Fixture> {
    /// Its database.
    pub fixture: F,
    /// What goes wrong with its store.
    pub faults: Arc<Faults>,
    /// Its clock.
    pub dial: Dial,
}

impl<F: Fixture> Scene<F> {
    /// So many orders.
    pub async fn new(orders: i64) -> Self {
        let fixture = F::fresh().await;
        send_orders(&fixture, orders).await;
        Scene { fixture, faults: Arc::default(), dial: Dial::only_for(HEARTBEAT) }
    }

    /// A process on it, without an action yet.
    pub fn process(&self) -> Process<FaultyStore<F::Store>> {
        let store = FaultyStore::new(self.fixture.store(), self.faults.clone());
        Process::new(store).lease(LEASE).poll(LEASE).check(LEASE).clock(self.dial.clone())
    }

    /// Runs until nothing is unprocessed.
    pub async fn drain(&self, process: Process<FaultyStore<F::Store>>) {
        let ended = in_time("the drain ends: no message is out of circulation", process.drain().run()).await;
        assert_eq!(ended.unwrap(), 0);
    }

    /// How many orders are done.
    pub async fn done(&self) -> i64 {
        self.fixture.number("select count(*) from received_order where status = '1'").await
    }
}

/// A process that runs until it is stopped.
pub struct Running {
    stop: CancellationToken,
    ended: JoinHandle<Result<i32, Error>>,
}

impl Running {
    /// Starts it.
    pub fn start<S: Store>(process: Process<S>) -> Self {
        let stop = CancellationToken::new();
        Running { ended: tokio::spawn(process.stop_on(stop.clone()).run()), stop }
    }

    /// Stops it.
    pub async fn stop(self) {
        self.stop.cancel();
        self.ends().await;
    }

    /// Resolves when it has come to its end, with success.
    pub async fn ends(self) {
        let ended = in_time("the process ends", self.ended).await;
        assert_eq!(ended.unwrap().unwrap(), 0);
    }
}

/// What is sent.
#[derive(Deserialize)]
pub struct Order {
    /// Its key.
    pub id: i64,
}

/// One worker, one order ahead.
#[must_use]
pub fn orders() -> Pool {
    Pool::new("Failing").from("orders").concurrency(1).read_ahead(1)
}

/// An action that leaves one line in the ledger.
///
/// # Errors
/// What the database said.
pub async fn one_line<F: Fixture>(cx: &mut Context<FaultyStore<F::Store>>, _: Order) -> Result<Outcome> {
    let message = cx.message()?.clone();
    effect::<F>(cx.tx().await?, &message).await?;
    Ok(Outcome::Done)
}
