//! What keeps a process and its queues going: the heartbeat, rescue of what dead processes had, and chores. They run on an OS thread
//! with a runtime of their own, so that an action that blocks its thread does not look like a death. Each is a task with a
//! connection of its own, so that none waits for another. The heartbeat polls, and tells the other two what it saw.

mod chores;
mod heartbeat;
mod rescue;
mod returns;
mod steady;

use std::{sync::Arc, thread, time::Duration};

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::{chores::Chores, heartbeat::Heartbeat, rescue::Rescue, steady::Steady};
use crate::{
    Store,
    error::Result,
    process::{Clock, life::Life, pool::Settings, record::caught, tasks::spawn},
    store::{self, Polled},
};

/// Heartbeat, chores and rescue, each with a connection of its own.
pub(crate) const TASKS: u32 = 3;

/// What rescue and chores may take together before their connection is given up: statements have shorter limits of their own.
const LONGEST: Duration = Duration::from_mins(1);

/// The running upkeep; it ends when this is stopped or dropped.
pub(crate) struct Upkeep {
    end: CancellationToken,
    ended: oneshot::Receiver<()>,
}

impl Upkeep {
    /// Returns when upkeep has its connections: workers must not take the last one that the server admits.
    pub(crate) async fn start<S: Store>(
        store: &S,
        life: Arc<Life>,
        clock: Arc<dyn Clock>,
        settings: &Settings,
    ) -> Result<Self> {
        let end = CancellationToken::new();
        let (ending, ended) = oneshot::channel();
        let (ready, connected) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let steady = Steady::new(settings.lease, store.rescue_after(settings.lease), clock.now());
        let (store, settings, steady) = (store.clone(), settings.clone(), Arc::new(steady));
        let common = Common { store, life, clock, settings, steady, end: end.clone() };
        thread::Builder::new().name("ichido-upkeep".into()).spawn(move || {
            runtime.block_on(async move {
                let (heart, hands) = (common.store.apart(), common.store.apart());
                let pinged = async {
                    store::ping(&heart).await?;
                    store::ping(&hands).await
                };
                let _ = ready.send(pinged.await);
                common.run(heart, hands).await;
            });
            let _ = ending.send(());
        })?;
        let upkeep = Upkeep { end, ended };
        connected.await.unwrap_or_else(|_| Err("the upkeep thread ended".into()))?;
        Ok(upkeep)
    }

    pub(crate) async fn stop(mut self) {
        self.end.cancel();
        let _ = (&mut self.ended).await;
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// What the heartbeat tells the other two each time it has polled.
#[derive(Clone, Default)]
struct Pulse {
    polled: Polled,
    /// How many heartbeats were written.
    beats: u64,
}

/// What all three have in common.
#[derive(Clone)]
struct Common<S: Store> {
    /// New connections come from here.
    store: S,
    life: Arc<Life>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    steady: Arc<Steady>,
    end: CancellationToken,
}

impl<S: Store> Common<S> {
    async fn run(self, heart: S, hands: S) {
        let (tell, told) = watch::channel(Pulse::default());
        let (rescue, chores) = (self.clone(), self.clone());
        let seen = told.clone();
        let tasks = [
            spawn(self.beat(heart, tell)),
            spawn(async move {
                rescue.again("rescue", || Rescue::new(rescue.clone(), seen.clone()).run()).await;
            }),
            spawn(async move {
                chores.again("chores", || Chores::new(chores.clone(), hands.clone(), told.clone()).run()).await;
            }),
        ];
        for task in tasks {
            let _ = task.await;
        }
    }

    /// The heartbeat. Without it others take what this process has, so it does not go on then.
    async fn beat(self, heart: S, tell: watch::Sender<Pulse>) {
        let life = self.life.clone();
        let beating = Heartbeat::new(self, heart, tell).run();
        if let Err(error) = told(beating).await {
            life.span()
                .in_scope(|| tracing::error!(error = %error.in_full(), "the heartbeat panicked; the process ends"));
            life.fail(error);
        }
    }

    /// Runs a task, and again after a panic: others rely on what it does.
    async fn again<F: Future<Output = ()> + Send>(&self, what: &str, run: impl Fn() -> F + Sync) {
        while let Err(error) = told(run()).await {
            self.life.span().in_scope(|| tracing::error!(error = %error.in_full(), "{what} panicked and start again"));
            tokio::select! {
                () = self.end.cancelled() => return,
                () = self.clock.sleep(self.settings.lease / 6) => {}
            }
        }
    }

    /// How often the process polls.
    fn tick(&self) -> Duration {
        self.settings.poll.min(self.settings.lease / 3).min(self.settings.check)
    }
}

/// Runs a task; its panic is an error.
async fn told(task: impl Future<Output = ()> + Send) -> Result<()> {
    let run = async {
        task.await;
        Result::<()>::Ok(())
    };
    caught(Box::pin(run)).await
}
