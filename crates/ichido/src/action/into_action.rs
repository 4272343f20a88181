//! What may stand where the type of the messages is known, after a typed queue or a kind: a type that implements [`Action`], or a plain async
//! function. One method for both is possible there: the compiler is asked for an action for one type, and can say so.

use std::marker::PhantomData;

use crate::{Action, ActionFn, Payload, Store, action::Function};

/// An action for messages of the type `T`: a type that implements [`Action`], or an async function
/// `fn(&mut Context<S>, T) -> Result<Outcome>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an action for messages of type `{T}` on the store `{S}`",
    label = "not an action for `{T}`",
    note = "pass `async fn(cx: &mut Context<{S}>, message: {T}) -> Result<Outcome>`, or a type that implements `Action<{S}>` with `type Message = {T}`"
)]
pub trait IntoAction<S: Store, T, How> {
    /// The action.
    fn into_action(self) -> impl Action<S, Message = T>;
}

/// A type is the action.
#[derive(Debug)]
pub enum ByType {}

/// A function is the action.
#[derive(Debug)]
pub enum ByFunction {}

#[diagnostic::do_not_recommend]
impl<S: Store, A: Action<S>> IntoAction<S, A::Message, ByType> for A {
    fn into_action(self) -> impl Action<S, Message = A::Message> {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<S: Store, T: Payload, F: for<'a> ActionFn<'a, S, T>> IntoAction<S, T, ByFunction> for F {
    fn into_action(self) -> impl Action<S, Message = T> {
        Function(self, PhantomData)
    }
}
