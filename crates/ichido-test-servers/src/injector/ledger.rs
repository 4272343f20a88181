//! What all connections of an injector share: which faults are injected, the chance that decides about each, the receipts that have
//! expired, and the counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

use super::faults::{Fault, Faults};

#[derive(Debug)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Debug)]
struct Entries {
    faults: Faults,
    chance: Rng,
    expired: HashSet<String>,
    /// How often an entry has failed.
    failures: HashMap<String, u32>,
    calls: BTreeMap<String, u64>,
    injected: BTreeMap<Fault, u64>,
}

impl Ledger {
    pub(super) fn new(seed: u64) -> Self {
        let chance = Rng::with_seed(seed);
        let (faults, expired, failures) = (Faults::none(), HashSet::new(), HashMap::new());
        Self(Mutex::new(Entries {
            faults,
            chance,
            expired,
            failures,
            calls: BTreeMap::new(),
            injected: BTreeMap::new(),
        }))
    }

    pub(super) fn inject(&self, faults: Faults) {
        self.entries().faults = faults;
    }

    pub(super) fn calls(&self) -> BTreeMap<String, u64> {
        self.entries().calls.clone()
    }

    pub(super) fn forget_calls(&self) {
        self.entries().calls.clear();
    }

    pub(super) fn injected(&self) -> BTreeMap<Fault, u64> {
        self.entries().injected.clone()
    }

    pub(super) fn count_call(&self, action: &str) {
        *self.entries().calls.entry(action.to_owned()).or_default() += 1;
    }

    /// Whether the fault happens now; if so, it counts.
    pub(super) fn happens(&self, fault: Fault) -> bool {
        let mut entries = self.entries();
        let percentage = entries.faults.percentage(fault);
        let happens = entries.chance.u8(0..100) < percentage;
        if happens {
            *entries.injected.entry(fault).or_default() += 1;
        }
        happens
    }

    /// The same for an entry of a batch, which fails only so often as the faults allow.
    pub(super) fn happens_to(&self, entry: &str, fault: Fault) -> bool {
        let most = Some(self.entries().faults.times_per_entry).filter(|most| *most > 0).unwrap_or(u32::MAX);
        if self.entries().failures.get(entry).is_some_and(|failures| *failures >= most) || !self.happens(fault) {
            return false;
        }
        *self.entries().failures.entry(entry.to_owned()).or_default() += 1;
        true
    }

    pub(super) fn even(&self) -> bool {
        self.entries().chance.bool()
    }

    pub(super) fn shuffle<T>(&self, all: &mut [T]) {
        self.entries().chance.shuffle(all);
    }

    pub(super) fn expire(&self, receipt: &str) {
        self.entries().expired.insert(receipt.to_owned());
    }

    pub(super) fn has_expired(&self, receipt: &str) -> bool {
        self.entries().expired.contains(receipt)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
