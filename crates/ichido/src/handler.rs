//! The handler queue: a list of handlers, and [`Next`], the rest of it. Each handler does something on the way in, runs
//! the rest, and does something on the way out or on an error. The whole runtime is such a list; there is no engine beside it.

use std::sync::Arc;

use crate::{BoxFuture, Context, Error, Outcome, Result, Store, handlers::Each};

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
    fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> impl Future<Output = Result<Outcome>> + Send;

    /// What `ichido check` prints about it, where it stands.
    fn about(&self, _scope: Scope) -> About {
        About::named(short_name::<Self>())
    }
}

/// A handler's line in the table that `ichido check` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// What the handler is called, also where others are put before or after it.
    pub name: &'static str,
    /// On the way in.
    pub way_in: &'static str,
    /// On the way out.
    pub way_out: &'static str,
    /// On an error.
    pub on_error: &'static str,
}

impl About {
    /// Only a name.
    #[must_use]
    pub fn named(name: &'static str) -> Self {
        About { name, ..About::default() }
    }

    /// A name, and what happens on the way in, on the way out and on an error.
    #[must_use]
    pub fn new(name: &'static str, way_in: &'static str, way_out: &'static str, on_error: &'static str) -> Self {
        About { name, way_in, way_out, on_error }
    }
}

fn short_name<T: ?Sized>() -> &'static str {
    let path = std::any::type_name::<T>();
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

/// The boxed twin of [`Handler`]; implemented for every handler, never by hand.
pub(crate) trait DynHandler<S: Store>: Send + Sync {
    fn handle<'a>(&'a self, cx: &'a mut Context<S>, next: Next<'a, S>) -> BoxFuture<'a, Result<Outcome>>;
    fn about(&self, scope: Scope) -> About;
}

impl<S: Store, H: Handler<S>> DynHandler<S> for H {
    fn handle<'a>(&'a self, cx: &'a mut Context<S>, next: Next<'a, S>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(Handler::handle(self, cx, next))
    }

    fn about(&self, scope: Scope) -> About {
        Handler::about(self, scope)
    }
}

type Links<S> = Arc<[Arc<dyn DynHandler<S>>]>;

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
    pub fn run(self, cx: &'a mut Context<S>) -> BoxFuture<'a, Result<Outcome>> {
        match self.links.get(self.at) {
            Some(handler) => handler.handle(cx, Next { links: self.links, at: self.at + 1 }),
            None if cx.one_by_one() => DynHandler::handle(&Each, cx, self),
            None => cx.run_action(),
        }
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

/// Where in the queue a handler stands: before the workers are started, or in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Once per process.
    Process,
    /// In every worker.
    Worker,
}

/// An ordered list of handlers, which users read, extend and cut.
pub struct HandlerQueue<S: Store> {
    handlers: Vec<Arc<dyn DynHandler<S>>>,
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
    /// [`Error::Setup`] if there is none; it lists those that are there.
    pub fn before(mut self, scope: Scope, name: &str, handler: impl Handler<S>) -> Result<Self> {
        let at = self.position(scope, name)?;
        self.handlers.insert(at, Arc::new(handler));
        Ok(self)
    }

    /// Puts a handler after the one with this name and scope.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is none; it lists those that are there.
    pub fn after(mut self, scope: Scope, name: &str, handler: impl Handler<S>) -> Result<Self> {
        let at = self.position(scope, name)?;
        self.handlers.insert(at + 1, Arc::new(handler));
        Ok(self)
    }

    /// Leaves the handler with this name and scope out.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is none; it lists those that are there.
    pub fn without(mut self, scope: Scope, name: &str) -> Result<Self> {
        let at = self.position(scope, name)?;
        self.handlers.remove(at);
        Ok(self)
    }

    /// Every handler in order, with its scope.
    pub fn about(&self) -> impl Iterator<Item = (Scope, About)> {
        let mut scope = Scope::Process;
        self.handlers.iter().map(move |handler| {
            let here = scope;
            let about = handler.about(here);
            if about.name == crate::handlers::CONCURRENCY {
                scope = Scope::Worker;
            }
            (here, about)
        })
    }

    /// The whole queue, to be run.
    pub(crate) fn rest(self) -> Rest<S> {
        Rest { links: self.handlers.into(), at: 0 }
    }

    fn position(&self, scope: Scope, name: &str) -> Result<usize> {
        let found = self.about().position(|(at, about)| at == scope && about.name == name);
        found.ok_or_else(|| {
            let there: Vec<_> = self.about().map(|(at, about)| format!("{} ({at:?})", about.name)).collect();
            Error::Setup(format!("no handler `{name}` in scope {scope:?}; there are: {}", there.join(", ")))
        })
    }
}
