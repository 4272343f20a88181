//! The deliveries in a worker's hands. They stay here, in the context, from `read` until they are settled; a pass through
//! the rest of the handler queue looks at a window of them, so that nothing is stranded when a pass is dropped.

use std::ops::Range;

use crate::{Context, Delivery, Store, message::Mark};

#[derive(Debug, Default)]
pub(crate) struct Batch {
    all: Vec<Delivery>,
    /// Those that the transaction at hand is about.
    window: Range<usize>,
    /// The one that the action at hand is about, where it is about one.
    at: Option<usize>,
}

impl Batch {
    pub(crate) fn push(&mut self, delivery: Delivery) {
        self.all.push(delivery);
        self.look_at(0..self.all.len());
    }

    pub(crate) fn all(&self) -> &[Delivery] {
        &self.all
    }

    /// Takes all of them out.
    pub(crate) fn take(&mut self) -> Vec<Delivery> {
        std::mem::take(self).all
    }

    /// The next pass is about these.
    pub(crate) fn look_at(&mut self, window: Range<usize>) {
        self.window = window;
        self.at = None;
    }

    /// The action is about the one at this place of the window; none: about all of them.
    pub(crate) fn turn_to(&mut self, place: Option<usize>) {
        self.at = place.map(|place| self.window.start + place);
    }

    /// What the action is about: one delivery, or the window.
    pub(crate) fn in_hand(&self) -> &[Delivery] {
        let place = self.at.map_or(self.window.clone(), |at| at..at + 1);
        self.all.get(place).unwrap_or_default()
    }

    /// What is in hand begins an execution with this number.
    pub(crate) fn execute(&mut self, number: u64) {
        let place = self.at.map_or(self.window.clone(), |at| at..at + 1);
        self.all.get_mut(place).unwrap_or_default().iter_mut().for_each(|delivery| delivery.execution = number);
    }

    /// What the transaction is about.
    pub(crate) fn window(&self) -> &[Delivery] {
        self.all.get(self.window.clone()).unwrap_or_default()
    }

    pub(crate) fn window_mut(&mut self) -> &mut [Delivery] {
        self.all.get_mut(self.window.clone()).unwrap_or_default()
    }

    /// The only delivery that the transaction is about; none if there are several.
    pub(crate) fn only(&mut self) -> Option<&mut Delivery> {
        match self.window_mut() {
            [delivery] => Some(delivery),
            _ => None,
        }
    }

    /// Marks what has no mark yet, from this place on.
    pub(crate) fn mark_from(&mut self, at: usize, mark: Mark) {
        for delivery in self.all.iter_mut().skip(at).filter(|delivery| delivery.mark.is_none()) {
            delivery.mark = Some(mark);
        }
    }
}

/// The context while the action is about one delivery of several. Whoever drops us, the next pass is about all of them again: none
/// may be completed that did not run.
pub(crate) struct OnlyOne<'a, S: Store>(pub(crate) &'a mut Context<S>);

impl<'a, S: Store> OnlyOne<'a, S> {
    pub(crate) fn of(cx: &'a mut Context<S>, place: usize) -> Self {
        cx.batch.turn_to(Some(place));
        OnlyOne(cx)
    }
}

impl<S: Store> Drop for OnlyOne<'_, S> {
    fn drop(&mut self) {
        self.0.batch.turn_to(None);
    }
}
