//! The examination of a queue's mutex rows, after its dead letters: what became of each message that has none, and what the broker has
//! ready without any row.

use std::time::Duration;

use ichido::{
    Key,
    broker::{InQueue, MutexFilter, MutexRow, RowState, Sighting, Verdict},
    by_hand::{Done, Finding},
};

use super::Exam;
use crate::{
    commands::doctor::sight::{Depths, look},
    failure::Failure,
    open::Backend,
};

/// So many rows are looked at together.
const ROWS: usize = 500;

/// Between two looks at what is ready without a row.
const AGAIN: Duration = Duration::from_secs(1);

impl<S: Backend> Exam<'_, S> {
    pub(super) async fn rows(&mut self) -> Result<(), Failure> {
        let mut after: Option<Key> = None;
        loop {
            let page = self.dead_letters.look(MutexFilter::After(after.as_ref(), ROWS)).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.key.clone());
            for row in page {
                self.row(row).await?;
            }
            self.publish().await?;
        }
    }

    async fn row(&mut self, row: MutexRow) -> Result<(), Failure> {
        self.counts.rows += 1;
        let (key, unsent) = (row.key.clone(), u64::from(matches!(row.state, RowState::Unsent(_))));
        if self.dead.contains(&key) {
            self.counts.unpublished += unsent;
            self.counts.healthy += u64::from(self.again.contains(&key) && !self.unpublished.contains(&key));
            return Ok(());
        }
        let row = self.probed(Some(row), false).await?;
        let (mut finding, sighting) = self.judge(&key, row.as_ref(), false);
        let verdict = sighting.judge().verdict;
        let Some(row) = row.filter(|_| !matches!(verdict, Verdict::Wait | Verdict::Nothing)) else {
            self.counts.unpublished += unsent;
            self.counts.healthy += 1;
            return Ok(());
        };
        if !row.kept {
            finding.verdict = Verdict::Investigate;
            finding.meaning = format!("{}; another program created its row and must publish it", finding.meaning);
        } else if self.fix.is_some() && self.act(&row).await? {
            finding.done = Some(Done::did("published again"));
            return self.tell(finding, Some((self.id(&key), false)));
        } else if self.fix.is_some() {
            finding.done = Some(Done::left_alone());
        }
        self.counts.unpublished += unsent;
        self.tell(finding, None)
    }

    /// What is ready, without any row, and stays so while consumers live.
    pub(super) async fn without_rows(&mut self) -> Result<(), Failure> {
        let suspicious =
            |depths: &Option<Depths>| depths.as_ref().is_some_and(|d| d.counted.ready > 0 && d.consumers > 0);
        if self.counts.rows > 0 || !suspicious(&self.depths) {
            return Ok(());
        }
        tokio::time::sleep(AGAIN).await;
        let again = look(self.dead_letters.kept).await?;
        if !suspicious(&again) || !self.dead_letters.look(MutexFilter::After(None, 1)).await?.is_empty() {
            return Ok(());
        }
        let old = Sighting { queue: InQueue::Old, ..self.sighting(None, false) }.judge();
        let finding = Finding::of(
            self.dead_letters.kept.name(),
            self.dead_letters.kept.name().to_owned(),
            old.meaning.to_owned(),
        );
        self.report.finding(&Finding { in_queue: "yes", verdict: old.verdict, ..finding })
    }
}
