//! How a [`Process`] runs: its handler queues are put together and checked, the request finds its action, and the exit code is what the queue
//! comes back with.

use std::{collections::BTreeMap, sync::Arc};

use super::{Process, ending::Ending};
use crate::{
    Context, Error, HandlerQueue, Outcome, Store,
    action::Request,
    error::Result,
    handlers::{self, Dispatch, Rest, Scope},
    observe::journal::Journal,
};

/// The handler queues of a process, all checked.
pub struct HandlerQueues<S: Store> {
    /// The process's.
    pub common: HandlerQueue<S>,
    /// Of the actions that have one of their own.
    pub own: BTreeMap<Arc<str>, HandlerQueue<S>>,
}

impl<S: Store> Process<S> {
    /// The handler queue as it will run, checked; then those of the actions that have one of their own.
    ///
    /// # Errors
    /// What a change to it said; [`Error::Setup`] if its order cannot work.
    pub fn handler_queues(self) -> Result<HandlerQueues<S>> {
        let dispatch = Dispatch::new(self.actions, self.brokers, self.settings.clone(), self.probe);
        let mut queue = handlers::minimal(self.retry, dispatch, &self.settings);
        if let Some(single) = self.single.clone() {
            queue = queue.after(Scope::Process, "context", single)?;
        }
        let common = self.extend.into_iter().try_fold(queue, |queue, change| change(queue))?;
        common.check()?;
        let own = self.own.into_iter().map(|(action, change)| {
            let changed = change(common.clone()).and_then(|queue| queue.check().map(|()| queue));
            let named = |error| Error::Setup(format!("actions.{action}.handlers: {error:#}"));
            changed.map_err(named).map(|queue| (action.clone(), queue))
        });
        let own = own.collect::<Result<_>>()?;
        Ok(HandlerQueues { common, own })
    }

    /// Runs all actions and returns the exit code.
    ///
    /// # Errors
    /// Only errors that no handler turned into a status, or an invalid handler queue.
    pub async fn run(self) -> Result<i32> {
        self.run_request(Request::default()).await
    }

    /// Runs what the request asks for, and returns the exit code.
    ///
    /// # Errors
    /// Only errors that no handler turned into a status, or an invalid handler queue.
    pub async fn run_request(mut self, mut request: Request) -> Result<i32> {
        self.actions.values_mut().for_each(|(pool, _)| pool.find_lanes(&self.routes));
        request.resolve(&self.paths, |name| self.actions.contains_key(name));
        let only = self.actions.keys().next().filter(|_| self.actions.len() == 1).cloned();
        let single = request.action.as_deref().map(Arc::from).or(only);
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let ending =
            Ending { store: store.clone(), clock: clock.clone(), stop: self.stop.clone(), grace: self.settings.grace };
        let settings = self.in_force.take().unwrap_or_else(|| self.described());
        let journal = Arc::new(Journal::new(self.masks.clone(), settings, clock.now()));
        let mut cx = Context::new(store, clock.clone(), std::mem::take(&mut self.stop), request, journal.clone());
        cx.state = std::mem::take(&mut self.state);
        cx.routes = std::mem::take(&mut self.routes);
        let probe = self.probe.clone();
        self.actions.values().filter_map(|(pool, _)| pool.lanes()).for_each(|set| cx.routes.add(set.clone()));
        let HandlerQueues { common, mut own } = self.handler_queues()?;
        let queue = if let Some(action) = single {
            own.remove(&action).unwrap_or(common)
        } else {
            cx.own_rests = own_rests(&common, own)?;
            common
        };
        let code = match ending.in_time(queue.rest().next().pass(&mut cx)).await {
            Ok(Outcome::Ended(code)) => Ok(code),
            Ok(_) => Ok(0),
            Err(error) => Err(error),
        };
        probe.end();
        journal.end(code.as_ref().ok().copied(), clock.now());
        code
    }

    fn described(&self) -> String {
        let actions = self.actions.values().map(|(pool, _)| pool.described()).collect::<Vec<_>>();
        format!("{:?} {:?} actions: {}", self.settings, self.retry, actions.join("; "))
    }
}

/// What each action runs after `dispatch`, when several run in one process.
fn own_rests<S: Store>(
    common: &HandlerQueue<S>,
    own: BTreeMap<Arc<str>, HandlerQueue<S>>,
) -> Result<BTreeMap<Arc<str>, Rest<S>>> {
    let rest = |(action, queue): (Arc<str>, HandlerQueue<S>)| match queue.rest_after_dispatch(common) {
        Some(rest) => Ok((action, rest)),
        None => Err(Error::Setup(format!(
            "the handlers of action {action} up to `dispatch` differ from those of the process; run it in a separate \
             process"
        ))),
    };
    own.into_iter().map(rest).collect()
}
