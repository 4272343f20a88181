//! Queues that know the type of their messages: whoever sends another one, or receives with an action for another one, does not compile.
//! [`Client::to`](crate::Client::to) and [`Context::to`](crate::Context::to) send to them, [`Process::on`](crate::Process::on) and
//! [`Kinds::on`](crate::Kinds::on) receive. They are names only: [`Queue`](crate::Queue) remains the definition.

use std::{fmt, marker::PhantomData};

use crate::{NewMessage, error::Result, message::kind};

/// The name of a queue, or of a lane set, whose messages are all of one type.
///
/// ```
/// use ichido::QueueOf;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Order { id: i64 }
///
/// const ORDERS: QueueOf<Order> = QueueOf::named("orders");
/// assert_eq!(ORDERS.name(), "orders");
/// ```
pub struct QueueOf<T> {
    name: &'static str,
    message: PhantomData<fn(T) -> T>,
}

impl<T> QueueOf<T> {
    /// The queue, or the lane set, of this name.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        QueueOf { name, message: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// One kind of message in a queue that has several, each of another type. What is sent has a field that says the kind.
///
/// ```
/// use ichido::KindOf;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Created { id: i64 }
///
/// // {"kind":"created","id":1}
/// const CREATED: KindOf<Created> = KindOf::named("events", "created");
/// ```
pub struct KindOf<T> {
    queue: &'static str,
    kind: &'static str,
    field: &'static str,
    message: PhantomData<fn(T) -> T>,
}

impl<T> KindOf<T> {
    /// This kind in the queue, or the lane set, of this name; the field `kind` says it.
    #[must_use]
    pub const fn named(queue: &'static str, kind: &'static str) -> Self {
        KindOf { queue, kind, field: "kind", message: PhantomData }
    }

    /// Another field says the kind.
    #[must_use]
    pub const fn by(mut self, field: &'static str) -> Self {
        self.field = field;
        self
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// The field that says it.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }
}

/// Where messages of one type are sent to: a [`QueueOf`], or a [`KindOf`].
pub trait Destination: sealed::Sealed {
    /// The type of the messages.
    type Message;

    /// The queue, or the lane set.
    fn queue(&self) -> &'static str;

    /// The field that says the kind, and the kind.
    fn tag(&self) -> Option<Tag>;
}

/// The field that says the kind of a message, and the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The field.
    pub field: &'static str,
    /// The kind.
    pub kind: &'static str,
}

impl Tag {
    /// The payload with this kind in it.
    pub(crate) fn write(self, payload: Vec<u8>) -> Result<Vec<u8>> {
        kind::write(self.field, self.kind, payload)
    }
}

impl<T> Destination for QueueOf<T> {
    type Message = T;

    fn queue(&self) -> &'static str {
        self.name
    }

    fn tag(&self) -> Option<Tag> {
        None
    }
}

impl<T> Destination for KindOf<T> {
    type Message = T;

    fn queue(&self) -> &'static str {
        self.queue
    }

    fn tag(&self) -> Option<Tag> {
        Some(Tag { field: self.field, kind: self.kind })
    }
}

/// A message as it is sent: like this one, with this value as JSON, and its kind in it.
pub(crate) fn encode(like: &NewMessage, tag: Option<Tag>, message: &impl serde::Serialize) -> Result<NewMessage> {
    let payload = serde_json::to_vec(message)?;
    let payload = match tag {
        Some(tag) => tag.write(payload)?,
        None => payload,
    };
    Ok(NewMessage { payload, ..like.clone() })
}

// Derived, these would ask the same of `T`.
impl<T> Clone for QueueOf<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for QueueOf<T> {}

impl<T> fmt::Debug for QueueOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueueOf").field(&self.name).finish()
    }
}

impl<T> Clone for KindOf<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for KindOf<T> {}

impl<T> fmt::Debug for KindOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KindOf").field(&self.queue).field(&self.kind).finish()
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for super::QueueOf<T> {}
    impl<T> Sealed for super::KindOf<T> {}
}
