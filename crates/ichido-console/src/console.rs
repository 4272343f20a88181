//! The console itself: what it is told when it is built, and what every handler finds in it.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::DefaultBodyLimit, middleware};
use ichido::{Masks, Messages, Operate, by_hand::LaneTargets, lanes::LaneSet, store::Answers};

use crate::{
    access::{Access, Token},
    api,
    desk::{Brokers, Desk, Look, NoBrokers, OnStore},
    headers, metrics, pages,
    routes::{RouteInfo, Routes},
};

/// The console of one database. Clones are the same console; it is the state of its [`Router`].
#[derive(Clone)]
pub struct Console(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) desk: Arc<dyn Desk>,
    pub(crate) access: Access,
    pub(crate) base: String,
    pub(crate) queues: Vec<String>,
    pub(crate) lanes: Vec<LaneTargets>,
    pub(crate) settings: Settings,
    pub(crate) snapshots: pages::Snapshots,
    pub(crate) counters: metrics::Counters,
}

/// What the settings page shows, and the page of the handler queue.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// The configuration as it was read, without secrets; none if there is none.
    pub config: Option<String>,
    /// What is not as safe as it could be, in words.
    pub warnings: Vec<String>,
    /// The handler queues: the common one first, then those that actions have for themselves.
    pub chains: Vec<Chain>,
    /// A process that has sent no heartbeat for so long is considered dead.
    pub lease: Option<Duration>,
    /// How many workers each lane set has, by its name.
    pub workers: Vec<(String, usize)>,
}

/// A handler queue.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The action that has it for itself; none for the common one.
    pub action: Option<String>,
    /// Its handlers, in their order.
    pub links: Vec<ChainLink>,
}

/// A handler in its queue.
#[derive(Debug, Clone)]
pub struct ChainLink {
    /// Its name.
    pub handler: String,
    /// Where it runs: in the process or in each worker.
    pub scope: String,
    /// What it does before the rest of the queue.
    pub way_in: String,
    /// What it does after it.
    pub way_out: String,
    /// What it does with an error.
    pub on_error: String,
}

impl Console {
    /// A console of this store's database.
    pub fn builder<S: Operate + Messages + Answers>(store: S) -> Builder<S> {
        Builder {
            store,
            brokers: Arc::new(NoBrokers),
            masks: Masks::default(),
            queues: Vec::new(),
            lanes: Vec::new(),
            tokens: Vec::new(),
            base: String::new(),
            trusting: false,
            secure: false,
            settings: Settings::default(),
        }
    }

    /// All of it, to be served or mounted.
    pub fn router(&self) -> Router {
        let Routes { router, .. } = routes();
        let router = router.fallback(pages::nowhere).method_not_allowed_fallback(pages::not_allowed);
        let guarded = middleware::from_fn_with_state(self.clone(), headers::guard);
        let router = router.layer(DefaultBodyLimit::max(api::MOST_BYTES)).layer(guarded).with_state(self.clone());
        // As a service: its first page is at `/ichido` and at `/ichido/`; routes that are nested would have the former only.
        if self.0.base.is_empty() { router } else { Router::new().nest_service(&self.0.base, router) }
    }

    /// Every route, with the role that it asks for.
    #[must_use]
    pub fn routes() -> Vec<RouteInfo> {
        routes().infos
    }

    /// Where it is mounted, without a slash at the end: what every link begins with.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// The queues of the configuration.
    #[must_use]
    pub fn queues(&self) -> &[String] {
        &self.0.queues
    }

    /// The lane sets of the configuration.
    #[must_use]
    pub fn lanes(&self) -> &[LaneTargets] {
        &self.0.lanes
    }

    /// What is configured, as text.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What may be looked at by whoever may look: for handlers, [`As::look`](crate::access::As::look).
    pub(crate) fn look(&self) -> &dyn Look {
        &*self.0.desk
    }
}

fn routes() -> Routes {
    api::routes().merge(metrics::routes()).merge(pages::routes())
}

/// What a console is built from.
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<S> {
    store: S,
    brokers: Arc<dyn Brokers>,
    masks: Masks,
    queues: Vec<String>,
    lanes: Vec<LaneTargets>,
    tokens: Vec<Token>,
    base: String,
    trusting: bool,
    secure: bool,
    settings: Settings,
}

impl<S: Operate + Messages + Answers> Builder<S> {
    /// The queues that it shows and sends to.
    pub fn queues<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.queues.extend(names.into_iter().map(Into::into));
        self
    }

    /// A lane set, with the target of each of its levels.
    pub fn lanes(mut self, set: LaneSet, targets: Vec<Option<Duration>>) -> Self {
        self.lanes.push(LaneTargets { set, targets });
        self
    }

    /// What must not be seen of payloads and errors.
    pub fn mask(mut self, masks: Masks) -> Self {
        self.masks = masks;
        self
    }

    /// Somebody who may use it. Without any token, only this host itself is answered, through no proxy, and whoever asks there may do everything.
    /// From where a request comes must then be known: by [`Peer`](crate::access::Peer), or by axum's
    /// `into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn token(mut self, token: Token) -> Self {
        self.tokens.push(token);
        self
    }

    /// Without tokens, whoever reaches it may do everything, from wherever they come: the program that mounts it decides who does.
    pub fn trust_everyone(mut self) -> Self {
        self.trusting = true;
        self
    }

    /// Where the router is mounted, like `/ichido`.
    pub fn base(mut self, path: &str) -> Self {
        path.trim_end_matches('/').clone_into(&mut self.base);
        self
    }

    /// Browsers reach it over HTTPS: its cookie is never sent in the clear.
    pub fn secure(mut self, secure: bool) -> Self {
        self.secure = secure;
        self
    }

    /// The brokers of its queues, for the doctor and for what is sent.
    pub fn brokers(mut self, brokers: impl Brokers) -> Self {
        self.brokers = Arc::new(brokers);
        self
    }

    /// What the settings page shows.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The console.
    pub fn build(self) -> Console {
        let desk = OnStore::new(self.store, self.brokers, self.masks, self.queues.clone(), self.lanes.clone());
        Console(Arc::new(Inner {
            desk: Arc::new(desk),
            access: Access::new(self.tokens, self.trusting, self.secure),
            base: self.base,
            queues: self.queues,
            lanes: self.lanes,
            settings: self.settings,
            snapshots: pages::Snapshots::default(),
            counters: metrics::Counters::default(),
        }))
    }
}
