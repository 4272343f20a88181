//! `ichido messages`: single messages of any queue. `list` and `show` only look; `reschedule` and `run-now` move one in time (`moved`), `cancel`
//! takes it out of circulation.

mod cancel;
mod moved;

use ichido::{
    by_hand::{self, ShownMessage},
    inspect::{Listed, MessageInfo, MessagePage},
};
use serde::Serialize;

use super::{by, failed::known_id};
use crate::{
    args::{List, Messages},
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output, program,
};

impl OnStore for Messages {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        match self {
            Messages::List(asked) => list(&store, config, asked).await,
            Messages::Show { id, json } => show(&store, config, &id, json).await,
            Messages::Reschedule(asked) => {
                moved::reschedule(&by(&store, asked.why.reason.clone()), config, asked).await
            }
            Messages::Cancel(asked) => cancel::run(&store, config, asked).await,
            Messages::RunNow { ids, json, why } => moved::run_now(&by(&store, why.reason), config, &ids, json).await,
        }
    }
}

/// A page as JSON.
#[derive(Serialize)]
struct Page<'a> {
    messages: &'a [MessageInfo],
    next: Option<String>,
    notes: &'a [String],
}

async fn list<S: Backend>(store: &S, config: &Config, asked: List) -> Result<u8, Failure> {
    let queues = match asked.queue {
        Some(queue) if !config.queues.contains_key(&queue) => return Err(Failure::unknown_queue(&queue, config)),
        Some(queue) => vec![queue],
        None => config.queues.keys().cloned().collect(),
    };
    let failure = |error| Failure::of::<S>(&error);
    let states = match asked.state {
        Some(state) => vec![state.parse::<Listed>().map_err(failure)?],
        None => Listed::ALL.to_vec(),
    };
    let page = store.list(&queues, &states, asked.after, asked.limit as usize).await.map_err(failure)?;
    let MessagePage { messages, notes, .. } = &page;
    let next = page.next.as_ref().map(ToString::to_string);
    if asked.json {
        output::json(&Page { messages, next, notes })?;
        return Ok(0);
    }
    let heads = ["MESSAGE", "STATE", "AGE", "ATTEMPTS", "DUE", "OWNER", "RUNNING", "ERROR"];
    output::table(heads, &messages.iter().map(row).collect::<Vec<_>>())?;
    for note in notes {
        output::talk(&format!("ichido: {note}"));
    }
    if let Some(next) = next {
        output::talk(&format!("ichido: there are more; go on with --after {}", quoted(&next)));
    }
    Ok(0)
}

fn row(message: &MessageInfo) -> [String; 8] {
    let seconds = |seconds: String| format!("{seconds}s");
    let owner = message.owner.as_ref();
    let runs = owner.and_then(|owner| owner.running_seconds);
    [
        message.id.clone(),
        message.state.to_string(),
        message.age_seconds.map_or("-".into(), |age| seconds(age.to_string())),
        message.attempts.to_string(),
        message.due_at.clone().unwrap_or_else(|| "-".into()),
        owner.map_or("-".into(), |owner| format!("{}{}", owner.place(), if owner.alive { "" } else { " (dead)" })),
        runs.map_or("-".into(), |runs| seconds(runs.to_string())),
        output::shortened(message.error.as_deref().unwrap_or_default(), 80),
    ]
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/=-_.:%,+".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// What its sender has said.
fn sent_with(shown: &ShownMessage) -> Vec<String> {
    let header = |(name, value): (&String, &String)| format!("header    {name}: {}", output::indented(value));
    let unique = shown.unique.iter().map(|key| format!("unique    {}", output::indented(key)));
    let attempts = shown.most_attempts.iter().map(|most| format!("at most   {most} attempts"));
    let payload = output::indented(shown.payload.as_deref().unwrap_or("(gone)"));
    unique.chain(attempts).chain(shown.headers.iter().map(header)).chain([format!("payload   {payload}")]).collect()
}

async fn show<S: Backend>(store: &S, config: &Config, id: &str, json: bool) -> Result<u8, Failure> {
    let id = known_id::<S>(config, id)?;
    let found = by_hand::show_message(store, &program::masks(config), &id).await;
    let found = found.map_err(|error| Failure::of::<S>(&error))?;
    let shown = found.ok_or_else(|| Failure::found(by_hand::nowhere(&id)))?;
    if json {
        output::json(&shown)?;
        return Ok(0);
    }
    for line in lines(&shown.info) {
        output::print(&line)?;
    }
    for line in sent_with(&shown) {
        output::print(&line)?;
    }
    for failure in &shown.history {
        let error = output::indented(&failure.error);
        output::print(&format!("\nattempt {} at {}\n{error}", failure.attempt, failure.at))?;
    }
    Ok(0)
}

fn lines(info: &MessageInfo) -> Vec<String> {
    let said = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name:<9} {value}"));
    let age = info.age_seconds.map(|age| format!("{age}s ago"));
    let owner = info.owner.as_ref();
    let runs = owner.and_then(|owner| {
        let told = owner.heartbeat_seconds.map_or_else(String::new, |told| format!(", as of {told}s ago"));
        owner.running_seconds.map(|runs| format!("{runs}s{told}"))
    });
    let owner = owner.map(|owner| {
        let serves = owner.request_id.as_deref().unwrap_or("not a known process");
        format!("{} ({serves}, {}{})", owner.process, owner.place(), if owner.alive { "" } else { ", dead" })
    });
    let snoozed = (info.snoozed > 0).then(|| info.snoozed.to_string());
    let said = [
        said("message", &Some(info.id.clone())),
        said("state", &Some(info.state.to_string())),
        said("sent", &age),
        said("group", &info.group),
        said("attempts", &Some(info.attempts.to_string())),
        said("snoozed", &snoozed),
        said("since", &info.parked_at),
        said("due", &info.due_at),
        said("owner", &owner),
        said("running", &runs),
    ];
    said.into_iter().flatten().map(|line| output::indented(&line)).collect()
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_cursor_can_be_handed_to_a_shell() {
        assert_eq!(quoted("orders/ready/=alone/=42"), "orders/ready/=alone/=42");
        assert_eq!(quoted("orders/ready/=it's 5"), r"'orders/ready/=it'\''s 5'");
    }
}
