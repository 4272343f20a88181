//! What the parked table knows about a message: read when it is claimed, written when it fails or its process dies.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    Delivery, Key, Message,
    broker::Standing,
    inspect::{DIED_RUNNING, ParkedState},
    message::{Claim, wait_ms},
    store::{Failure, MOST_KEYS, ProcessId},
};

/// What is known about a message when it is claimed.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    failures: u32,
    suspect: bool,
}

impl Past {
    /// Reads a parked row. A message that had failed for good and is claimable was set to new by hand: attempt one.
    #[must_use]
    pub fn new(state: &str, attempts: u32, suspect: bool) -> Self {
        let by_hand = matches!(ParkedState::read(state), ParkedState::Dead | ParkedState::Discarded);
        Past { failures: if by_hand { 0 } else { attempts }, suspect: suspect && !by_hand }
    }

    /// What is known about a message whose mutex row was free; without a past, if it has none.
    #[must_use]
    pub fn standing(past: Option<&Past>) -> Standing {
        let (failures, suspect) = past.map_or((0, false), |past| (past.failures, past.suspect));
        Standing { failures, suspect, parked: past.is_some() }
    }

    /// A claimed message with its past, if it has one.
    #[must_use]
    pub fn delivery(
        past: Option<&Past>,
        message: Message,
        owner: ProcessId,
        group: Option<String>,
        payload_limit: usize,
    ) -> Delivery {
        let (parked, suspect) = (past.is_some(), past.is_some_and(|past| past.suspect));
        let claim = Claim { owner, parked, suspect, group, locked: false };
        Delivery::claimed(message, claim, past.map_or(0, |past| past.failures)).within(payload_limit)
    }
}

/// The count of snoozes since a message last failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Snoozes {
    OneMore,
    Kept,
    FromZero,
}

impl Snoozes {
    /// The count after so many.
    pub(crate) fn after(self, past: i64) -> i64 {
        match self {
            Snoozes::OneMore => past.saturating_add(1),
            Snoozes::Kept => past,
            Snoozes::FromZero => 0,
        }
    }
}

/// What is written about a message that is put aside or freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note<'a> {
    /// What it waits for.
    pub(crate) state: ParkedState,
    /// Runs that failed by themselves.
    pub(crate) attempts: u32,
    /// A process died while it had it.
    pub(crate) suspect: bool,
    /// What becomes of the count of its snoozes.
    pub(crate) snoozes: Snoozes,
    /// Until it is due.
    pub(crate) wait: Option<Duration>,
    /// Added to the history, if anything failed.
    pub(crate) error: Option<&'a str>,
}

impl<'a> Note<'a> {
    /// About a failure, or a snooze.
    pub(crate) fn failure(failure: &'a Failure) -> Self {
        let state = if failure.retry_after.is_some() { ParkedState::Waiting } else { ParkedState::Dead };
        Note {
            state,
            attempts: failure.failures,
            suspect: false,
            snoozes: if failure.is_snooze() { Snoozes::OneMore } else { Snoozes::FromZero },
            wait: failure.retry_after,
            error: (!failure.is_snooze()).then_some(&failure.error),
        }
    }

    /// About a message whose process died; `running` if it was the one that ran alone.
    pub(crate) fn suspect(attempts: u32, running: bool) -> Self {
        let snoozes = if running { Snoozes::FromZero } else { Snoozes::Kept };
        let (attempts, error) = (attempts + u32::from(running), running.then_some(DIED_RUNNING));
        Note { state: ParkedState::Released, attempts, suspect: true, snoozes, wait: None, error }
    }

    /// About a message that ran alone when its process died, for the last time.
    pub(crate) fn killer(attempts: u32) -> Self {
        let (snoozes, error) = (Snoozes::FromZero, Some(DIED_RUNNING));
        Note { state: ParkedState::Dead, attempts, suspect: false, snoozes, wait: None, error }
    }

    /// About a message that was cancelled, and whose row stays.
    pub(crate) fn cancelled(attempts: u32) -> Self {
        let state = ParkedState::Discarded;
        Note { state, attempts, suspect: false, snoozes: Snoozes::Kept, wait: None, error: None }
    }

    /// Until it is due, in milliseconds.
    pub(crate) fn wait_ms(&self) -> Option<i64> {
        self.wait.map(wait_ms)
    }
}

/// A message that a process has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// Its key.
    pub key: Key,
    /// The group that it holds.
    pub group: Option<String>,
}

/// Claimed deliveries by queue and by what their rows have as owner, as many together as a statement may be about.
#[must_use]
pub fn by_claim(deliveries: &[Delivery]) -> Vec<(&str, Option<ProcessId>, Vec<&Delivery>)> {
    let mut claims: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for delivery in deliveries {
        if let Some(claim) = &delivery.claim {
            claims.entry((&*delivery.message.queue, claim.in_row())).or_default().push(delivery);
        }
    }
    let mut together = Vec::with_capacity(claims.len());
    for ((queue, owner), claimed) in claims {
        together.extend(claimed.chunks(MOST_KEYS).map(|some| (queue, owner, some.to_vec())));
    }
    together
}

/// Deliveries of a queue and an owner, for statements about many of them; a row that is only locked has none.
#[must_use]
pub fn by_owner(deliveries: &[Delivery]) -> BTreeMap<(&str, ProcessId), Vec<Owned>> {
    let mut owners: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for delivery in deliveries {
        if let Some(claim) = delivery.claim.as_ref().filter(|claim| !claim.locked) {
            let owned = Owned { key: delivery.message.key.clone(), group: claim.group.clone() };
            owners.entry((&*delivery.message.queue, claim.owner)).or_default().push(owned);
        }
    }
    owners
}
