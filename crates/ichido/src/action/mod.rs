//! The business code at the end of the handler queue, and what it knows: [`Action`] for types, [`ActionFn`] for plain async functions,
//! the context, callbacks, files, and the place of its transaction. The queue calls it with a decoded message; its writes go
//! through `cx.tx()` and are committed with the message's completion. Touches the store by its verbs only.

pub(crate) mod batch;
pub(crate) mod batch_action;
pub(crate) mod callbacks;
pub(crate) mod cancellation;
pub(crate) mod context;
pub(crate) mod deadline;
pub(crate) mod files;
pub(crate) mod into_action;
pub(crate) mod kinds;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod slot;
pub mod sql;
pub(crate) mod state;
pub(crate) mod terms;
pub(crate) mod typed_send;
pub(crate) mod watch;

pub use self::{
    batch_action::BatchAction,
    cancellation::Cancellation,
    context::Context,
    into_action::{ByFunction, ByType, IntoAction},
    kinds::{KindName, Kinds, OfAnyKind},
    request::{Identity, Request},
    retry::RetryPolicy,
    terms::{CommitOn, Isolation, Terms},
    typed_send::TypedSend,
};

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::{
    BoxFuture, Delivery, Error, Failure, Outcome, Result, Store,
    action::callbacks::{Callback, call_back, callbacks},
};

/// What an action can receive: anything serde can read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a message",
    label = "the message type of this action",
    note = "add `#[derive(serde::Deserialize)]` to `{Self}`"
)]
pub trait Payload: Send + Sized + 'static {
    /// Reads the payload of a message.
    ///
    /// # Errors
    /// [`crate::Error::Undecodable`] if it is something else.
    fn decode(message: &crate::Message) -> Result<Self, Error>;
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + Send + 'static> Payload for T {
    fn decode(message: &crate::Message) -> Result<Self, Error> {
        message.decode()
    }
}

/// Business code with its own state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an action for the store `{S}`",
    label = "not an action",
    note = "write `impl Action<{S}> for {Self} {{ type Message = …; async fn handle(&self, cx: &mut Context<{S}>, message: …) -> Result<Outcome> {{ … }} }}`, or pass an async function to `action_fn`"
)]
pub trait Action<S: Store>: Send + Sync + 'static {
    /// The type that it reads from a message.
    type Message: Payload;

    /// Runs one message. Everything written through `cx.tx()` is committed together with the message's completion.
    fn handle(&self, cx: &mut Context<S>, message: Self::Message) -> impl Future<Output = Result<Outcome>> + Send;

    callbacks!();
}

/// One lifetime of an async function `fn(&mut Context<S>, T) -> Result<Outcome>`; `for<'a> ActionFn<'a, S, T>` is the function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an action for the store `{S}`",
    label = "not an action",
    note = "an action is `async fn(cx: &mut Context<{S}>, message: {T}) -> Result<Outcome>`; its future must be `Send`"
)]
pub trait ActionFn<'a, S: Store, T>: Send + Sync + 'static {
    /// What the function returns when it is called.
    type Future: Future<Output = Result<Outcome>> + Send + 'a;

    /// Calls the function.
    fn call(&self, cx: &'a mut Context<S>, message: T) -> Self::Future;
}

impl<'a, S: Store, T, F, Fut> ActionFn<'a, S, T> for F
where
    F: Fn(&'a mut Context<S>, T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome>> + Send + 'a,
{
    type Future = Fut;

    fn call(&self, cx: &'a mut Context<S>, message: T) -> Fut {
        self(cx, message)
    }
}

/// An async function as an [`Action`].
pub(crate) struct Function<F, T>(pub(crate) F, pub(crate) PhantomData<fn(T)>);

impl<S: Store, T: Payload, F> Action<S> for Function<F, T>
where
    F: for<'a> ActionFn<'a, S, T>,
{
    type Message = T;

    fn handle(&self, cx: &mut Context<S>, message: T) -> impl Future<Output = Result<Outcome>> + Send {
        self.0.call(cx, message)
    }
}

/// The boxed twin of [`Action`] and [`BatchAction`](crate::BatchAction), which decodes.
pub(crate) trait DynAction<S: Store>: Send + Sync {
    fn run<'a>(&'a self, cx: &'a mut Context<S>) -> BoxFuture<'a, Result<Outcome, Error>>;

    fn call_back<'a>(&'a self, cx: &'a mut Context<S>, callback: Callback<'a>) -> BoxFuture<'a, Result<(), Error>>;

    /// Does it take all messages of a transaction together?
    fn takes_many(&self) -> bool;
}

/// An action that gets one message at a time.
pub(crate) struct OneByOne<A>(pub(crate) A);

impl<S: Store, A: Action<S>> DynAction<S> for OneByOne<A> {
    fn run<'a>(&'a self, cx: &'a mut Context<S>) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            let message = decode(cx.delivery()?)?;
            proper(self.0.handle(cx, message).await?)
        })
    }

    fn call_back<'a>(&'a self, cx: &'a mut Context<S>, callback: Callback<'a>) -> BoxFuture<'a, Result<(), Error>> {
        call_back!(self.0, cx, callback)
    }

    fn takes_many(&self) -> bool {
        false
    }
}

/// What the action reads, unless it may not see it.
pub(crate) fn decode<T: Payload>(delivery: &Delivery) -> Result<T, Error> {
    match &delivery.refused {
        Some(why) => Err(Error::Undecodable(why.clone())),
        None => T::decode(&delivery.message),
    }
}

/// What an action may say.
pub(crate) fn proper(outcome: Outcome) -> Result<Outcome, Error> {
    match outcome {
        Outcome::Abort(code) if !(100..=199).contains(&code) => {
            Err(format!("an action cannot abort with code {code}; use 100 to 199").into())
        }
        Outcome::Stop | Outcome::Ended(_) => Err("an action must return done, retry, snooze, park or abort".into()),
        outcome => Ok(outcome),
    }
}
