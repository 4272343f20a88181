//! Which pools of a process start, and as what it registers. A pool whose request id is stopped does not start; `dispatch`
//! asks before it registers, and tells when a pool was stopped while others go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    Context, Error, Store,
    error::Result,
    process::{
        flags::Following,
        pool::{PooledAction, Work},
    },
    store::{self, Registration, refuse_request_id},
};

/// A pool that is to start, and the flags that it follows.
pub(crate) type Served<'a, S> = (&'a PooledAction<S>, Following);

/// The pools that may start. `stop` stops them all.
pub(crate) async fn served<'a, S: Store>(
    cx: &mut Context<S>,
    wanted: Vec<&'a PooledAction<S>>,
    stop: &CancellationToken,
) -> Result<Vec<Served<'a, S>>> {
    let given: Option<Arc<str>> = Some(cx.identity.request_id.clone()).filter(|id| !id.is_empty());
    let follow = |(pool, _): &PooledAction<S>| Following::new(given.as_ref().unwrap_or(&pool.name).clone(), stop);
    let mut served: Vec<_> = wanted.into_iter().map(|action| (action, follow(action))).collect();
    for (_, following) in &served {
        refuse_request_id(&following.request_id).map_err(|error| Error::Setup(error.to_string()))?;
    }
    let mut flags = store::poll(&cx.store, &registration(cx, &served, Duration::ZERO)?).await?.flags;
    served.retain(|(_, following)| {
        let flags = flags.remove(&*following.request_id).unwrap_or_default();
        if flags.stopped {
            let id = &following.request_id;
            tracing::warn!("`{id}` is stopped and does not start; `ichido unstop {id}` allows it again");
        } else {
            following.see(flags);
        }
        !flags.stopped
    });
    Ok(served)
}

/// What the process tells about itself.
pub(crate) fn registration<S: Store>(
    cx: &Context<S>,
    served: &[Served<'_, S>],
    lease: Duration,
) -> Result<Registration> {
    let (mut queues, mut slots) = (BTreeMap::new(), BTreeMap::new());
    for ((pool, _), _) in served {
        for queue in pool.queues() {
            if queues.insert(queue.clone(), pool.retry.attempts).is_some() {
                return Err(Error::Setup(format!(
                    "two actions take messages from the queue `{queue}`; run them in separate processes"
                )));
            }
            slots.insert(queue.clone(), pool.slots_of(&queue));
        }
    }
    let request_ids: BTreeSet<_> = served.iter().map(|(_, following)| following.request_id.clone()).collect();
    let mut registration = Registration::of(request_ids.clone(), lease, queues);
    registration.slots = slots;
    if let Some(exempt) = &cx.exempt {
        let alone = request_ids.into_iter().filter(|id| !exempt.iter().any(|exempt| **exempt == **id));
        registration.alone = alone.collect();
    }
    Ok(registration)
}

/// A pool was stopped while others of its process go on: from now on nobody takes it for one that serves its request id.
pub(crate) async fn retire<S: Store>(cx: &mut Context<S>, work: &Work<S>) {
    let (Some(life), true) = (&cx.life, work.following.is_stopped()) else { return };
    let request_id = &work.following.request_id;
    life.retire(request_id, &work.pool.queues());
    if let Err(error) = store::quit(&cx.store, life.id(), request_id).await {
        tracing::warn!(error = %error.in_full(), "cannot record that this process no longer serves `{request_id}`");
    }
}
