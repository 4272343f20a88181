//! Watches an action whose transaction is open while nothing happens. A statement of the user's may take as long as it takes, but the server must
//! be at work on it: past the store's timeout another connection asks, again and again. An answer that never arrived, a session that is
//! gone and a server that says nothing at all are faults: the action is dropped, and its transaction with its connection.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as Task, Poll},
    time::{Duration, Instant},
};

use crate::{
    Error, Result, Store,
    error::Fault,
    store::{self, SessionId, SessionState},
};

/// An answer that the server sent this long before we were last awake may have been what woke us.
const SLACK: Duration = Duration::from_millis(500);

/// Whose session is to be watched, shared by who opens the transaction and who watches it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched(Arc<State>);

#[derive(Debug, Default)]
struct State {
    session: Mutex<Option<Arc<SessionId>>>,
    lost: AtomicBool,
}

impl Watched {
    /// A transaction was opened by this session, or is closed.
    pub(crate) fn note(&self, session: Option<Arc<SessionId>>) {
        *self.0.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn session(&self) -> Option<Arc<SessionId>> {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has its connection been given up? Nobody must wait for it then. Asked once.
    pub(crate) fn take_lost(&self) -> bool {
        self.0.lost.swap(false, Ordering::Relaxed)
    }
}

/// Runs something that may use the transaction, and drops it if the server is found to be silent.
pub(crate) async fn watch<S: Store, T>(
    store: &S,
    watched: &Watched,
    run: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let Some(timeout) = store.timeout() else { return run.await };
    let mut run = Awake { run: pin!(run), last: Instant::now() };
    let (mut since, mut silences) = (run.last, store.silences());
    loop {
        tokio::select! {
            biased;
            result = &mut run => return result,
            () = tokio::time::sleep(timeout.saturating_sub(since.elapsed())) => {}
        }
        if run.last > since {
            (since, silences) = (run.last, store.silences());
            continue;
        }
        since = Instant::now();
        let Some(session) = watched.session() else { continue };
        let state = tokio::select! {
            biased;
            result = &mut run => return result,
            state = ask(store, &session) => state,
        };
        let others = store.silences() != silences;
        if let Some(how) = silence::<S>(state, run.last.elapsed(), timeout, others) {
            watched.0.lost.store(true, Ordering::Relaxed);
            return Err(Error::Failed(Fault(how.into()).into()));
        }
    }
}

/// The first question may go through a connection that fell silent with the others.
async fn ask<S: Store>(store: &S, session: &SessionId) -> Result<SessionState> {
    match store::session_state(store, session).await {
        Err(error) if error.is_fault::<S>() => store::session_state(store, session).await,
        state => state,
    }
}

/// Why a session that has this state is given up; none if it may go on. An idle one may wait for an action that does something else: it is
/// given up if the action was not awake since the server answered, or if the server was silent elsewhere in the meantime.
fn silence<S: Store>(state: Result<SessionState>, asleep: Duration, timeout: Duration, others: bool) -> Option<String> {
    match state {
        Ok(SessionState::Working) => None,
        Ok(SessionState::Gone) => Some("the server has ended the session of this transaction".into()),
        Ok(SessionState::Idle(idle)) => {
            let unheard = asleep > idle + SLACK || others;
            (idle >= timeout && unheard)
                .then(|| format!("the server answered {idle:.1?} ago, and the answer did not arrive"))
        }
        Err(error) if error.is_fault::<S>() => Some(format!("the server does not answer: {error}")),
        Err(error) => {
            tracing::debug!(%error, "cannot ask the server about a session");
            None
        }
    }
}

/// A future that knows when it was last awake.
struct Awake<'a, F> {
    run: Pin<&'a mut F>,
    last: Instant,
}

impl<F: Future> Future for Awake<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let polled = self.run.as_mut().poll(task);
        self.last = Instant::now();
        polled
    }
}
