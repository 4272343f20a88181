//! One message with its past and its payload, without what must not be seen of it.

use serde::Serialize;

use crate::{
    Error, Headers, Masks, MessageId, Messages,
    error::Result,
    inspect::{MessageInfo, Parked, ParkedFilter, PastFailure, SentWith, shape},
};

/// A message with its past and its payload.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ShownMessage {
    /// What is known of it.
    #[serde(flatten)]
    pub info: MessageInfo,
    /// The last failures, newest last.
    pub history: Vec<PastFailure>,
    /// Its payload, masked; none if it is gone.
    pub payload: Option<String>,
    /// The headers that it was sent with, masked.
    pub headers: Headers,
    /// The unique key that it was sent with, masked.
    pub unique: Option<String>,
    /// How many attempts it gets, if its sender has said so.
    pub most_attempts: Option<u32>,
}

/// A failed message with its payload.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ShownFailure {
    /// What is known of its failures.
    #[serde(flatten)]
    pub parked: Parked,
    /// Its payload, masked; none if it is gone.
    pub payload: Option<String>,
}

/// One message; none if there is none.
///
/// # Errors
/// The queue is unknown, or the database fails.
pub async fn show_message<S: Messages>(store: &S, masks: &Masks, id: &MessageId) -> Result<Option<ShownMessage>> {
    let Some(mut info) = store.message(id).await? else { return Ok(None) };
    let payload = store.payload(id).await?;
    let SentWith { headers, mut unique, attempts: most_attempts } = store.sent_with(id).await?;
    let errors = info.history.iter_mut().map(|failure| &mut failure.error).chain(info.error.as_mut());
    let payload = hide_all(masks, errors.chain(unique.as_mut()), payload, &headers);
    let (history, headers) = (std::mem::take(&mut info.history), masks.headers(&headers));
    Ok(Some(ShownMessage { info, history, payload, headers, unique, most_attempts }))
}

/// One message that has failed or waits for a retry; none if it does not.
///
/// # Errors
/// The queue is unknown, or the database fails.
pub async fn show_failure<S: Messages>(store: &S, masks: &Masks, id: &MessageId) -> Result<Option<ShownFailure>> {
    let filter = ParkedFilter { id: Some(id.clone()), waiting: true, ..ParkedFilter::default() };
    let Some(mut parked) = store.parked(&filter).await?.into_iter().next() else { return Ok(None) };
    let payload = store.payload(id).await?;
    let errors = parked.history.iter_mut().map(|failure| &mut failure.error).chain([&mut parked.error]);
    let payload = hide(masks, errors, payload);
    parked.shape = shape(&parked.error);
    Ok(Some(ShownFailure { parked, payload }))
}

/// What is masked is masked here too. Errors were when they were recorded; those from before are looked at again.
pub fn hide<'a>(
    masks: &Masks,
    errors: impl Iterator<Item = &'a mut String>,
    payload: Option<String>,
) -> Option<String> {
    hide_all(masks, errors, payload, &Headers::new())
}

/// The same, where headers are known too.
fn hide_all<'a>(
    masks: &Masks,
    texts: impl Iterator<Item = &'a mut String>,
    payload: Option<String>,
    headers: &Headers,
) -> Option<String> {
    let known = masks.hidden(payload.as_deref().unwrap_or_default().as_bytes(), headers);
    texts.for_each(|text| *text = known.hide(text));
    payload.map(|payload| masks.payload(payload.as_bytes()).into_owned())
}

/// What the database said about a message, without what must not be seen of it.
pub async fn hidden<S: Messages>(store: &S, masks: &Masks, id: &MessageId, error: &Error) -> String {
    let payload = if masks.is_empty() { None } else { store.payload(id).await.ok().flatten() };
    let text = masks.text(&format!("{error:#}"), payload.unwrap_or_default().as_bytes(), &Headers::new());
    let name = id.to_string();
    if text.contains(&name) { text } else { format!("{name}: {text}") }
}

/// What there is to say where no message is found.
#[must_use]
pub fn nowhere(id: &MessageId) -> String {
    format!("{id} is not there: it is done and gone, was cancelled or discarded, or was never sent")
}
