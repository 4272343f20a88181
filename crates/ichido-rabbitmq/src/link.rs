//! One connection, made again when it is lost. A publisher and a source each have one of their own, so that a broker that
//! blocks publishers goes on delivering. lapin's own recovery is not used: it would keep channels, and with them delivery
//! tags, over a loss.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_core::Stream;
use lapin::{Connection, Event};
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};

use crate::{Result, Server};

/// After a first failure.
const SHORTEST: Duration = Duration::from_millis(100);

/// However often it has failed.
const LONGEST: Duration = Duration::from_secs(5);

/// How long a connection that is given up may take to end.
const GOODBYE: Duration = Duration::from_secs(5);

/// How long a connection that may be dead has to answer a question.
const ANSWER: Duration = Duration::from_secs(5);

/// How a connection to the broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It is there.
    Connected,
    /// It is not there, and nobody has needed it since it was.
    Idle,
    /// It is there, and the broker takes no messages on it (`connection.blocked`); the text is the broker's reason.
    Blocked(String),
    /// It is not there, and could not be made; the text says why.
    Away(String),
}

/// A connection that comes back.
#[derive(Debug)]
pub(crate) struct Link {
    broker: Server,
    name: &'static str,
    slot: Arc<Mutex<Slot>>,
    state: Arc<watch::Sender<State>>,
    /// Of the current connection: an earlier one may still have something to say.
    number: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Slot {
    current: Option<Arc<Connection>>,
    pace: Pace,
}

impl Link {
    pub(crate) fn new(broker: Server, name: &'static str) -> Self {
        let state = watch::Sender::new(State::Idle);
        Self { broker, name, slot: Arc::default(), state: Arc::new(state), number: Arc::default() }
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The connection; made first if there is none, after a pause if that has failed lately.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>> {
        let mut slot = self.slot.lock().await;
        if let Some(current) = &slot.current
            && current.status().connected()
        {
            return Ok(Arc::clone(current));
        }
        if slot.current.take().is_some() {
            // Where one was lost, another may not be had.
            self.broker.move_on();
        }
        tokio::time::sleep_until(slot.pace.next.into()).await;
        match self.broker.connect(self.name).await {
            Ok(connection) => {
                self.follow(&connection);
                Ok(Arc::clone(slot.current.insert(Arc::new(connection))))
            }
            Err(error) => {
                // Once is enough: it is tried again all the time.
                if slot.pace.is_new() {
                    tracing::warn!(%error, "{}: cannot connect; retrying", self.name);
                } else {
                    tracing::debug!(%error, "{}: still cannot connect", self.name);
                }
                slot.pace.failed();
                self.state.send_replace(State::Away(error.to_string()));
                Err(error)
            }
        }
    }

    /// Waits while the broker takes no messages.
    pub(crate) async fn unblocked(&self) {
        let mut state = self.state.subscribe();
        let found = state.wait_for(|state| !matches!(state, State::Blocked(_))).await.map(drop);
        found.expect("the sender is ours");
    }

    /// What was wanted of the connection has worked: the next loss is a first one.
    pub(crate) fn worked(&self) {
        // Whoever has it is about to make another connection: nobody waits for that.
        if let Ok(mut slot) = self.slot.try_lock() {
            slot.pace = Pace::default();
        }
    }

    /// An answer did not come in time over this connection, or the one that is there: it is asked something that every broker answers.
    /// If that is not answered either, nobody gets it any more. A broker that takes no messages is silent for a reason.
    pub(crate) fn doubt(&self, connection: Option<&Arc<Connection>>) {
        if matches!(self.state(), State::Blocked(_)) {
            return;
        }
        let (slot, state, asked) = (Arc::clone(&self.slot), Arc::clone(&self.state), connection.cloned());
        let (name, number) = (self.name, Arc::clone(&self.number));
        tokio::spawn(async move {
            let Some(asked) = (match asked {
                Some(asked) => Some(asked),
                None => slot.lock().await.current.clone(),
            }) else {
                return;
            };
            // Refused or not: it has answered.
            if timeout(ANSWER, asked.create_channel()).await.is_ok() {
                return;
            }
            let mut slot = slot.lock().await;
            if slot.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &asked)) {
                tracing::warn!("{name}: the broker does not answer; connecting again");
                slot.current = None;
                number.fetch_add(1, Ordering::Relaxed);
                state.send_replace(State::Away(format!("no answer from the broker within {ANSWER:?}")));
                drop(slot);
                let _ = timeout(GOODBYE, asked.close(200, "".into())).await;
            }
        });
    }

    /// Lets go of the connection: the next one to ask gets a new one, after a pause.
    pub(crate) async fn give_up(&self, why: &str) {
        let mut slot = self.slot.lock().await;
        slot.pace.failed();
        self.number.fetch_add(1, Ordering::Relaxed);
        self.state.send_replace(State::Away(why.to_owned()));
        if let Some(connection) = slot.current.take() {
            self.broker.move_on();
            // In a task of its own: one that is lost may take its time to say so.
            tokio::spawn(async move { timeout(GOODBYE, connection.close(200, "".into())).await });
        }
    }

    /// Closes the connection, if there is one: what the broker has handed out through it goes back.
    pub(crate) async fn close(&self) {
        // What is heard of it from now on is no loss.
        self.number.fetch_add(1, Ordering::Relaxed);
        if let Some(connection) = self.slot.lock().await.current.take() {
            let _ = timeout(GOODBYE, connection.close(200, "".into())).await;
        }
    }

    /// Tells what happens to a connection, as long as it is the current one. One that is lost is no trouble yet: whoever needs it
    /// next makes another.
    fn follow(&self, connection: &Connection) {
        let (state, name, events) = (Arc::clone(&self.state), self.name, connection.events_listener());
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let current = Arc::clone(&self.number);
        let tell = move |now: State| {
            state.send_if_modified(|state| {
                let is_current = current.load(Ordering::Relaxed) == number;
                if is_current {
                    *state = now;
                }
                is_current
            })
        };
        tell(State::Connected);
        tokio::spawn(async move {
            let mut events = pin!(events);
            while let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await {
                match event {
                    Event::ConnectionBlocked(reason) => {
                        tracing::warn!(reason, "{name}: the broker accepts no messages");
                        tell(State::Blocked(reason));
                    }
                    Event::ConnectionUnblocked => {
                        tracing::info!("{name}: the broker accepts messages again");
                        tell(State::Connected);
                    }
                    Event::Error(error) => {
                        // One that we have given up or closed ends as it should.
                        if tell(State::Idle) {
                            tracing::warn!(%error, "{name}: connection lost");
                        }
                        return;
                    }
                    _ => {}
                }
            }
            tell(State::Idle);
        });
    }
}

/// Whoever drops it has ended: its connection is closed, and not lost.
impl Drop for Link {
    fn drop(&mut self) {
        self.number.fetch_add(1, Ordering::Relaxed);
    }
}

/// When to try again: later each time, and never all processes at once.
#[derive(Debug)]
pub(crate) struct Pace {
    pause: Duration,
    pub(crate) next: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pause: SHORTEST, next: Instant::now() }
    }
}

impl Pace {
    fn is_new(&self) -> bool {
        self.pause == SHORTEST
    }

    pub(crate) fn failed(&mut self) {
        self.next = Instant::now() + self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_differ() {
        let pauses: Vec<Vec<Duration>> = (0..2)
            .map(|_| {
                let mut pace = Pace::default();
                let pause = |_| {
                    pace.failed();
                    pace.next - Instant::now()
                };
                (0..20).map(pause).collect()
            })
            .collect();
        assert!(pauses[0][0] <= SHORTEST && pauses[0][19] <= LONGEST);
        assert!(pauses[0][19] > LONGEST / 3);
        assert_ne!(pauses[0], pauses[1]);
    }
}
