//! Many types of messages in one queue, told apart by one field: [`Kinds`] is an action that has an action for each of them. It reads the
//! field and passes the message on; the action of that kind decodes it. Callbacks around the workers reach all of them, those around
//! a message the one whose message it is.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Action, BoxFuture, Context, Error, Failure, Message, Outcome, Payload, Result, Store,
    action::{ByFunction, DynAction, IntoAction, OneByOne, callbacks::Callback},
    handlers::suggestion,
    message::{Destination, KindOf, kind},
};

/// An action for each kind of message in a queue.
///
/// ```
/// use ichido::{Context, Kinds, Outcome, Pool, Process, Result, Store};
///
/// #[derive(serde::Deserialize)]
/// struct Created { id: i64 }
///
/// #[derive(serde::Deserialize)]
/// struct Cancelled { id: i64, reason: String }
///
/// async fn created<S: Store>(cx: &mut Context<S>, message: Created) -> Result<Outcome> {
///     // …
///     Ok(Outcome::Done)
/// }
///
/// async fn cancelled<S: Store>(cx: &mut Context<S>, message: Cancelled) -> Result<Outcome> {
///     // …
///     Ok(Outcome::Done)
/// }
///
/// # fn events<S: Store>(process: Process<S>) -> Process<S> {
/// // {"kind":"created","id":1} and {"kind":"cancelled","id":1,"reason":"…"}
/// let events = Kinds::by("kind").on("created", created).on("cancelled", cancelled);
/// process.action(Pool::new("Events").from("events"), events)
/// # }
/// ```
///
/// A message of an unknown kind, or of none, is parked at once with the kinds that are known. The field is part of what an action
/// decodes; serde ignores it unless the type has it, or denies unknown fields.
pub struct Kinds<S: Store> {
    field: String,
    actions: BTreeMap<String, Arc<dyn DynAction<S>>>,
    /// The queues of its typed kinds.
    queues: Vec<&'static str>,
    /// What is wrong with it.
    misfit: Option<String>,
}

/// What names a kind: a text, or a [`KindOf`].
pub trait KindName<T> {
    /// The kind; where they are known, also its queue and the field that says it.
    fn named(self) -> (String, Option<(&'static str, &'static str)>);
}

impl<T> KindName<T> for &str {
    fn named(self) -> (String, Option<(&'static str, &'static str)>) {
        (self.to_owned(), None)
    }
}

impl<T> KindName<T> for String {
    fn named(self) -> (String, Option<(&'static str, &'static str)>) {
        (self, None)
    }
}

impl<T> KindName<T> for &KindOf<T> {
    fn named(self) -> (String, Option<(&'static str, &'static str)>) {
        (self.kind().to_owned(), Some((self.queue(), self.field())))
    }
}

impl<S: Store> Kinds<S> {
    /// Kinds by this field; of a table queue it is a column.
    #[must_use]
    pub fn by(field: impl Into<String>) -> Self {
        Kinds { field: field.into(), actions: BTreeMap::new(), queues: Vec::new(), misfit: None }
    }

    /// The action for a kind: a text or a [`KindOf`], and a type that implements [`Action`] or an async function.
    #[must_use]
    pub fn on<T, How>(mut self, kind: impl KindName<T>, action: impl IntoAction<S, T, How>) -> Self {
        let (name, place) = kind.named();
        if let Some((queue, field)) = place {
            self.queues.push(queue);
            if field != self.field {
                let by = &self.field;
                self.misfit = Some(format!("kind `{name}` is told by the field `{field}`, but these kinds by `{by}`"));
            }
        }
        let action = Arc::new(OneByOne(action.into_action()));
        if self.actions.insert(name.clone(), action).is_some() {
            self.misfit = Some(format!("kind `{name}` has two actions"));
        }
        self
    }

    /// The same for a closure that captures; see [`Process::action_closure`](crate::Process::action_closure).
    #[must_use]
    pub fn on_closure<T, F>(self, kind: impl KindName<T>, closure: F) -> Self
    where
        T: Payload,
        F: for<'a> Fn(&'a mut Context<S>, T) -> BoxFuture<'a, Result<Outcome>> + Send + Sync + 'static,
    {
        self.on::<T, ByFunction>(kind, closure)
    }

    /// The action for this message.
    fn find(&self, message: &Message) -> Result<&Arc<dyn DynAction<S>>, Error> {
        let known = || self.actions.keys().map(String::as_str);
        let listed = || known().collect::<Vec<_>>().join(", ");
        let Some(kind) = kind::read(&self.field, &message.payload)? else {
            let text = format!("no field `{}` says its kind (known: {})", self.field, listed());
            return Err(Error::Undecodable(text));
        };
        self.actions.get(&kind).ok_or_else(|| {
            let hint = suggestion(&kind, known());
            Error::Undecodable(format!("no action for the kind `{kind}` (known: {}){hint}", listed()))
        })
    }

    /// Calls back the action whose message it is; what has no kind has no callbacks.
    async fn call_back(&self, cx: &mut Context<S>, callback: Callback<'_>) -> Result<(), Error> {
        let found = self.find(cx.message()?).ok().cloned();
        match found {
            Some(action) => action.call_back(cx, callback).await,
            None => Ok(()),
        }
    }

    /// Calls back all of them; the first error is the one that counts.
    async fn call_back_all(&self, cx: &mut Context<S>, callback: Callback<'_>) -> Result<(), Error> {
        let mut first = Ok(());
        for action in self.actions.values() {
            let called = action.call_back(cx, callback).await;
            first = first.and(called);
        }
        first
    }

    /// Can it work in this pool?
    fn check(&self, cx: &Context<S>) -> Result<(), Error> {
        if let Some(misfit) = &self.misfit {
            return Err(Error::Setup(misfit.clone()));
        }
        let pool = &cx.work()?.pool;
        match self.queues.iter().find(|queue| !pool.takes_from(queue)) {
            Some(queue) => Err(Error::Setup(format!(
                "action `{}` has a kind of the queue `{queue}`, but does not take messages from it",
                pool.name
            ))),
            None => Ok(()),
        }
    }
}

/// A message of any of the kinds, not decoded yet.
#[derive(Debug)]
#[non_exhaustive]
pub struct OfAnyKind;

impl Payload for OfAnyKind {
    fn decode(_: &Message) -> Result<Self, Error> {
        Ok(OfAnyKind)
    }
}

impl<S: Store> Action<S> for Kinds<S> {
    type Message = OfAnyKind;

    async fn handle(&self, cx: &mut Context<S>, _: OfAnyKind) -> Result<Outcome> {
        let action = self.find(cx.message()?)?.clone();
        Ok(action.run(cx).await?)
    }

    async fn initialize(&self, cx: &mut Context<S>) -> Result<()> {
        self.check(cx)?;
        Ok(self.call_back_all(cx, Callback::Initialize).await?)
    }

    async fn transaction_success(&self, cx: &mut Context<S>) -> Result<()> {
        Ok(self.call_back(cx, Callback::TransactionSuccess).await?)
    }

    async fn transaction_failure(&self, cx: &mut Context<S>, error: &Error, failure: &Failure) -> Result<()> {
        Ok(self.call_back(cx, Callback::TransactionFailure(error, failure)).await?)
    }

    async fn error(&self, cx: &mut Context<S>, error: &Error) -> Result<()> {
        Ok(self.call_back_all(cx, Callback::Error(error)).await?)
    }

    async fn terminate(&self, cx: &mut Context<S>, ended: &Result<Outcome>) -> Result<()> {
        Ok(self.call_back_all(cx, Callback::Terminate(ended)).await?)
    }
}
