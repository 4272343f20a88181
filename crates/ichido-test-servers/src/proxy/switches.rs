//! What a test can switch for all connections at once. Each connection has a
//! gate, which it passes after it has read something and before it forwards
//! it: so what is sent after a switch was turned obeys that switch.

use std::future;
use std::sync::Arc;

use tokio::sync::watch;

use super::silence::{Ear, Silences};

#[derive(Clone, Copy, Debug, Default)]
struct State {
    hold: bool,
    refuse: bool,
    severed: u64,
}

/// The switches of one proxy.
#[derive(Debug, Default)]
pub(super) struct Switches {
    state: watch::Sender<State>,
    waiting: watch::Sender<u32>,
    pub(super) silences: Arc<Silences>,
}

impl Switches {
    pub(super) fn hold(&self, hold: bool) {
        self.state.send_modify(|state| state.hold = hold);
    }

    pub(super) fn refuse(&self, refuse: bool) {
        self.state.send_modify(|state| state.refuse = refuse);
    }

    pub(super) fn refuses(&self) -> bool {
        self.state.borrow().refuse
    }

    pub(super) fn sever(&self) {
        self.state.send_modify(|state| state.severed += 1);
    }

    pub(super) async fn holding(&self) {
        let mut waiting = self.waiting.subscribe();
        let found = waiting.wait_for(|waiting| *waiting > 0).await;
        found.expect("the sender is ours");
    }

    pub(super) fn gate(&self) -> Gate {
        let state = self.state.subscribe();
        let severed = state.borrow().severed;
        Gate { state, severed, waiting: self.waiting.clone(), ear: self.silences.ear() }
    }
}

/// The switches as one connection sees them.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    state: watch::Receiver<State>,
    severed: u64,
    waiting: watch::Sender<u32>,
    pub(super) ear: Ear,
}

impl Gate {
    /// Waits while connections are held, and for ever if this one is severed.
    pub(super) async fn pass(&self) {
        let born = self.severed;
        let open = move |state: &State| !state.hold && state.severed == born;
        let now = *self.state.borrow();
        if open(&now) {
            return;
        }
        let _waiting = now.hold.then(|| Waiting::new(&self.waiting));
        if self.state.clone().wait_for(open).await.is_err() {
            future::pending::<()>().await;
        }
    }

    /// Waits until this connection is severed.
    pub(super) async fn severed(&self) {
        let mut state = self.state.clone();
        let severed = state.wait_for(|state| state.severed != self.severed).await;
        // An error means that the proxy itself is gone.
        drop(severed);
    }
}

struct Waiting<'a>(&'a watch::Sender<u32>);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a watch::Sender<u32>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn passes(gate: &Gate) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(gate.pass()).poll(&mut context).is_ready()
    }

    #[test]
    fn nothing_passes_a_severed_gate_and_new_ones_are_open() {
        let switches = Switches::default();
        let old = switches.gate();
        assert!(passes(&old));
        switches.sever();
        assert!(!passes(&old));
        assert!(passes(&switches.gate()));
    }

    #[test]
    fn nothing_passes_a_held_gate_until_it_is_resumed() {
        let switches = Switches::default();
        let gate = switches.gate();
        switches.hold(true);
        assert!(!passes(&gate));
        switches.hold(false);
        assert!(passes(&gate));
    }
}
