//! Orphans: sessions at a server whose connection was dropped because nothing was heard on it. What they have locked stays locked until they
//! end, and the server ends them by itself only after minutes; so whoever dropped the connection ends the session through another one. A
//! server that has just been silent may be too busy for that at first.

use std::{fmt::Display, future::Future, time::Duration};

use tokio::{runtime::Handle, time::sleep};

use crate::Deadline;

/// The server has ended them by then.
const LONGEST: Duration = Duration::from_mins(10);

/// The longest pause between two tries.
const PAUSE: Duration = Duration::from_mins(1);

/// Ends a session. What fails, or takes longer than the server may be silent, is tried again in the background.
pub async fn end_orphan<E: Display, F>(deadline: &Deadline, end: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = Result<(), E>> + Send,
{
    let timeout = deadline.timeout();
    if ended(timeout, end()).await {
        return;
    }
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move { keep_trying(timeout, LONGEST, end).await });
    }
}

/// Each pause is twice as long as the one before, and so is each try.
async fn keep_trying<E: Display, F>(timeout: Duration, longest: Duration, end: impl Fn() -> F)
where
    F: Future<Output = Result<(), E>>,
{
    let (mut pause, mut waited) = (timeout, Duration::ZERO);
    while waited < longest {
        sleep(pause).await;
        waited += pause;
        pause = (pause * 2).min(PAUSE.max(timeout));
        if ended(pause, end()).await {
            return;
        }
    }
}

async fn ended<E: Display>(limit: Duration, end: impl Future<Output = Result<(), E>>) -> bool {
    match tokio::time::timeout(limit, end).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot end the session of a silent connection yet");
            false
        }
        Err(_) => {
            tracing::debug!(?limit, "cannot end the session of a silent connection yet: no answer");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::{
            Arc, Mutex,
            atomic::{AtomicU32, Ordering},
        },
    };

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(2);

    #[tokio::test]
    async fn what_cannot_be_ended_now_is_ended_later() {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let tell = Arc::new(Mutex::new(Some(tell)));
        let end = move || {
            let (nth, tell) = (counted.fetch_add(1, Ordering::SeqCst), tell.clone());
            async move {
                match nth {
                    0 => Err::<(), _>("refused"),
                    1 => pending().await,
                    _ => {
                        drop(tell.lock().unwrap().take());
                        Ok(())
                    }
                }
            }
        };
        end_orphan(&Deadline::new(TIMEOUT), end).await;
        assert!(tries.load(Ordering::SeqCst) >= 1, "whoever waits does not wait for all tries");
        assert!(told.await.is_err(), "it is dropped when the session is ended");
        assert_eq!(tries.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn nobody_tries_for_ever() {
        let tries = AtomicU32::new(0);
        let end = || {
            tries.fetch_add(1, Ordering::SeqCst);
            async { Err::<(), _>("refused") }
        };
        keep_trying(TIMEOUT, 7 * TIMEOUT, end).await;
        assert_eq!(tries.into_inner(), 3, "after pauses of one, two and four");
    }
}
