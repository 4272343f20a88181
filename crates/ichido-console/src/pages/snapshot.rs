//! How everything is doing, as of a moment ago: read once for all pages and all browsers that are open. The slower the database answers, the
//! longer an answer is used, so that a console left open never costs it more than a small part of its time; each page says how old its counts are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ichido::by_hand::Standing;
use tokio::sync::Mutex;

use super::{
    hour::{HOUR, Hour},
    words::seconds,
};
use crate::{Problem, desk::Look};

/// An answer is used at least this long.
const LEAST: Duration = Duration::from_secs(1);

/// And at most this long.
const MOST: Duration = Duration::from_secs(30);

/// An answer is used so many times as long as it took: about a thousandth of the time is spent on reading, which is little beside what workers
/// spend.
const PART: u32 = 1000;

/// What all pages begin with.
pub(crate) struct Snapshot {
    pub(super) standing: Standing,
    pub(super) hour: Hour,
    at: Instant,
    took: Duration,
}

impl Snapshot {
    async fn take(look: &dyn Look) -> Result<Self, Problem> {
        let at = Instant::now();
        let standing = look.standing().await?;
        let hour = Hour::of(&look.stats(HOUR).await?);
        Ok(Snapshot { standing, hour, at, took: at.elapsed() })
    }

    fn is_fresh(&self) -> bool {
        self.at.elapsed() < (self.took * PART).clamp(LEAST, MOST)
    }

    /// How old it is, in words.
    pub(super) fn age(&self) -> String {
        match self.at.elapsed().as_secs() {
            0 => "just now".into(),
            age => format!("{} ago", seconds(i64::try_from(age).unwrap_or(i64::MAX))),
        }
    }
}

/// The last one.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<Option<Arc<Snapshot>>>);

impl Snapshots {
    /// The last one if it is fresh; whoever comes meanwhile waits for the next, and does not ask the database too.
    pub(super) async fn get(&self, look: &dyn Look) -> Result<Arc<Snapshot>, Problem> {
        let mut last = self.0.lock().await;
        if let Some(snapshot) = last.as_ref().filter(|snapshot| snapshot.is_fresh()) {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(Snapshot::take(look).await?);
        *last = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Something was changed: whoever did it sees it.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
