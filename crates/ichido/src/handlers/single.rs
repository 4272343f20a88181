//! `single`: one live process per request id; a second one ends with its own exit code. Optional.
//!
//! In the process, after `context` and before `dispatch`. On the way in it asks for it; `dispatch` registers the process and
//! looks for others in one transaction, so that of two that start at the same moment one is refused. On the way out it does
//! nothing. On the error that another process is there it waits for that one's next heartbeat: who gives none is dead
//! when its lease is over, and blocks nobody. Options: `exempt` (none), request ids that several may serve, with commas between;
//! `exit` (409, which is exit code 14), the status of who is refused.

use std::{sync::Arc, time::Duration};

use crate::{
    Context, Error, Handler, Next, Outcome, Store,
    error::Result,
    handlers::{About, Options, Scope},
};

/// How often it looks for a heartbeat of the other process.
const LOOK: Duration = Duration::from_millis(250);

/// One live process per request id.
#[derive(Debug, Clone)]
pub struct Single {
    exempt: Arc<[String]>,
    exit: i32,
}

impl Default for Single {
    fn default() -> Self {
        Single { exempt: [].into(), exit: 409 }
    }
}

impl Single {
    /// Request ids that several processes may serve.
    #[must_use]
    pub fn exempt(mut self, request_ids: impl IntoIterator<Item = String>) -> Self {
        self.exempt = request_ids.into_iter().collect();
        self
    }

    /// The status of a process that is refused, instead of 409.
    #[must_use]
    pub fn exit(mut self, status: u8) -> Self {
        self.exit = status.into();
        self
    }
}

impl Single {
    pub(crate) fn from_options(options: &mut Options) -> Result<Self> {
        let exempt = options.text("exempt").unwrap_or_default();
        let single =
            Single::default().exempt(exempt.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()));
        Ok(match options.parsed("exit")? {
            Some(exit) => single.exit(exit),
            None => single,
        })
    }
}

impl<S: Store> Handler<S> for Single {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        cx.exempt = Some(self.exempt.clone());
        let mut first: Option<String> = None;
        loop {
            let (reason, heartbeat) = match next.pass(cx).await {
                Err(Error::Duplicate { reason, heartbeat }) => (reason, heartbeat),
                result => return Ok(result?),
            };
            if heartbeat.is_none() || first.is_some() && first != heartbeat {
                return Err(Error::Ended { status: self.exit, reason }.into());
            }
            if first.is_none() {
                tracing::info!("{reason}; waiting for its next heartbeat, or for its lease to expire");
            }
            first = heartbeat;
            tokio::select! {
                () = cx.stop.cancelled() => return Ok(Outcome::Stop),
                () = cx.clock.sleep(LOOK) => {}
            }
        }
    }

    fn about(&self, _: Scope) -> About {
        About::new("single", "one live process per request id", "", "another process is alive: exit")
            .only(Scope::Process)
            .after(Scope::Process, "context", "the request id would not be known yet")
    }
}
