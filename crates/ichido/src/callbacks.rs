//! What an action may do besides its work: when its workers start and end, and when a message's transaction commits or fails.
//! Both kinds of action have the same callbacks; the handlers `concurrency` and `transaction` call them.

use std::time::Duration;

use crate::{Error, Outcome, Result};

/// How a message failed, for [`Action::transaction_failure`](crate::Action::transaction_failure).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Failed<'a> {
    /// Why. A reason to retry or to park is an error here, too.
    pub error: &'a Error,
    /// When it runs again; none: it has failed for good.
    pub retry_after: Option<Duration>,
}

/// Which callback is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callback<'a> {
    Initialize,
    TransactionSuccess,
    TransactionFailure(Failed<'a>),
    Error(&'a Error),
    Terminate(&'a Result<Outcome>),
}

/// The callbacks, for both kinds of action.
macro_rules! callbacks {
    () => {
        /// Runs before the workers start, in a transaction of its own that is committed before they do; again each time the
        /// process's `retry` handler starts them anew. If it fails, what it wrote is rolled back and no worker starts.
        fn initialize(&self, cx: &mut Context<S>) -> impl Future<Output = Result<()>> + Send {
            let _ = cx;
            async { Ok(()) }
        }

        /// Runs after a message is done, in its transaction, before the commit. If it fails, the message has failed.
        fn transaction_success(&self, cx: &mut Context<S>) -> impl Future<Output = Result<()>> + Send {
            let _ = cx;
            async { Ok(()) }
        }

        /// Runs after a message has failed and what it wrote is rolled back, in the transaction that records the failure: what
        /// this writes is there exactly once for each failure that is recorded. (Where the pool says `commit_on`, that is the
        /// action's own transaction.) It does not run when the claim was lost or the database failed, for then the message runs
        /// again as if nothing had been. If it fails itself, what it wrote is rolled back, and the failure is recorded with both
        /// errors, the message's own first.
        fn transaction_failure(
            &self,
            cx: &mut Context<S>,
            failed: Failed<'_>,
        ) -> impl Future<Output = Result<()>> + Send {
            let _ = (cx, failed);
            async { Ok(()) }
        }

        /// Runs after the workers have ended with an error, in a transaction of its own. If it fails, that is logged, and the
        /// workers' error passes on.
        fn error(&self, cx: &mut Context<S>, error: &Error) -> impl Future<Output = Result<()>> + Send {
            let _ = (cx, error);
            async { Ok(()) }
        }

        /// Runs after the workers have ended, however they did, in a transaction of its own; not if
        /// [`initialize`](Self::initialize) failed. If it fails, the process ends with that error, unless the workers had one.
        fn terminate(&self, cx: &mut Context<S>, ended: &Result<Outcome>) -> impl Future<Output = Result<()>> + Send {
            let _ = (cx, ended);
            async { Ok(()) }
        }
    };
}

/// Calls the one that is meant.
macro_rules! call_back {
    ($action:expr, $cx:expr, $callback:expr) => {
        Box::pin(async move {
            match $callback {
                Callback::Initialize => $action.initialize($cx).await,
                Callback::TransactionSuccess => $action.transaction_success($cx).await,
                Callback::TransactionFailure(failed) => $action.transaction_failure($cx, failed).await,
                Callback::Error(error) => $action.error($cx, error).await,
                Callback::Terminate(ended) => $action.terminate($cx, ended).await,
            }
        })
    };
}

pub(crate) use {call_back, callbacks};
