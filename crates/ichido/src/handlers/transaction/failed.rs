//! A failure is recorded: in a transaction of its own after what the action wrote is rolled back, or, where the pool says `commit_on`,
//! together with it. The action has its say in the same transaction. What is written about a message, `process/record.rs` decides.

use super::{cancelled::finish, commit::complete_and_commit};
use crate::{
    Context, Error, Outcome, Store,
    action::callbacks,
    error::Result,
    message::Mark,
    process::record::{self, committed_failure, park, recorded, verdict},
    store::Failure,
};

/// A run that was not done: its failure may be one that commits.
pub(super) async fn record_failed_run<S: Store>(cx: &mut Context<S>, result: Result<Outcome>) -> Result<Outcome> {
    match committed_failure(cx, &result) {
        Some(failure) => commit_failure(cx, failure, result).await,
        None => record(cx, result).await,
    }
}

/// Rolls back, unless the message is done, and writes its failure down, together with what the action then has to say.
/// (`record::record` writes it down without asking the action.)
pub(super) async fn record<S: Store>(cx: &mut Context<S>, result: Result<Outcome>) -> Result<Outcome> {
    cx.roll_back().await;
    let Some(mut failure) = verdict(cx, &result)? else { return result };
    if failure.is_snooze() {
        return put_aside(cx, failure).await.and(result);
    }
    match tell_action(cx, &failure, &result).await {
        Ok(true) => return result,
        Ok(false) => {}
        Err(error) if spares_the_message(cx, &error) => return record::record(cx, Err(error)).await,
        Err(error) => failure.error = format!("{}; then `transaction_failure` failed: {error:#}", failure.error),
    }
    put_aside(cx, failure).await?;
    result
}

/// Records a failure. If the claim was gone, a note that the message was cancelled is not needed any more.
async fn put_aside<S: Store>(cx: &mut Context<S>, failure: Failure) -> Result<()> {
    park(cx, failure).await?;
    if cx.batch.only().is_some_and(|delivery| delivery.mark == Some(Mark::Lost)) {
        let _ = Box::pin(finish(cx)).await;
    }
    Ok(())
}

/// Commits what the action has written together with its failure. What cannot be committed, because the error was the
/// database's and broke the transaction, is rolled back and recorded like any other failure.
async fn commit_failure<S: Store>(cx: &mut Context<S>, failure: Failure, result: Result<Outcome>) -> Result<Outcome> {
    match tell_action(cx, &failure, &result).await {
        Ok(true) => result,
        Ok(false) => put_aside(cx, failure).await.and(result),
        Err(error) if spares_the_message(cx, &error) => record::record(cx, Err(error)).await,
        Err(error) => {
            tracing::debug!(error = %cx.masked(&format!("{error:#}")), "cannot commit what was written before the failure");
            record(cx, result).await
        }
    }
}

/// Lets the action have its say about a failure, and commits both together; false if nothing was written.
async fn tell_action<S: Store>(cx: &mut Context<S>, failure: &Failure, result: &Result<Outcome>) -> Result<bool> {
    let told = callbacks::failed(cx, result, failure).await;
    if told.is_err() {
        cx.roll_back().await;
    }
    told?;
    if !cx.slot.is_used() && cx.files.is_none() {
        return Ok(false);
    }
    Box::pin(complete_and_commit(cx, Some(failure.clone()))).await?;
    recorded(cx, failure);
    Ok(true)
}

/// Did recording fail in a way that says nothing about the message? It is not ours any more, or it runs again.
fn spares_the_message<S: Store>(cx: &mut Context<S>, error: &Error) -> bool {
    let unknown = cx.batch.only().is_some_and(|delivery| matches!(delivery.mark, Some(Mark::Unknown)));
    unknown || error.is_transient::<S>()
}
