//! Watches an action whose transaction is open while nothing happens. A statement of the user's may take as long as it takes, but the server must
//! be at work on it: past the store's timeout another connection asks, again and again. An answer that never arrived, a session that is
//! gone and a server that says nothing at all are faults: the action is dropped, and its transaction with its connection.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as Task, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use crate::{
    Error, Store,
    error::{Fault, Result},
    store::{self, SessionId, SessionState},
};

/// An answer that the server sent this shortly after we fell asleep may be one that we were awake for.
const SLACK: Duration = Duration::from_millis(5);

/// A silence elsewhere says something about this session only if it began when the action fell asleep: within so many looks, each a
/// timeout after the other, somebody else has noticed it. One that comes later finds an action that does something else.
const NEAR: u32 = 3;

/// Whose session is to be watched, shared by who opens the transaction and who watches it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched(Arc<State>);

#[derive(Debug, Default)]
struct State {
    session: Mutex<Option<Arc<SessionId>>>,
    waits: AtomicBool,
    lost: AtomicBool,
}

/// Held by who waits for the answer to a statement in the transaction, and for nothing else.
pub(crate) struct Waits(Watched);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.0.waits.store(false, Ordering::Relaxed);
    }
}

impl Watched {
    /// A transaction was opened by this session, or is closed.
    pub(crate) fn note(&self, session: Option<Arc<SessionId>>) {
        *self.0.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn session(&self) -> Option<Arc<SessionId>> {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A statement begins whose answer is waited for.
    pub(crate) fn wait(&self) -> Waits {
        self.0.waits.store(true, Ordering::Relaxed);
        Waits(self.clone())
    }

    /// Its connection is given up: a statement that was left running on it is not waited for. Only where a session could be ended.
    pub(crate) fn give_up(&self) {
        self.0.lost.store(self.session().is_some(), Ordering::Relaxed);
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
    let run = pin!(run);
    let mut run = Awake::new(run, || store.silences());
    let (mut since, mut elsewhere) = (run.last, Elsewhere::new(run.silences));
    loop {
        tokio::select! {
            biased;
            result = &mut run => return result,
            () = tokio::time::sleep(timeout.saturating_sub(since.elapsed())) => {}
        }
        if run.last > since {
            (since, elsewhere) = (run.last, Elsewhere::new(run.silences));
            continue;
        }
        since = Instant::now();
        let Some(session) = watched.session() else { continue };
        let (last, asleep) = (run.last, run.last.elapsed());
        let state = tokio::select! {
            biased;
            result = &mut run => return result,
            // In a box, like all that is rare: each pass would have room for it.
            state = Box::pin(ask(store, &session)) => state,
        };
        if run.last > last {
            continue; // what was asked about is over
        }
        let unheard = elsewhere.look(store.silences()) || watched.0.waits.load(Ordering::Relaxed);
        if let Some(how) = silence::<S>(state, timeout, asleep, unheard) {
            watched.0.lost.store(true, Ordering::Relaxed);
            return Err(Error::Failed(Fault(how.into()).into()));
        }
    }
}

/// What is known about other connections since the action fell asleep.
struct Elsewhere {
    silences: u64,
    looks: u32,
    silent: bool,
}

impl Elsewhere {
    fn new(silences: u64) -> Self {
        Elsewhere { silences, looks: 0, silent: false }
    }

    /// Have they fallen silent at about the same time?
    fn look(&mut self, silences: u64) -> bool {
        self.looks = self.looks.saturating_add(1);
        self.silent |= self.looks <= NEAR && silences != self.silences;
        self.silent
    }
}

/// The first question may go through a connection that fell silent with the others.
async fn ask<S: Store>(store: &S, session: &SessionId) -> Result<SessionState> {
    match store::session_state(store, session).await {
        Err(error) if error.is_fault::<S>() => store::session_state(store, session).await,
        state => state,
    }
}

/// Why a session that has this state is given up; none if it may go on. An idle one may wait for an action that does something else. It is
/// given up if we know that somebody waits for it, if the action was asleep before the server answered (and still is), or if
/// the server was silent elsewhere when the action fell asleep.
fn silence<S: Store>(
    state: Result<SessionState>,
    timeout: Duration,
    asleep: Duration,
    unheard: bool,
) -> Option<String> {
    match state {
        Ok(SessionState::Working) => None,
        Ok(SessionState::Gone) => Some("the server has ended the session of this transaction".into()),
        Ok(SessionState::Idle(idle)) => {
            // Two clocks, which drift apart.
            let unheard = unheard || asleep > idle + SLACK + idle / 1000;
            (idle >= timeout && unheard)
                .then(|| format!("a statement or its answer was lost: the session has been idle for {idle:.1?}"))
        }
        Err(error) if error.is_fault::<S>() => Some(format!("the server does not answer: {error:#}")),
        Err(error) => {
            tracing::debug!(error = %error.in_full(), "cannot ask the server about a session");
            None
        }
    }
}

/// A future that knows when it was last awake, and how many silences there had been before: those since then may be its own. It is polled
/// only when somebody wakes it, not when we look at the time.
struct Awake<'a, F, N> {
    run: Pin<&'a mut F>,
    alarm: Arc<Alarm>,
    waker: Waker,
    last: Instant,
    count: N,
    silences: u64,
}

/// What wakes it, and the task that it is in.
#[derive(Default)]
struct Alarm {
    rang: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Alarm {
    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        let task = self.task().clone();
        task.iter().for_each(Waker::wake_by_ref);
    }
}

impl<'a, F, N: Fn() -> u64> Awake<'a, F, N> {
    fn new(run: Pin<&'a mut F>, count: N) -> Self {
        let alarm = Arc::new(Alarm { rang: AtomicBool::new(true), ..Alarm::default() });
        let (waker, silences) = (Waker::from(alarm.clone()), count());
        Awake { run, alarm, waker, last: Instant::now(), count, silences }
    }
}

impl<F: Future, N: Fn() -> u64 + Unpin> Future for Awake<'_, F, N> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let mut kept = this.alarm.task();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(task.waker())) {
            *kept = Some(task.waker().clone());
        }
        drop(kept);
        if !this.alarm.rang.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        this.silences = (this.count)();
        let polled = this.run.as_mut().poll(&mut Task::from_waker(&this.waker));
        this.last = Instant::now();
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn only_a_silence_from_the_same_time_counts() {
        let mut early = Elsewhere::new(7);
        assert_eq!([7, 7, 8, 8, 8].map(|silences| early.look(silences)), [false, false, true, true, true]);
        let mut late = Elsewhere::new(7);
        assert_eq!([7, 7, 7, 8, 9].map(|silences| late.look(silences)), [false; 5]);
    }

    #[tokio::test]
    async fn only_who_is_woken_is_awake() {
        let (polls, wake) = (AtomicUsize::new(0), tokio::sync::Notify::new());
        let run = pin!(async {
            let mut woken = pin!(wake.notified());
            std::future::poll_fn(|task| {
                polls.fetch_add(1, Ordering::SeqCst);
                woken.as_mut().poll(task)
            })
            .await;
        });
        let silences = AtomicUsize::new(7);
        let mut run = Awake::new(run, || silences.load(Ordering::SeqCst) as u64);
        for _ in 0..5 {
            tokio::select! {
                biased;
                () = &mut run => panic!("nobody has woken it"),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        // Noticed before anybody looks for the first time: it still came after the action fell asleep.
        silences.store(8, Ordering::SeqCst);
        assert!(Elsewhere::new(run.silences).look(8));
        let asleep = run.last;
        wake.notify_one();
        (&mut run).await;
        assert!(polls.load(Ordering::SeqCst) == 2 && run.last > asleep && run.silences == 8);
    }
}
