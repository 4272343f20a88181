//! The desk of any store. What is read has a time limit; what is changed runs in a task of its own, because no future that owns a transaction may be
//! dropped, and a browser that goes away drops everything.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use ichido::{
    Due, Error, Masks, MessageId, Messages, Operate,
    by_hand::{
        self, Batch, CancelReport, Canceller, Examination, LaneTargets, Moved, ShownFailure, ShownMessage, Standing,
        Unsent,
    },
    error::Result as Done,
    inspect::{Cursor, Listed, MessagePage, Parked, ParkedFilter, QueueCounts, shape},
    lanes::Routes,
    process::{Flag, RequestState},
    stat::StatRow,
    store::{Answered, Answers, By, Cancelled},
};

use super::{
    Act, Answer, AuditPage, Brokers, CancelLine, CancelOrder, Desk, Idempotency, Look, RepairAnswer, RepairOrder,
    Searched, SendOrder, SentAnswer, USED, Which, repairs::Repairs, search,
};
use crate::{Problem, metrics};

/// No read takes longer.
const SLOWEST_READ: Duration = Duration::from_secs(20);

/// The desk of a store, in the name of whoever the store acts for.
#[derive(Clone)]
pub(crate) struct OnStore<S> {
    store: S,
    brokers: Arc<dyn Brokers>,
    masks: Masks,
    queues: Arc<[String]>,
    lanes: Arc<[LaneTargets]>,
}

impl<S: Operate + Messages + Answers> OnStore<S> {
    pub(crate) fn new(
        store: S,
        brokers: Arc<dyn Brokers>,
        masks: Masks,
        queues: Vec<String>,
        lanes: Vec<LaneTargets>,
    ) -> Self {
        OnStore { store, brokers, masks, queues: queues.into(), lanes: lanes.into() }
    }

    /// Reads, within the time limit.
    async fn read<T>(&self, asked: impl Future<Output = Done<T>> + Send) -> Result<T, Problem> {
        let Ok(answered) = tokio::time::timeout(SLOWEST_READ, asked).await else {
            let text = format!("the database did not answer within {SLOWEST_READ:?}");
            return Err(Problem::later(StatusCode::SERVICE_UNAVAILABLE, 5, text));
        };
        answered.map_err(|error| Problem::of::<S>(&error))
    }

    fn problem(error: &Error) -> Problem {
        Problem::of::<S>(error)
    }

    /// Changes something, to the end.
    fn change<T, F>(&self, change: impl FnOnce(Self) -> F) -> Answer<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        // In a box before it is a task: one type per answer, not per change.
        let change: Answer<'static, T> = Box::pin(change(self.clone()));
        let running = tokio::spawn(change);
        Box::pin(async move {
            let ended = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "it ended by a panic; the log has more");
            running.await.map_err(ended)?
        })
    }

    /// All or nothing, and once for a key: the answer is remembered in the transaction that sends.
    async fn sent(self, order: SendOrder) -> Result<SentAnswer, Problem> {
        let of = |error: Error| Self::problem(&error);
        let SendOrder { to, messages, idempotency } = order;
        let routes = Routes::new(self.lanes.iter().map(|lanes| lanes.set.clone()));
        let batch = Batch { to, routes, masks: self.masks.clone(), messages };
        self.brokers.refuse(&self.meant(&batch.to)).await?;
        self.store.prepare().await.map_err(of)?;
        if let Some(before) = self.answered(idempotency.as_ref()).await? {
            return Ok(before);
        }
        let mut tx = self.store.begin().await.map_err(of)?;
        let sent = match batch.send(&self.store, &mut tx, |_| ()).await {
            Ok(sent) => sent,
            Err(unsent) => {
                self.store.rollback(tx).await.map_err(of)?;
                // The same request, sent twice at a time, met its own row in a table.
                let before = self.answered(idempotency.as_ref()).await?;
                return match before {
                    Some(before) => Ok(before),
                    None => Err(self.unsent(&batch, unsent).await),
                };
            }
        };
        self.audited(&mut tx, &sent.ids).await?;
        let ids = sent.ids.iter().map(ToString::to_string).collect();
        let answer = SentAnswer { ids, replayed: false, unpublished: None };
        if let Some(idempotency) = &idempotency
            && !self.remembered(&mut tx, idempotency, &answer).await?
        {
            self.store.rollback(tx).await.map_err(of)?;
            let text = "another request with this Idempotency-Key was answered meanwhile; send it again";
            let before = self.answered(Some(idempotency)).await?;
            return before.ok_or_else(|| Problem::later(StatusCode::CONFLICT, 1, text));
        }
        self.store.commit(tx).await.map_err(of)?;
        for queue in &sent.queues {
            self.store.wake_ups().tell(&self.store, queue).await;
        }
        Ok(SentAnswer { unpublished: self.brokers.publish(&sent.ids).await, ..answer })
    }

    /// One entry for a request, however many messages it sends.
    async fn audited(&self, tx: &mut S::Tx, ids: &[MessageId]) -> Result<(), Problem> {
        let Some((first, others)) = ids.split_first() else { return Ok(()) };
        let detail = if others.is_empty() { String::new() } else { format!("and {} more", others.len()) };
        self.store.note_in(tx, "send", first, &detail).await.map_err(|error| Self::problem(&error))
    }

    /// What must not be seen of errors.
    fn mask(&self, found: &mut [Parked]) {
        for parked in found {
            let errors = parked.history.iter_mut().map(|failure| &mut failure.error).chain([&mut parked.error]);
            by_hand::hide(&self.masks, errors, None);
            parked.shape = shape(&parked.error);
        }
    }

    /// What was answered to the same request before.
    async fn answered(&self, idempotency: Option<&Idempotency>) -> Result<Option<SentAnswer>, Problem> {
        let Some(Idempotency { key, request }) = idempotency else { return Ok(None) };
        let found = self.store.recall_answer(key).await.map_err(|error| Self::problem(&error))?;
        let Some(found) = found else { return Ok(None) };
        if found.request != *request {
            return Err(Problem::refused(USED));
        }
        let answer: SentAnswer = serde_json::from_str(&found.answer)
            .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        Ok(Some(SentAnswer { replayed: true, ..answer }))
    }

    async fn remembered(&self, tx: &mut S::Tx, by: &Idempotency, answer: &SentAnswer) -> Result<bool, Problem> {
        let answer = serde_json::to_string(answer).unwrap_or_default();
        let answered = Answered { request: by.request.clone(), answer };
        self.store.remember_answer(tx, &by.key, &answered).await.map_err(|error| Self::problem(&error))
    }

    async fn unsent(&self, batch: &Batch, unsent: Unsent) -> Problem {
        if unsent.error.is_fault::<S>() {
            return Self::problem(&unsent.error);
        }
        Problem::refused(match batch.explain(&self.store, unsent).await {
            (Some(at), why) => format!("message {}: {why}; nothing was sent", at + 1),
            (None, why) => format!("{why}; nothing was sent"),
        })
    }

    /// The queues that a name may mean.
    fn meant(&self, to: &str) -> Vec<String> {
        match self.lanes.iter().find(|lanes| *lanes.set.name == *to) {
            Some(lanes) => lanes.set.levels.iter().map(|level| level.queue.to_string()).collect(),
            None => vec![to.to_owned()],
        }
    }

    async fn cancelled(self, order: CancelOrder) -> Result<Vec<CancelLine>, Problem> {
        let most = order.most.unwrap_or(usize::MAX);
        let canceller = Canceller { store: &self.store, dry_run: order.dry_run, wait: order.wait, most };
        let mut lines = Told { lines: Vec::new(), changed: Vec::new(), failed: Vec::new(), problem: Problem::of::<S> };
        match order.which {
            Which::These(ids) => canceller.these(ids, &mut lines).await?,
            Which::All(queue, states) => canceller.all(&queue, &states, &mut lines).await?,
        }
        if !order.dry_run {
            by_hand::wake(&self.store, &lines.changed).await;
            lines.failed.retain(|id| lines.changed.contains(id));
            // What stays among the dead letters is for the doctor, who finds it.
            let _ = self.brokers.forget(&lines.failed).await;
        }
        Ok(lines.lines)
    }

    /// The tables first, then the brokers.
    async fn examined(self, fix: bool) -> Result<Examination, Problem> {
        let of = |error: Error| Self::problem(&error);
        self.store.prepare().await.map_err(of)?;
        let found = self.brokers.examine(self.store.acts_for().clone(), fix, Examination::default()).await;
        let mut found = found?;
        for queue in self.queues.iter() {
            for finding in by_hand::orphans(&self.store, queue, fix).await.map_err(of)? {
                found.finding(&finding);
            }
        }
        Ok(found)
    }
}

/// What became of messages, one after the other.
struct Told {
    lines: Vec<CancelLine>,
    changed: Vec<MessageId>,
    /// Of these a broker may have dead letters.
    failed: Vec<MessageId>,
    problem: fn(&Error) -> Problem,
}

impl CancelReport for Told {
    type Error = Problem;

    fn tell(&mut self, id: &MessageId, result: Cancelled) -> Result<(), Problem> {
        if result.is_cancelled() {
            self.changed.push(id.clone());
        }
        self.lines.push(CancelLine { id: id.to_string(), result });
        Ok(())
    }

    fn has_failed(&mut self, id: &MessageId) {
        self.failed.push(id.clone());
    }

    fn failed(&self, error: Error) -> Problem {
        (self.problem)(&error)
    }

    fn unsure(&self, id: &MessageId, error: Error) -> Problem {
        let problem = (self.problem)(&error);
        Problem { detail: format!("whether {id} is cancelled is not known, try again: {}", problem.detail), ..problem }
    }
}

impl<S: Operate + Messages + Answers> Look for OnStore<S> {
    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(self.read(self.store.ping()))
    }

    fn standing_beside(&self, known: Vec<QueueCounts>) -> Answer<'_, Standing> {
        Box::pin(async move { self.read(Standing::beside(&self.store, &self.lanes, &known)).await })
    }

    fn stats(&self, last: Duration) -> Answer<'_, Vec<StatRow>> {
        Box::pin(self.read(self.store.stats(last.min(metrics::LONGEST))))
    }

    fn requests(&self) -> Answer<'_, Vec<RequestState>> {
        Box::pin(self.read(self.store.requests()))
    }

    fn list(
        &self,
        queues: Vec<String>,
        states: Vec<Listed>,
        after: Option<Cursor>,
        limit: usize,
    ) -> Answer<'_, MessagePage> {
        Box::pin(async move { self.read(self.store.list(&queues, &states, after, limit)).await })
    }

    fn message(&self, id: MessageId) -> Answer<'_, Option<ShownMessage>> {
        Box::pin(async move { self.read(by_hand::show_message(&self.store, &self.masks, &id)).await })
    }

    fn failed(&self, filter: ParkedFilter) -> Answer<'_, Vec<Parked>> {
        Box::pin(async move {
            let mut found = self.read(self.store.parked(&filter)).await?;
            self.mask(&mut found);
            Ok(found)
        })
    }

    fn search(&self, filter: ParkedFilter) -> Answer<'_, Searched> {
        Box::pin(async move {
            let mut found = self.read(search::search(&self.store, filter)).await?;
            self.mask(&mut found.messages);
            Ok(found)
        })
    }

    fn failure(&self, id: MessageId) -> Answer<'_, Option<ShownFailure>> {
        Box::pin(async move { self.read(by_hand::show_failure(&self.store, &self.masks, &id)).await })
    }

    fn audit(&self, queue: Option<String>, after: Option<i64>, limit: u32) -> Answer<'_, AuditPage> {
        Box::pin(async move {
            // One more than is shown tells whether there is another page.
            let mut entries = self.read(self.store.audit(queue.as_deref(), after, limit.saturating_add(1))).await?;
            let more = entries.len() > limit as usize;
            entries.truncate(limit as usize);
            let next = entries.last().filter(|_| more).map(|last| last.number.to_string());
            Ok(AuditPage { entries, next })
        })
    }

    fn warnings(&self, lease: Duration) -> Answer<'_, Vec<String>> {
        Box::pin(self.read(self.store.warnings(lease)))
    }

    fn examine(&self) -> Answer<'_, Examination> {
        self.change(|desk| desk.examined(false))
    }
}

impl<S: Operate + Messages + Answers> Act for OnStore<S> {
    fn send(&self, order: SendOrder) -> Answer<'_, SentAnswer> {
        self.change(|desk| desk.sent(order))
    }

    fn cancel(&self, order: CancelOrder) -> Answer<'_, Vec<CancelLine>> {
        self.change(|desk| desk.cancelled(order))
    }

    fn reschedule(&self, id: MessageId, due: Due) -> Answer<'_, Moved> {
        self.change(|desk| async move {
            let moved = by_hand::reschedule(&desk.store, &desk.masks, &id, due).await;
            moved.map_err(|error| Self::problem(&error))
        })
    }

    fn run_now(&self, ids: Vec<MessageId>) -> Answer<'_, Vec<Moved>> {
        self.change(|desk| async move {
            let moved = by_hand::run_now(&desk.store, &desk.masks, &ids).await;
            moved.map_err(|error| Self::problem(&error))
        })
    }

    fn repair(&self, order: RepairOrder) -> Answer<'_, RepairAnswer> {
        self.change(|desk| async move {
            let repairs = Repairs::new(&desk.store, &desk.masks, &*desk.brokers, order);
            repairs.run().await
        })
    }

    fn set_flag(&self, request_id: String, flag: Flag, on: bool) -> Answer<'_, (bool, RequestState)> {
        self.change(|desk| async move {
            let set = by_hand::set_flag(&desk.store, &request_id, flag, on).await;
            set.map_err(|error| Self::problem(&error))
        })
    }

    fn fix(&self) -> Answer<'_, Examination> {
        self.change(|desk| desk.examined(true))
    }
}

impl<S: Operate + Messages + Answers> Desk for OnStore<S> {
    fn acting(&self, by: By) -> Arc<dyn Act> {
        Arc::new(OnStore { store: self.store.by(by), ..self.clone() })
    }
}
