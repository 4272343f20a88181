//! Panics of actions are caught and recorded as failures. Printed as well, they would be told twice, and nobody could mask what
//! they say; [`quiet_panics`] leaves the printing out for those, and only for those.

use std::{
    cell::{Cell, RefCell},
    sync::Once,
};

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on, a panic that ichido catches and records is not printed to stderr as well. All others still are.
pub fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CAUGHT.get() {
                PLACE.set(panic.location().map(ToString::to_string));
            } else {
                print(panic);
            }
        }));
    });
}

/// While this is there, panics of this thread are caught.
pub(crate) struct Catching(bool);

impl Catching {
    pub(crate) fn begin() -> Self {
        Catching(CAUGHT.replace(true))
    }
}

impl Drop for Catching {
    fn drop(&mut self) {
        CAUGHT.set(self.0);
    }
}

/// Where the last panic of this thread was, if it was not printed.
pub(crate) fn place() -> Option<String> {
    PLACE.take()
}
