//! `dispatch`: finds the actions for the request path, registers the process, opens a reader per action, and runs the rest
//! once for each, in a pool of its own. On the way out it closes the readers and deregisters, keeping the first error.
//!
//! Scope: process. In: the action (404 if there is none of that name), the heartbeat, the readers. Out and on error: readers
//! closed, what is claimed released, leave taken. It comes after `global error`, `context` and `retry`. Options: the rules of
//! `[dispatch]` ([`crate::process::Paths`]), all empty.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::DISPATCH;
use crate::{
    Context, Error, Handler, Next, Outcome, Pool, Relay, Store,
    action::{callbacks::commit_open, slot::run_to_completion},
    broker::{Brokers, Guard, relay::Relaying},
    error::Result,
    handlers::{About, Scope},
    observe::journal::named,
    process::{
        Probe, Settings,
        flags::Following,
        life::Life,
        pool::{Actions, From, PooledAction, Work},
        served::{Served, registration, retire, served},
        tasks::{spawn, spawn_in_span},
        upkeep::Upkeep,
    },
    readers::{
        DynReader, QueueReader,
        broker_reader::{BrokerReader, Receiving},
        lane_reader::{LaneReader, LevelReader},
        limited::{Allowance, Limited},
        queue_reader::{Ahead, Lookout, Reading, Share},
    },
    store,
};

/// Finds the actions for the request path.
pub struct Dispatch<S: Store> {
    actions: Actions<S>,
    brokers: Brokers,
    settings: Settings,
    probe: Probe,
}

impl<S: Store> Dispatch<S> {
    pub(crate) fn new(actions: Actions<S>, brokers: Brokers, settings: Settings, probe: Probe) -> Self {
        Dispatch { actions, brokers, settings, probe }
    }

    /// The pools that the request asks for.
    fn wanted(&self, action: Option<&str>) -> Result<Vec<&PooledAction<S>>> {
        let known = || self.actions.keys().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
        match action {
            None if self.actions.is_empty() => Err(Error::Setup("no action to run; define at least one".into())),
            None => Ok(self.actions.values().collect()),
            Some(name) => self.actions.get(name).map(|found| vec![found]).ok_or_else(|| {
                let hint = crate::handlers::suggestion(name, self.actions.keys().map(AsRef::as_ref));
                let reason = format!("no action `{name}` (known: {}){hint}", known());
                Error::Ended { status: 404, reason }
            }),
        }
    }

    /// Registers the process and starts its chores.
    async fn begin(&self, cx: &mut Context<S>, served: &[Served<'_, S>]) -> Result<(Arc<Life>, Upkeep)> {
        let mut registration = registration(cx, served, self.settings.lease)?;
        registration.relays = self.brokers.keys().cloned().collect();
        store::register(&cx.store, &registration).await?;
        let request_id = registration.title();
        tracing::info!(process_id = %registration.id, request_id, user_id = named(cx.user_id()), "process starts");
        let following = served.iter().map(|(_, following)| following.clone()).collect();
        let user_id = cx.identity.user_id.clone();
        let mut life = Life::new(registration, following, user_id, cx.journal.clone(), cx.clock.now());
        life.slots = served.iter().map(|((pool, _), _)| (pool.name.clone(), pool.workers())).collect();
        for ((pool, _), _) in served {
            pool.queues().iter().for_each(|queue| drop(life.meters.of(queue, || pool.place(queue))));
        }
        let life = Arc::new(life);
        cx.life = Some(life.clone());
        match Upkeep::start(&cx.store, life.clone(), cx.clock.clone(), &self.settings).await {
            Ok(upkeep) => Ok((life, upkeep)),
            Err(error) => {
                cx.former.push(life.id());
                Err(error)
            }
        }
    }

    /// Looks at the database before anything starts: which of the pools may?
    async fn look<'a>(
        &self,
        cx: &mut Context<S>,
        wanted: Vec<&'a PooledAction<S>>,
        stop: &CancellationToken,
    ) -> Result<Vec<Served<'a, S>>> {
        store::prepare(&cx.store).await?;
        self.free_former(cx).await?;
        served(cx, wanted, stop).await
    }

    /// What this process had before the database went away is free again before it begins anew.
    async fn free_former(&self, cx: &mut Context<S>) -> Result<()> {
        while let Some(id) = cx.former.last() {
            store::deregister(&cx.store, *id).await?;
            cx.former.pop();
        }
        Ok(())
    }

    /// How the brokers' queues among those of these pools are guarded.
    async fn guards(&self, store: &S, served: &[Served<'_, S>]) -> Result<Guards> {
        let mut guards = Guards::new();
        for queue in served.iter().flat_map(|((pool, _), _)| pool.queues()) {
            match (store::guard(store, &queue).await, self.brokers.contains_key(&queue)) {
                (guard, true) => drop(guards.insert(queue, guard?)),
                (Ok(_), false) => {
                    let text = format!("no broker configured for queue `{queue}`");
                    return Err(Error::Setup(text));
                }
                (Err(Error::Setup(_)), false) => {}
                (Err(error), false) => return Err(error),
            }
        }
        Ok(guards)
    }

    /// Publishes what was sent to the brokers that this process knows.
    fn relay(&self, cx: &Context<S>) -> Relay<S> {
        Relay::of(cx.store.clone(), self.brokers.clone(), cx.clock.clone(), self.settings.poll)
    }

    fn open(&self, cx: &Context<S>, pool: &Pool, from: &Opening<'_>) -> Arc<dyn DynReader> {
        let Settings { poll, lease, drain, .. } = self.settings;
        let (together, ahead) = (pool.commit_interval, pool.ahead());
        let slots = pool.workers().saturating_mul(together);
        let changed = Arc::new(Notify::new());
        // The levels of a lane set share what is read ahead: how much that is, the set decides.
        let grows = pool.read_ahead.is_none() && pool.lanes().is_none() && together == 1;
        let open = |queue: &Arc<str>, share: Share| -> Arc<dyn LevelReader> {
            let (queue, following, changed) = (queue.clone(), from.following.clone(), changed.clone());
            let (store, life, clock) = (cx.store.clone(), from.life.clone(), cx.clock.clone());
            if let (Some(guard), Some(broker)) = (from.guards.get(&queue), self.brokers.get(&queue)) {
                let (guard, broker, place) = (guard.clone(), broker.clone(), pool.place(&queue));
                // What is read ahead is for all levels together; each must be able to fill all slots.
                let levels = pool.queues().len().max(1);
                let prefetch = u16::try_from(slots + ahead.div_ceil(levels)).unwrap_or(u16::MAX);
                let receiving =
                    Receiving { queue, broker, guard, following, prefetch, place, poll, lease, drain, changed };
                return Arc::new(BrokerReader::open(store, life, clock, receiving));
            }
            let lookout = from.lookout.clone();
            let reading = Reading { queue, following, share, together, poll, lease, drain, changed, lookout };
            let ahead = if grows { Ahead::growing(ahead) } else { Ahead::fixed(ahead) };
            Arc::new(QueueReader::open(store, life, clock, reading, ahead))
        };
        match &pool.from {
            From::Reader(reader) => reader.clone(),
            From::Queue(queue) => open(queue, Share::of(slots + ahead)),
            From::Lanes(set) => {
                let levels = set.levels.iter().map(|level| open(&level.queue, Share::NOTHING)).collect();
                Arc::new(LaneReader::new(
                    set.clone(),
                    slots,
                    (together, ahead),
                    levels,
                    changed.clone(),
                    cx.clock.clone(),
                ))
            }
        }
    }
}

impl<S: Store> Handler<S> for Dispatch<S> {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let wanted = self.wanted(cx.request.action.as_deref())?;
        wanted.iter().try_for_each(|(pool, _)| pool.check(&cx.state).and_then(|()| cx.store.admits(&pool.terms)))?;
        // On SQLite an open transaction is the only writer, and registering would wait for it for ever.
        commit_open(cx).await?;
        let stop = cx.stop.child_token();
        let _stop_if_dropped = stop.clone().drop_guard();
        let served = self.look(cx, wanted, &stop).await;
        // What is stopped or refused does not start.
        if !matches!(&served, Err(Error::Setup(_))) && !served.as_ref().is_ok_and(Vec::is_empty) {
            cx.journal.start(cx);
        }
        let served = served?;
        if served.is_empty() {
            return Ok(Outcome::Stop);
        }
        let guards = self.guards(&cx.store, &served).await?;
        let (life, upkeep) = self.begin(cx, &served).await?;
        let allowance = self.settings.max_messages.map(Allowance::new);
        let (lookout, looking) = (Arc::new(Lookout::default()), CancellationToken::new());
        let _blind_if_dropped = looking.clone().drop_guard();
        let looks = lookout.clone().run(cx.store.clone(), cx.clock.clone(), self.settings.poll, looking);
        life.span().in_scope(|| spawn_in_span(looks));
        let works: Vec<_> = served
            .into_iter()
            .map(|((pool, action), following)| {
                let mut reader = life.span().in_scope(|| {
                    let from = Opening { following: &following, life: &life, guards: &guards, lookout: &lookout };
                    self.open(cx, pool, &from)
                });
                if let Some(allowance) = allowance.clone() {
                    reader = Arc::new(Limited { inner: reader, allowance });
                }
                Arc::new(Work { pool: pool.clone(), action: action.clone(), reader, following })
            })
            .collect();
        let hearing = CancellationToken::new();
        spawn(cx.store.wake_ups().clone().hear(cx.store.clone(), hearing.clone()));
        let _deaf_if_dropped = hearing.drop_guard();
        let relay = Relaying::start(&self.relay(cx), &life);
        let serving = self.probe.begin(life.clone(), self.settings.lease);
        let result = run_all(cx, next, &works, &stop).instrument(life.span()).await;
        drop(serving);
        let closed = close_all(&works).await;
        relay.stop().await;
        upkeep.stop().await;
        let left = deregister(cx.store.clone(), &life, self.settings.lease).await;
        if left.is_err() {
            cx.former.push(life.id());
        } else {
            tell_longest(&cx.store, &life).await;
            tell_stats(&cx.store, &life).await;
            tell_others(&cx.store, &life).await;
        }
        if let Err(error) = closed.and(left) {
            // Worth a warning, not an error.
            tracing::warn!(
                process_id = %life.id(), error = %error.in_full(),
                "could not release all messages; other processes rescue them after the lease expires"
            );
        }
        Ok(life.failed().map_or(result, Err)?)
    }

    fn about(&self, _: Scope) -> About {
        About::new(DISPATCH, "find the action for the request path", "", "")
            .only(Scope::Process)
            .once()
            .after(Scope::Process, "global error", "an unknown action would have no exit code")
            .after_any(Scope::Process, "context", "the process would register without its request id")
            .after_any(Scope::Process, "retry", "workers would restart with readers that have ended")
    }
}

/// What a reader needs of its process.
struct Opening<'a> {
    following: &'a Following,
    life: &'a Arc<Life>,
    guards: &'a Guards,
    lookout: &'a Arc<Lookout>,
}

type Guards = BTreeMap<Arc<str>, Guard>;

/// One action runs here; several run side by side, and the first that fails stops the others.
async fn run_all<S: Store>(
    cx: &mut Context<S>,
    next: Next<'_, S>,
    works: &[Arc<Work<S>>],
    stop: &CancellationToken,
) -> Result<Outcome> {
    if let [work] = works {
        let outer = std::mem::replace(&mut cx.stop, work.following.stop.clone());
        cx.work = Some(work.clone());
        cx.identity.request_id = work.following.request_id.clone();
        let result = next.pass(cx).await;
        cx.stop = outer;
        return result;
    }
    let pools: Vec<_> = works.iter().map(|work| spawn_in_span(run_one(cx, stop, work, next))).collect();
    let mut first = Ok(Outcome::Done);
    for pool in pools {
        let ended = pool.await.unwrap_or_else(|error| Err(Error::Panic(error.to_string())));
        if matches!(first, Ok(Outcome::Done | Outcome::Stop)) {
            first = ended;
        }
    }
    first
}

fn run_one<S: Store>(
    cx: &Context<S>,
    stop: &CancellationToken,
    work: &Arc<Work<S>>,
    next: Next<'_, S>,
) -> impl Future<Output = Result<Outcome>> + Send + 'static {
    let rest = cx.own_rests.get(&work.pool.name).map_or_else(|| next.detach(), |own| own.next().detach());
    let connected = cx.connected;
    let mut cx = cx.fork(work.following.stop.clone());
    cx.connected = connected;
    cx.work = Some(work.clone());
    cx.identity.request_id = work.following.request_id.clone();
    let (work, stop_others) = (work.clone(), stop.clone());
    async move {
        let result = rest.next().pass(&mut cx).await;
        if !matches!(result, Ok(Outcome::Done | Outcome::Stop)) {
            stop_others.cancel();
        }
        retire(&mut cx, &work).await;
        result
    }
}

/// Takes leave, but does not wait for ever for a server that says nothing.
async fn deregister<S: Store>(store: S, life: &Life, timeout: Duration) -> Result<()> {
    let id = life.id();
    let leaving = run_to_completion(async move { store::deregister(&store, id).await });
    tokio::time::timeout(timeout, leaving).await.unwrap_or_else(|_| Err("the database does not answer".into()))
}

/// Only a warning of `check` depends on it.
async fn tell_longest<S: Store>(store: &S, life: &Life) {
    for (queue, time) in life.untold() {
        match store::note_longest(store, &queue, time).await {
            Ok(()) => life.told(&queue, time),
            Err(error) => tracing::debug!(error = %error.in_full(), "cannot store the longest run time"),
        }
    }
}

/// The last counts: nothing is lost but what a process has counted that was killed.
async fn tell_stats<S: Store>(store: &S, life: &Life) {
    let told = async {
        let minute = store::poll(store, &life.registration()).await?.minute;
        life.flush.lock().await.run(store, life.id(), minute, &life.meters).await
    };
    if let Err(error) = told.await {
        tracing::debug!(error = %error.in_full(), "cannot store the last statistics");
    }
}

/// What was claimed and not begun is free: other processes need not wait for their next poll.
async fn tell_others<S: Store>(store: &S, life: &Life) {
    for queue in life.registration().queues.keys() {
        store.wake_ups().tell(store, queue).await;
    }
}

async fn close_all<S: Store>(works: &[Arc<Work<S>>]) -> Result<()> {
    let mut first = Ok(());
    for work in works {
        let closed = work.reader.close().await;
        first = first.and(closed);
    }
    first
}
