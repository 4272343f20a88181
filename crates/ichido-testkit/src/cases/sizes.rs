//! What a message passes through is moved for each message, with room for all that might happen to it: so it must be small, and what is large
//! and rare be in a box.

use ichido::{
    Context, Delivery, Handler, Next,
    action::Terms,
    handlers::{Read, Transaction},
    store::{Mutexes, Transactions},
};

use crate::fixture::Fixture;

/// How large the future is that this returns.
fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

#[allow(clippy::unused_async, reason = "a case is asynchronous")]
pub async fn what_a_message_passes_through_is_small<F: Fixture>() {
    type Tx<F> = <<F as Fixture>::Store as ichido::store::Database>::Tx;
    type Handling<F> = (&'static mut Context<<F as Fixture>::Store>, Next<'static, <F as Fixture>::Store>);
    let sizes = [
        ("begin", size(|store: &'static F::Store| store.begin_on(Terms::default())), 2560),
        (
            "complete",
            size(|(store, tx, done): (&'static F::Store, &'static mut Tx<F>, &'static [Delivery])| {
                store.complete(tx, done)
            }),
            2560,
        ),
        ("commit", size(|(store, tx): (&'static F::Store, Tx<F>)| store.commit(tx)), 1280),
        ("rollback", size(|(store, tx): (&'static F::Store, Tx<F>)| store.rollback(tx)), 1280),
        (
            "begin with the lock",
            size(|(store, delivery): (&'static F::Store, &'static Delivery)| {
                store.begin_locked(Terms::default(), delivery)
            }),
            2560,
        ),
        ("the handler `read`", size(|(cx, next): Handling<F>| Read.handle(cx, next)), 3072),
        ("the handler `transaction`", size(|(cx, next): Handling<F>| Transaction.handle(cx, next)), 3072),
    ];
    for (of, size, most) in sizes {
        assert!(size <= most, "{of}: {size} bytes, at most {most}");
    }
}
