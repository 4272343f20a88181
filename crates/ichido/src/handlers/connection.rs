//! `connection`: gives the rest a right to the pool. The connection itself is taken when a transaction is first used, so
//! that a worker that waits holds none; on the way out whatever is still open is rolled back and released.
//!
//! Scope: both, one for each `transaction`. In: the right. Out and on error: what is still open is rolled back and released. It
//! needs nothing before it, and `transaction` needs it in the same scope. No options.

use crate::{
    Context, Handler, Next, Outcome, Store,
    handlers::{About, Scope},
};

/// Allows the rest of the queue to take a connection from the pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Connection;

impl<S: Store> Handler<S> for Connection {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let before = std::mem::replace(&mut cx.connected, true);
        let result = next.run(cx).await;
        cx.roll_back().await;
        cx.connected = before;
        result
    }

    fn about(&self, _: Scope) -> About {
        About::new("connection", "allow a connection; taken at first use", "release it", "release it")
    }
}
