//! All messages of a queue that are in a state: how many they are, before they are cancelled, and what became of them.

use askama::Template;
use axum::response::Response;
use ichido::{
    BoxFuture,
    inspect::{Listed, QueueCounts},
    store::Cancellable,
};

use super::{
    acts::{WAIT, cancelled as told, reason},
    concern::encoded,
    failed::AT_ONCE,
    problem,
    visit::{Frame, Visit, go_on, rendered},
    words::{counted, grouped},
};
use crate::{
    Problem,
    access::{As, CheckedForm, Operate},
    desk::{CancelOrder, Which},
    fields::Fields,
    known,
};

/// So many of them are named.
const NAMED: usize = 10;

#[derive(Template)]
#[template(path = "cancel.html")]
struct CancelPage {
    frame: Frame,
    queue: String,
    state: &'static str,
    /// Nobody has to click for nothing.
    none: bool,
    count: String,
    bound: Option<String>,
    first: Vec<String>,
}

/// The queue and the state that are meant.
fn asked(fields: &Fields) -> Result<(String, Listed), Problem> {
    let state = fields.parsed("state", "ready, claimed, waiting or failed")?;
    let state = state.ok_or_else(|| Problem::bad("`state` must be ready, claimed, waiting or failed"))?;
    Ok((fields.name("name")?.unwrap_or_default(), state))
}

fn count(counts: &QueueCounts, state: Listed) -> i64 {
    match state {
        Listed::Ready => counts.ready,
        Listed::Claimed => counts.claimed,
        Listed::Waiting => counts.waiting,
        Listed::Failed => counts.failed,
    }
}

/// What would be cancelled.
pub(super) fn cancel(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let (queue, state) = asked(&visit.fields)?;
        let snapshot = visit.snapshot().await?;
        let counts = snapshot.standing.overview.queues.iter().find(|counts| counts.queue == queue);
        let counts =
            counts.ok_or_else(|| Problem::nowhere(format!("there is no queue `{queue}` in the configuration")))?;
        let found = visit.look().list(vec![queue.clone()], vec![state], None, NAMED).await?;
        let all = count(counts, state);
        let first: Vec<_> = found.messages.into_iter().map(|message| message.id).collect();
        Ok(rendered(&CancelPage {
            frame: visit.frame("/queues", &snapshot),
            state: state.state().as_str(),
            none: first.is_empty(),
            count: counted(all),
            bound: (all > i64::from(AT_ONCE)).then(|| grouped(AT_ONCE.into())),
            first,
            queue,
        }))
    })
}

/// Cancels them.
pub(super) async fn cancelled(who: As<Operate>, CheckedForm(form): CheckedForm) -> Response {
    let console = who.console();
    let done = async {
        let (queue, state) = asked(&form)?;
        known::queue(console, &queue)?;
        let back = format!("/queue?name={}&state={}", encoded(&queue), state.state().as_str());
        let which = Which::All(queue, vec![cancellable(state)]);
        let order = CancelOrder { which, dry_run: false, wait: WAIT, most: Some(AT_ONCE as usize) };
        let lines = who.act(reason(&form)?).cancel(order).await?;
        let mut flash = told(&lines);
        if lines.len() >= AT_ONCE as usize {
            flash.text.push_str(" There may be more.");
        }
        Ok((back, flash))
    };
    let done = done.await;
    console.0.snapshots.forget().await;
    match done {
        Ok((back, flash)) => go_on(console, &back, &flash),
        Err(why) => problem(console, Some(who.who()), &why),
    }
}

fn cancellable(state: Listed) -> Cancellable {
    match state {
        Listed::Ready => Cancellable::Ready,
        Listed::Claimed => Cancellable::Claimed,
        Listed::Waiting => Cancellable::Waiting,
        Listed::Failed => Cancellable::Failed,
    }
}
