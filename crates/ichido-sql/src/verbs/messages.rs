//! What operators see of single messages: the row of each, what is known about it in `ichido_parked`, and who has it, put together. Which
//! messages a list has is in `listing`; how they are moved in time, in `moving`.

use std::collections::BTreeMap;

use ichido::{
    Key, MessageId,
    error::Result,
    inspect::{MessageInfo, MessageState, Owner, Parked, ParkedState, ProcessState, SentWith},
    store::ProcessId,
};

use crate::{
    Kind, Query, Row, SqlQueue, SqlRows, SqlStore,
    verbs::{inspect, parked_pages},
};

/// So many messages are looked at together.
const AT_A_TIME: usize = 500;

/// The payload of a message, if it is still there.
///
/// # Errors
/// The key cannot be one of the queue's, or the database failed.
pub async fn payload<S: SqlRows>(store: &S, id: &MessageId) -> Result<Option<String>> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    store.payload_of(queue, &id.key).await
}

/// What a message was sent with beside its payload, if that is still there.
///
/// # Errors
/// The key cannot be one of the queue's, or the database failed.
pub async fn sent_with<S: SqlRows>(store: &S, id: &MessageId) -> Result<SentWith> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    if queue.headers.is_empty() {
        return Ok(SentWith::default());
    }
    let rows = store.look(Query::written(&*queue.headers).key(&id.key)).await?;
    let Some(row) = rows.first() else { return Ok(SentWith::default()) };
    let headers: Option<String> = row.get(0)?;
    Ok(SentWith::read(headers.as_deref().unwrap_or_default(), row.get(1)?))
}

/// What is known of a message.
///
/// # Errors
/// The key cannot be one of the queue's, or the database failed.
pub async fn message<S: SqlRows>(store: &S, id: &MessageId) -> Result<Option<MessageInfo>> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    let found = described(store, queue, std::slice::from_ref(&id.key), None).await?.pop();
    match found {
        None if queue.has_inbox() && is_in_inbox(store, queue, &id.key).await? => {
            Ok(Some(MessageInfo::new(id.to_string(), &*queue.queue, MessageState::Done)))
        }
        found => Ok(found),
    }
}

/// Is the message done, as the inbox knows it?
async fn is_in_inbox<S: SqlStore>(store: &S, queue: &SqlQueue, key: &Key) -> Result<bool> {
    let done = format!("select 1 from {} where id = ?1 and queue = ?2 and done_at is not null", store.tables().inbox);
    Ok(!store.look(Query::new(done).exact(&key.columns()[0]).bind(&*queue.queue)).await?.is_empty())
}

/// What is known of these messages, in their order; those that are not there are left out. The processes are read unless they are given.
pub(crate) async fn described<S: SqlRows>(
    store: &S,
    queue: &S::Queue,
    keys: &[Key],
    processes: Option<&[ProcessState]>,
) -> Result<Vec<MessageInfo>> {
    let mut found = Vec::with_capacity(keys.len());
    for keys in keys.chunks(AT_A_TIME) {
        let rows = store.look(S::of_keys(queue, &queue.described, None, keys, "")).await?;
        let rows = rows.iter().map(|row| Said::read(row, queue)).collect::<Result<BTreeMap<_, _>>>()?;
        let texts: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let parked = parked_pages::these(store, &queue.queue, &texts).await?;
        let parked: BTreeMap<_, _> = parked.into_iter().map(|parked| (parked.id.clone(), parked)).collect();
        // After the rows, and only if they say that somebody may have them.
        let owned = queue.kind == Kind::Mutex || rows.values().any(|said| said.owner.is_some());
        let read = if owned && processes.is_none() { inspect::processes(store).await? } else { Vec::new() };
        let processes = processes.unwrap_or(&read);
        for text in &texts {
            let id = format!("{}/{text}", queue.queue);
            found.extend(rows.get(text).and_then(|said| said.info(queue, &id, parked.get(&id), processes)));
        }
    }
    Ok(found)
}

/// What the row of a message says.
struct Said {
    failed: bool,
    is_new: bool,
    done: bool,
    owner: Option<String>,
    group: Option<String>,
    waited_ms: Option<i64>,
}

impl Said {
    fn read(row: &Row, queue: &SqlQueue) -> Result<(String, Said)> {
        let at = queue.key_columns;
        let said = Said {
            failed: row.get(at)?,
            is_new: row.get(at + 1)?,
            done: row.get(at + 2)?,
            owner: row.get(at + 3)?,
            group: row.get(at + 4)?,
            waited_ms: row.get(at + 5)?,
        };
        Ok((row.key(at)?.to_string(), said))
    }

    /// What operators see of it; none if it is not a message of this queue.
    fn info(
        &self,
        queue: &SqlQueue,
        id: &str,
        parked: Option<&Parked>,
        processes: &[ProcessState],
    ) -> Option<MessageInfo> {
        let mut info = MessageInfo::new(id, &*queue.queue, self.state(queue.kind, parked)?);
        let owner = match info.state {
            MessageState::Claimed => self.owner.clone(),
            // A lock leaves no owner in the row: who runs it says so with its heartbeat.
            MessageState::Ready if queue.kind == Kind::Mutex => runs(processes, id).map(|process| process.id.clone()),
            _ => None,
        };
        if let Some(owner) = owner {
            let known = processes.iter().find(|process| process.id == owner);
            (info.state, info.owner) = (MessageState::Claimed, Some(Owner::new(&owner, known, id)));
        }
        info.group.clone_from(&self.group);
        info.age_seconds = self.waited_ms.map(|ms| ms.max(0) / 1000);
        if let Some(parked) = parked {
            (info.attempts, info.snoozed) = (parked.attempts, parked.snoozed);
            info.error = (!parked.error.is_empty()).then(|| parked.error.clone());
            info.history.clone_from(&parked.history);
            if let MessageState::Waiting | MessageState::Failed = info.state {
                (info.due_at, info.parked_at) = (parked.due_at.clone(), Some(parked.parked_at.clone()));
            }
        }
        Some(info)
    }

    fn state(&self, kind: Kind, parked: Option<&Parked>) -> Option<MessageState> {
        let parked = parked.map(|parked| parked.state);
        let nobody = ProcessId::NOBODY.to_string();
        Some(match &self.owner {
            None if self.is_new => MessageState::Ready,
            Some(owner) if self.is_new && *owner != nobody => MessageState::Claimed,
            _ if self.is_new || self.failed => match parked {
                Some(ParkedState::Waiting) if self.is_new => MessageState::Waiting,
                Some(ParkedState::Dead) => MessageState::Failed,
                Some(ParkedState::Discarded) => MessageState::Discarded,
                _ if self.is_new => MessageState::Orphan,
                // An operator has discarded it, or set it to failed by hand.
                _ => MessageState::Discarded,
            },
            _ if self.done => MessageState::Done,
            _ if kind == Kind::Table => MessageState::Other,
            // A row with this id is there, and belongs to another queue.
            _ => return None,
        })
    }
}

/// The process that ran a message at its last heartbeat.
fn runs<'a>(processes: &'a [ProcessState], id: &str) -> Option<&'a ProcessState> {
    processes.iter().find(|process| process.alive && process.running.iter().any(|running| running.id == id))
}
