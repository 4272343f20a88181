//! Looking for an error among all messages that have failed: stores read them without looking at their errors, so a page reads only some of them.

use ichido::{Operate, error::Result, inspect::ParkedFilter};

use super::Searched;

/// So many failed messages are read together.
const TOGETHER: u32 = 1000;

/// And so often for one page.
const TIMES: usize = 10;

/// The messages that the filter asks for; of those with some error only the ones among the first that have failed.
pub(super) async fn search<S: Operate>(store: &S, filter: ParkedFilter) -> Result<Searched> {
    let most = filter.limit as usize;
    let mut all = filter.clone();
    if all.error.take().is_none() {
        return Ok(Searched { messages: store.parked(&filter).await?, until: None });
    }
    all.limit = TOGETHER;
    let mut messages = Vec::new();
    for _ in 0..TIMES {
        let page = store.parked(&all).await?;
        let is_last = page.len() < TOGETHER as usize;
        all.after = page.last().cloned();
        messages.extend(page.into_iter().filter(|parked| filter.matches(parked)));
        if is_last || messages.len() >= most {
            messages.truncate(most);
            return Ok(Searched { messages, until: None });
        }
    }
    Ok(Searched { messages, until: all.after.map(|last| last.id) })
}
