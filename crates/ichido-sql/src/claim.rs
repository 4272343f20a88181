//! How a claim is put together, whatever the dialect: messages without a group from the lower bound on, and from the
//! beginning if that was too little; the first messages of groups; and neither kind waits for the other.

use super::{Heads, LowerBound, Start};
use ichido::{Delivery, Result};

/// One process that claims from one queue: the two ways in which a store does it.
pub trait Claims: Sync {
    /// Claims messages that are in no group, and tells whether there are messages in groups.
    fn ungrouped(&self, count: usize, start: &Start) -> impl Future<Output = Result<(Vec<Delivery>, bool)>> + Send;

    /// Claims the first messages of groups that nobody holds.
    fn heads(&self, count: usize) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Where the next claim of the queue begins.
    fn bound(&self) -> &LowerBound;

    /// What is known about the queue's groups, and whether every message is in one; none: it has no groups.
    fn groups(&self) -> Option<(&Heads, bool)>;
}

/// Claims up to so many messages.
///
/// # Errors
/// What the store said.
pub async fn claim(claims: &impl Claims, count: usize) -> Result<Vec<Delivery>> {
    let Some((heads, all_grouped)) = claims.groups() else { return Ok(ungrouped(claims, count).await?.0) };
    if all_grouped {
        return claims.heads(count).await;
    }
    let share = heads.share_of_ungrouped(count);
    let (mut found, there) = ungrouped(claims, share).await?;
    let filled = found.len() >= share;
    heads.note(there);
    if there && found.len() < count {
        found.extend(claims.heads(count - found.len()).await?);
    }
    if filled && share < count && found.len() < count {
        found.extend(ungrouped(claims, count - found.len()).await?.0);
    }
    Ok(found)
}

async fn ungrouped(claims: &impl Claims, count: usize) -> Result<(Vec<Delivery>, bool)> {
    let start = claims.bound().start();
    let (mut found, there) = claims.ungrouped(count, &start).await?;
    if found.len() < count && start != Start::First && claims.bound().look_at_whole() {
        found.extend(claims.ungrouped(count - found.len(), &Start::First).await?.0);
    }
    Ok((found, there))
}
