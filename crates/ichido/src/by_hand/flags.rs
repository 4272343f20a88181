//! Flags of a request id: set or cleared, and what holds then.

use crate::{
    Inspect, Operate,
    error::Result,
    process::{Flag, RequestState},
};

/// Sets or clears a flag of a request id. Whether something changed, and how the request id is doing.
///
/// # Errors
/// The request id is refused, or the database fails.
pub async fn set_flag<S: Operate>(store: &S, request_id: &str, flag: Flag, on: bool) -> Result<(bool, RequestState)> {
    let changed = store.set_flag(request_id, flag, on).await?;
    Ok((changed, request_state(store, request_id).await?))
}

/// How a request id is doing; one that nobody knows has no processes and no flags.
///
/// # Errors
/// The database fails.
pub async fn request_state<S: Inspect>(store: &S, request_id: &str) -> Result<RequestState> {
    let found = store.requests().await?.into_iter().find(|state| state.request_id == request_id);
    Ok(found.unwrap_or_else(|| RequestState::new(request_id)))
}
