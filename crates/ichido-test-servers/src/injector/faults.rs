//! How often each fault happens: percentages, which a test sets and `ledger` asks for.

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A message that is sent to a standard queue arrives there twice: the copies have different ids of SQS, as after a send that was
    /// repeated because its answer was lost.
    SentTwice,
    /// A message that was just received can be received again at once: the same id of SQS, another receipt.
    ReceivedTwice,
    /// What is sent or received in one call comes in another order (standard queues).
    Reordered,
    /// A message that was just received can be received again at once, and its receipt is refused from then on.
    Expired,
    /// Nothing is there to be received, says the answer; the queue was not even asked.
    FalselyEmpty,
    /// An entry of a batch fails, and nothing has happened to it.
    EntryFailed,
    /// An entry of a batch fails, says the answer; it has succeeded.
    EntryFalselyFailed,
    /// A call is refused: throttled, or the service is unavailable.
    Throttled,
    /// The connection ends before the server has heard the call.
    CutBefore,
    /// The connection ends after the server has acted.
    CutAfter,
}

/// The percentage of each fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of messages: [`Fault::SentTwice`] and, as often, [`Fault::ReceivedTwice`].
    pub duplicates: u8,
    /// Of calls: [`Fault::Reordered`].
    pub reordering: u8,
    /// Of messages: [`Fault::Expired`].
    pub expiry: u8,
    /// Of receives: [`Fault::FalselyEmpty`].
    pub false_empties: u8,
    /// Of entries: [`Fault::EntryFailed`] or [`Fault::EntryFalselyFailed`].
    pub entries: u8,
    /// One entry, known by its body or its receipt, fails so often at most; 0: there is no end to it.
    pub times_per_entry: u32,
    /// Of calls: [`Fault::Throttled`].
    pub throttling: u8,
    /// Of calls: [`Fault::CutBefore`], and as many [`Fault::CutAfter`].
    pub cuts: u8,
}

impl Faults {
    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// All at a time, and every fifth message twice.
    #[must_use]
    pub fn storm() -> Self {
        Self {
            duplicates: 20,
            reordering: 50,
            expiry: 3,
            false_empties: 10,
            entries: 5,
            throttling: 5,
            cuts: 2,
            ..Self::none()
        }
    }

    pub(super) fn percentage(self, fault: Fault) -> u8 {
        match fault {
            Fault::SentTwice | Fault::ReceivedTwice => self.duplicates,
            Fault::Reordered => self.reordering,
            Fault::Expired => self.expiry,
            Fault::FalselyEmpty => self.false_empties,
            Fault::EntryFailed | Fault::EntryFalselyFailed => self.entries,
            Fault::Throttled => self.throttling,
            Fault::CutBefore | Fault::CutAfter => self.cuts,
        }
    }
}
