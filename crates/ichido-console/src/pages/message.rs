//! One message: its life as far as it is known, its payload, and what may be done with it in the state that it is in.

use askama::Template;
use ichido::{
    BoxFuture,
    by_hand::ShownMessage,
    inspect::{MessageInfo, MessageState},
};

use super::{
    queue::kind,
    visit::{Frame, Visit, rendered},
    words::{clock, plural, seconds, seconds_or},
};
use crate::{Problem, known};

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    frame: Frame,
    id: String,
    queue: String,
    info: Option<Info>,
}

struct Info {
    state: &'static str,
    kind: &'static str,
    sentence: String,
    life: Vec<Event>,
    payload: Option<String>,
    masked: &'static str,
    acts: Vec<ActButton>,
    why_none: &'static str,
    /// Only the doctor can help.
    doctor: bool,
    facts: Vec<Fact>,
    headers: Vec<(String, String)>,
}

struct Event {
    kind: &'static str,
    what: String,
    when: String,
    text: String,
}

struct Fact {
    name: &'static str,
    value: String,
}

/// A verb, as a button.
pub(super) struct ActButton {
    pub(super) verb: &'static str,
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) danger: bool,
}

const RETRY: ActButton = ActButton {
    verb: "retry",
    name: "Retry",
    what: "It runs again, as attempt one. Fix the cause of the failure first.",
    danger: false,
};
const DISCARD: ActButton =
    ActButton { verb: "discard", name: "Discard", what: "It never runs again. A record of it is kept.", danger: true };
const CANCEL: ActButton = ActButton {
    verb: "cancel",
    name: "Cancel",
    what: "It is taken out of circulation for good, also if it runs now: nothing that it does is committed from then on.",
    danger: true,
};
const RUN_NOW: ActButton =
    ActButton { verb: "run-now", name: "Run now", what: "It need not wait for its due time.", danger: false };
const RESCHEDULE: ActButton =
    ActButton { verb: "reschedule", name: "Reschedule", what: "It becomes due at another time.", danger: false };

/// The message that the query names.
pub(super) fn message(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let text = visit.field("id");
        let id = known::id(&visit.console, &text)?;
        let snapshot = visit.snapshot().await?;
        let found = visit.look().message(id.clone()).await?;
        Ok(rendered(&MessagePage {
            frame: visit.frame("/queues", &snapshot),
            id: id.to_string(),
            queue: id.queue.to_string(),
            info: found.map(|found| info(&found)),
        }))
    })
}

fn info(shown: &ShownMessage) -> Info {
    let info = &shown.info;
    let payload = shown.payload.as_ref().map(|payload| pretty(payload));
    Info {
        state: info.state.as_str(),
        kind: kind(info.state.as_str()),
        sentence: sentence(info),
        life: life(shown),
        masked: if payload.is_some() { "masked as the configuration says" } else { "" },
        payload,
        acts: acts(info.state),
        why_none: why_none(info.state),
        doctor: info.state == MessageState::Orphan,
        facts: facts(shown),
        headers: shown.headers.clone().into_iter().collect(),
    }
}

fn sentence(info: &MessageInfo) -> String {
    match (info.state, &info.owner) {
        (MessageState::Ready, _) => "It can be claimed, or is with its broker.".into(),
        (MessageState::Claimed, Some(owner)) => format!("It {owner}."),
        (MessageState::Claimed, None) => "A process has it.".into(),
        (MessageState::Waiting, _) => match &info.due_at {
            Some(due) => format!("It waits until {} (UTC).", clock(due)),
            None => "It waits until it is due.".into(),
        },
        (MessageState::Failed, _) => format!(
            "It has failed after {} and waits for you.",
            plural(usize::try_from(info.attempts).unwrap_or(0), "attempt")
        ),
        (MessageState::Discarded, _) => "It has failed and was discarded. It never runs again.".into(),
        (MessageState::Done, _) => "It is done, and its row is still there.".into(),
        (MessageState::Orphan, _) => "It is parked, and nothing is known about it. The doctor releases it.".into(),
        _ => "Its row has a status that is not one of the queue's.".into(),
    }
}

/// What is known of its life, the oldest first.
fn life(shown: &ShownMessage) -> Vec<Event> {
    let info = &shown.info;
    let event = |kind, what: String, when: String| Event { kind, what, when, text: String::new() };
    let mut life = Vec::new();
    let sent = info.age_seconds.map_or_else(|| "nothing tells when".into(), |age| format!("{} ago", seconds(age)));
    life.push(event("", "Sent".into(), sent));
    for failure in &shown.history {
        let what = format!("Attempt {} failed", failure.attempt);
        life.push(Event { kind: "bad", what, when: clock(&failure.at), text: failure.error.clone() });
    }
    if info.snoozed > 0 {
        let times = plural(usize::try_from(info.snoozed).unwrap_or(0), "time");
        life.push(event("", format!("Snoozed {times}"), String::new()));
    }
    let parked = info.parked_at.as_deref().map(clock).unwrap_or_default();
    match info.state {
        MessageState::Ready => life.push(event("now", "Ready".into(), "waits for a free slot".into())),
        MessageState::Claimed => {
            let owner = info.owner.as_ref();
            let place = owner.map(ichido::inspect::Owner::place).unwrap_or_default();
            let runs = owner.and_then(|owner| owner.running_seconds);
            let runs = runs.map_or_else(
                || "not started at the last heartbeat".into(),
                |runs| format!("running for {}", seconds(i64::try_from(runs).unwrap_or(i64::MAX))),
            );
            life.push(event("now", format!("Claimed by {place}"), runs));
        }
        MessageState::Waiting => {
            let due = info.due_at.as_deref().map_or_else(String::new, |due| format!("due {}", clock(due)));
            life.push(event("now", "Waiting".into(), due));
        }
        MessageState::Failed => life.push(event("bad", "Failed for good".into(), parked)),
        MessageState::Discarded => life.push(event("", "Discarded".into(), parked)),
        MessageState::Done => life.push(event("ok", "Done".into(), String::new())),
        _ => life.push(event("bad", "Nobody's".into(), String::new())),
    }
    life
}

fn facts(shown: &ShownMessage) -> Vec<Fact> {
    let info = &shown.info;
    let fact = |name, value: Option<String>| value.map(|value| Fact { name, value });
    let owner = info.owner.as_ref();
    let facts = [
        fact("Queue", Some(info.queue.clone())),
        fact("Sent", Some(format!("{} ago", seconds_or(info.age_seconds))).filter(|_| info.age_seconds.is_some())),
        fact("Attempts", Some(attempts(info.attempts, shown.most_attempts))),
        fact("Unique key", shown.unique.clone()),
        fact("Snoozed", Some(info.snoozed.to_string()).filter(|_| info.snoozed > 0)),
        fact("Group", info.group.clone()),
        fact("Due (UTC)", info.due_at.as_deref().map(clock)),
        fact("Parked (UTC)", info.parked_at.as_deref().map(clock)),
        fact("Process", owner.map(|owner| owner.process.clone())),
        fact("Request id", owner.and_then(|owner| owner.request_id.clone())),
    ];
    facts.into_iter().flatten().collect()
}

/// How many there were, and how many there may be, where the sender has said so.
fn attempts(failed: i64, most: Option<u32>) -> String {
    most.map_or_else(|| failed.to_string(), |most| format!("{failed} of {most}, as its sender says"))
}

fn acts(state: MessageState) -> Vec<ActButton> {
    match state {
        MessageState::Ready => vec![RESCHEDULE, CANCEL],
        MessageState::Waiting => vec![RUN_NOW, RESCHEDULE, CANCEL],
        MessageState::Claimed => vec![CANCEL],
        MessageState::Failed => vec![RETRY, DISCARD],
        _ => Vec::new(),
    }
}

fn why_none(state: MessageState) -> &'static str {
    match state {
        MessageState::Done => "it is done, and stays done",
        MessageState::Discarded => "it was given up for good",
        MessageState::Orphan => "the doctor must release it first",
        _ => "it is not one of the queue's messages now",
    }
}

/// JSON over several lines, its numbers as they were written; anything else as it is.
fn pretty(payload: &str) -> String {
    let (mut text, mut depth, mut quoted, mut escaped) =
        (String::with_capacity(payload.len() * 2), 0_usize, false, false);
    if serde_json::from_str::<serde::de::IgnoredAny>(payload).is_err() {
        return payload.to_owned();
    }
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        (0..depth).for_each(|_| text.push_str("  "));
    };
    for character in payload.chars() {
        match character {
            _ if quoted => {
                text.push(character);
                quoted = escaped || character != '"';
                escaped = character == '\\' && !escaped;
            }
            '{' | '[' => {
                text.push(character);
                depth += 1;
                line(&mut text, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if text.trim_end().ends_with(['{', '[']) {
                    text.truncate(text.trim_end().len());
                } else {
                    line(&mut text, depth);
                }
                text.push(character);
            }
            ',' => {
                text.push(character);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            character if character.is_whitespace() => {}
            character => {
                quoted = character == '"';
                text.push(character);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_gets_lines_and_keeps_its_numbers() {
        let shown = pretty(r#"{"id":1.10,"a":[],"b":{"c":"x, {\"y\"}"},"d":[1,2]}"#);
        let wanted = "{\n  \"id\": 1.10,\n  \"a\": [],\n  \"b\": {\n    \"c\": \"x, {\\\"y\\\"}\"\n  },\n  \"d\": [\n    1,\n    2\n  ]\n}";
        assert_eq!(shown, wanted);
        assert_eq!(pretty("not json, {x"), "not json, {x");
    }

    #[test]
    fn each_state_has_the_verbs_that_can_be_done() {
        let verbs = |state| acts(state).iter().map(|act| act.verb).collect::<Vec<_>>();
        assert_eq!(verbs(MessageState::Failed), ["retry", "discard"]);
        assert_eq!(verbs(MessageState::Waiting), ["run-now", "reschedule", "cancel"]);
        assert_eq!(verbs(MessageState::Done), [""; 0]);
    }
}
