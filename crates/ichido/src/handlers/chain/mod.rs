//! The handler queue: a list of handlers, and [`Next`], the rest of it. Each handler does something on the way in, runs
//! the rest, and does something on the way out or on an error. The whole runtime is such a list; there is no engine beside it.

pub(crate) mod about;
pub(crate) mod nearest;
pub(crate) mod order;
pub(crate) mod registry;

pub use self::{
    about::{About, Need, Scope},
    nearest::{nearest, suggestion},
    registry::{Entry, Options, Placement, Registry},
};

use std::sync::Arc;

use crate::{
    BoxFuture, Context, Error, Outcome, Store,
    error::Result,
    handlers::{self, Each, chain::order::Row},
};

/// One link of the handler queue.
///
/// ```
/// # use ichido::{Context, Handler, Next, Outcome, Result, Store};
/// struct Elapsed;
/// impl<S: Store> Handler<S> for Elapsed {
///     async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
///         let started = std::time::Instant::now();
///         let outcome = next.run(cx).await;
///         eprintln!("{:?}", started.elapsed());
///         outcome
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for the store `{S}`",
    label = "not a handler",
    note = "write `impl Handler<{S}> for {Self} {{ async fn handle(&self, cx: &mut Context<{S}>, next: Next<'_, {S}>) -> Result<Outcome> {{ next.run(cx).await }} }}`"
)]
pub trait Handler<S: Store>: Send + Sync + 'static {
    /// Runs the rest of the queue through `next`, or does not.
    fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> impl Future<Output = crate::Result<Outcome>> + Send;

    /// Runs before the workers start, for handlers that stand in them; again each time the process's `retry` handler starts
    /// them anew.
    fn start(&self, cx: &mut Context<S>) -> impl Future<Output = crate::Result<()>> + Send {
        let _ = cx;
        async { Ok(()) }
    }

    /// What `ichido check` prints about it where it stands, and what must come before it there.
    fn about(&self, _scope: Scope) -> About {
        About::named(short_name::<Self>())
    }
}

fn short_name<T: ?Sized>() -> &'static str {
    let path = std::any::type_name::<T>();
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

/// The boxed twin of [`Handler`]; implemented for every handler, never by hand.
pub(crate) trait DynHandler<S: Store>: Send + Sync {
    fn handle<'a>(&'a self, cx: &'a mut Context<S>, next: Next<'a, S>) -> BoxFuture<'a, crate::Result<Outcome>>;
    fn start<'a>(&'a self, cx: &'a mut Context<S>) -> BoxFuture<'a, crate::Result<()>>;
    fn about(&self, scope: Scope) -> About;
}

impl<S: Store, H: Handler<S>> DynHandler<S> for H {
    fn handle<'a>(&'a self, cx: &'a mut Context<S>, next: Next<'a, S>) -> BoxFuture<'a, crate::Result<Outcome>> {
        Box::pin(Handler::handle(self, cx, next))
    }

    fn start<'a>(&'a self, cx: &'a mut Context<S>) -> BoxFuture<'a, crate::Result<()>> {
        Box::pin(Handler::start(self, cx))
    }

    fn about(&self, scope: Scope) -> About {
        Handler::about(self, scope)
    }
}

/// A handler of any type.
pub(crate) type Link<S> = Arc<dyn DynHandler<S>>;

type Links<S> = Arc<[Link<S>]>;

/// The rest of the handler queue. `Copy`, so that `loop` and `retry` can run it again.
pub struct Next<'a, S: Store> {
    links: &'a Links<S>,
    at: usize,
}

#[expect(clippy::expl_impl_clone_on_copy, reason = "a derived one would ask for `S: Copy`")]
impl<S: Store> Clone for Next<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Store> Copy for Next<'_, S> {}

impl<'a, S: Store> Next<'a, S> {
    /// Runs the rest.
    pub fn run(self, cx: &'a mut Context<S>) -> BoxFuture<'a, crate::Result<Outcome>> {
        match self.links.get(self.at) {
            Some(handler) => handler.handle(cx, Next { links: self.links, at: self.at + 1 }),
            None if cx.one_by_one() => DynHandler::handle(&Each, cx, self),
            None => cx.run_action(),
        }
    }

    /// Runs the rest; whatever a handler returned is an [`Error`] again.
    pub(crate) async fn pass(self, cx: &'a mut Context<S>) -> Result<Outcome> {
        Ok(self.run(cx).await?)
    }

    /// Lets the handlers of the rest get ready.
    pub(crate) async fn start(self, cx: &mut Context<S>) -> Result<()> {
        for handler in &self.links[self.at..] {
            handler.start(cx).await?;
        }
        Ok(())
    }

    /// The same rest, owned, for another task.
    #[must_use]
    pub fn detach(self) -> Rest<S> {
        Rest { links: self.links.clone(), at: self.at }
    }
}

/// The rest of the handler queue, owned.
pub struct Rest<S: Store> {
    links: Links<S>,
    at: usize,
}

impl<S: Store> Rest<S> {
    /// The rest, to be run.
    #[must_use]
    pub fn next(&self) -> Next<'_, S> {
        Next { links: &self.links, at: self.at }
    }
}

/// An ordered list of handlers, which users can read, extend and shorten.
pub struct HandlerQueue<S: Store> {
    pub(crate) handlers: Vec<Link<S>>,
}

impl<S: Store> Clone for HandlerQueue<S> {
    fn clone(&self) -> Self {
        HandlerQueue { handlers: self.handlers.clone() }
    }
}

impl<S: Store> HandlerQueue<S> {
    /// A queue without handlers.
    #[must_use]
    pub fn empty() -> Self {
        HandlerQueue { handlers: Vec::new() }
    }

    /// Adds a handler at the end.
    #[must_use]
    pub fn then(mut self, handler: impl Handler<S>) -> Self {
        self.handlers.push(Arc::new(handler));
        self
    }

    /// Puts a handler before the one with this name and scope.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is none; it lists those that exist.
    pub fn before(self, scope: Scope, name: &str, handler: impl Handler<S>) -> Result<Self> {
        let at = self.position(scope, name)?;
        Ok(self.put(at, Arc::new(handler)))
    }

    /// Puts a handler after the one with this name and scope.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is none; it lists those that exist.
    pub fn after(self, scope: Scope, name: &str, handler: impl Handler<S>) -> Result<Self> {
        let at = self.position(scope, name)?;
        Ok(self.put(at + 1, Arc::new(handler)))
    }

    /// Removes the handler with this name and scope.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is none; it lists those that exist.
    pub fn without(mut self, scope: Scope, name: &str) -> Result<Self> {
        let at = self.position(scope, name)?;
        self.handlers.remove(at);
        Ok(self)
    }

    /// Every handler in order, with its scope.
    pub fn about(&self) -> impl Iterator<Item = (Scope, About)> {
        rows(&self.handlers).into_iter()
    }

    /// Can this order work?
    ///
    /// # Errors
    /// [`Error::Setup`] with the reason and the handler that should move.
    pub fn check(&self) -> Result<()> {
        let with_action = |mut rows: Vec<Row>| {
            let scope = if self.about().any(|(_, about)| about.name == handlers::CONCURRENCY) {
                Scope::Worker
            } else {
                Scope::Process
            };
            rows.push((scope, handlers::action()));
            rows
        };
        order::check(&with_action(rows(&self.handlers)), |from, to| {
            let mut moved = self.handlers.clone();
            if from < moved.len() {
                let link = moved.remove(from);
                moved.insert(to, link);
            }
            with_action(rows(&moved))
        })
    }

    pub(crate) fn put(mut self, at: usize, link: Link<S>) -> Self {
        self.handlers.insert(at, link);
        self
    }

    /// The whole queue, to be run.
    pub(crate) fn rest(self) -> Rest<S> {
        Rest { links: self.handlers.into(), at: 0 }
    }

    /// What comes after `dispatch`, if all before it is the same as in this other queue.
    pub(crate) fn rest_after_dispatch(self, common: &Self) -> Option<Rest<S>> {
        let at = 1 + self.position(Scope::Process, handlers::DISPATCH).ok()?;
        let same = self.handlers[..at].iter().zip(&common.handlers).all(|(one, other)| Arc::ptr_eq(one, other));
        same.then(|| Rest { links: self.handlers.into(), at })
    }

    pub(crate) fn position(&self, scope: Scope, name: &str) -> Result<usize> {
        let found = self.about().position(|(at, about)| at == scope && about.name == name);
        found.ok_or_else(|| {
            let there: Vec<_> = self.about().collect();
            let hint = suggestion(name, there.iter().filter(|(at, _)| *at == scope).map(|(_, about)| &*about.name));
            let list: Vec<_> = there.iter().map(|(at, about)| format!("{} ({at})", about.name)).collect();
            Error::Setup(format!("no handler `{name}` in {scope} scope (known: {}){hint}", list.join(", ")))
        })
    }
}

fn rows<S: Store>(links: &[Link<S>]) -> Vec<Row> {
    let mut scope = Scope::Process;
    let row = |link: &Link<S>| {
        let here = scope;
        let about = link.about(here);
        if about.name == handlers::CONCURRENCY {
            scope = Scope::Worker;
        }
        (here, about)
    };
    links.iter().map(row).collect()
}
