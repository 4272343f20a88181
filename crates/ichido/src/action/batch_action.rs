//! Business code that gets all messages of a transaction together, for actions that write many rows with one statement.

use crate::{
    BoxFuture, Context, Error, Failure, Outcome, Payload, Result, Store,
    action::{
        DynAction,
        callbacks::{Callback, call_back, callbacks},
        decode, proper,
    },
};

/// Business code for several messages at once.
///
/// It gets what one transaction is about: up to [`Pool::commit_interval`](crate::Pool::commit_interval) messages, in the
/// order in which they were claimed. When it is done, all of them are; anything else, or an error, rolls back what it wrote,
/// and then it gets each message alone. [`Context::deliveries`] tells their ids and attempts, in the same order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch action for the store `{S}`",
    label = "not a batch action",
    note = "write `impl BatchAction<{S}> for {Self} {{ type Message = …; async fn handle(&self, cx: &mut Context<{S}>, messages: Vec<…>) -> Result<Outcome> {{ … }} }}`; an action for one message at a time goes to `action` or `action_fn`"
)]
pub trait BatchAction<S: Store>: Send + Sync + 'static {
    /// The type that it reads from a message.
    type Message: Payload;

    /// Runs these messages. Everything written through `cx.tx()` is committed together with the completion of all of them.
    fn handle(&self, cx: &mut Context<S>, messages: Vec<Self::Message>)
    -> impl Future<Output = Result<Outcome>> + Send;

    callbacks!();
}

/// An action that gets all messages of a transaction.
pub(crate) struct Together<B>(pub(crate) B);

impl<S: Store, B: BatchAction<S>> DynAction<S> for Together<B> {
    fn run<'a>(&'a self, cx: &'a mut Context<S>) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            let messages = cx.deliveries().iter().map(decode).collect::<Result<_, Error>>()?;
            proper(self.0.handle(cx, messages).await?)
        })
    }

    fn call_back<'a>(&'a self, cx: &'a mut Context<S>, callback: Callback<'a>) -> BoxFuture<'a, Result<(), Error>> {
        call_back!(self.0, cx, callback)
    }

    fn takes_many(&self) -> bool {
        true
    }
}
