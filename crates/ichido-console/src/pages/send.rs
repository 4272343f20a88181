//! A form that sends a message, or one per line, as `ichido send` does. It carries a key of its own, so that a page that is sent twice, by a double click or by
//! reloading, sends once; and whoever made a slip finds the form as they left it.

use askama::Template;
use axum::{
    extract::State,
    response::{Html, IntoResponse, Response},
};
use ichido::{BoxFuture, Headers, NewMessage, message::MOST_ATTEMPTS, store::ProcessId};
use serde_json::value::RawValue;

use super::{
    acts::{FEW, due},
    concern::encoded,
    flash::Flash,
    visit::{Asked, Frame, Visit, go_on, rendered},
    words::plural,
};
use crate::{
    Console, Problem,
    access::{As, CheckedForm, Operate},
    api::MOST_MESSAGES,
    desk::{Idempotency, SendOrder, SentAnswer, USED},
    fields::Fields,
    known,
};

#[derive(Template)]
#[template(path = "send.html")]
struct SendPage {
    frame: Frame,
    /// Why it was not sent.
    error: Option<String>,
    queues: Vec<String>,
    lanes: Vec<String>,
    levels: Vec<String>,
    asked: Typed,
}

/// What is in the form.
struct Typed {
    to: String,
    payload: String,
    /// Each line is a message.
    many: String,
    level: String,
    due: String,
    group: String,
    unique: String,
    attempts: String,
    headers: String,
    /// Tells this form from others.
    key: String,
}

/// What makes messages, in the order in which it is told from others with the same key.
const FIELDS: [&str; 9] = ["to", "payload", "many", "level", "due", "group", "unique", "attempts", "headers"];

impl Typed {
    fn of(fields: &Fields) -> Self {
        let [to, payload, many, level, due, group, unique, attempts, headers] =
            FIELDS.map(|name| fields.get(name).unwrap_or_default().to_owned());
        let key = fields.get("key").map_or_else(new_key, |key| key.chars().take(64).collect());
        Typed { to, payload, many, level, due, group, unique, attempts, headers, key }
    }

    /// The messages that are meant.
    fn messages(&self) -> Result<Vec<NewMessage>, Problem> {
        if self.many.is_empty() {
            return Ok(vec![self.message(&self.payload, "the payload")?]);
        }
        if !self.unique.is_empty() {
            return Err(Problem::bad("a unique key is for one message"));
        }
        let lines = (1..).zip(self.payload.lines()).filter(|(_, line)| !line.trim().is_empty());
        let message = |(number, line): (u32, &str)| self.message(line, &format!("line {number} of the payload"));
        let messages = lines.map(message).collect::<Result<Vec<_>, _>>()?;
        if messages.is_empty() || messages.len() > MOST_MESSAGES {
            return Err(Problem::bad(format!("the payload must have 1 to {MOST_MESSAGES} lines")));
        }
        Ok(messages)
    }

    /// The message with this payload, which is called so.
    fn message(&self, payload: &str, called: &str) -> Result<NewMessage, Problem> {
        if let Err(error) = serde_json::from_str::<&RawValue>(payload) {
            return Err(Problem::bad(format!("{called} is not JSON: {error}")));
        }
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let mut message = NewMessage::new(payload.trim().to_owned());
        message.due = given(&self.due).map(|text| due(&text)).transpose()?;
        (message.level, message.group, message.unique) = (given(&self.level), given(&self.group), given(&self.unique));
        message.attempts = given(&self.attempts).map(|text| attempts(&text)).transpose()?;
        message.headers = headers(&self.headers)?;
        Ok(message)
    }
}

fn new_key() -> String {
    ProcessId::random().to_string()
}

fn attempts(text: &str) -> Result<u32, Problem> {
    let found = text.trim().parse().ok().filter(|attempts| (1..=MOST_ATTEMPTS).contains(attempts));
    found.ok_or_else(|| Problem::bad(format!("attempts must be a number from 1 to {MOST_ATTEMPTS}")))
}

/// One per line, `name: value`.
fn headers(text: &str) -> Result<Headers, Problem> {
    let header = |line: &str| {
        let (name, value) = line.split_once(':').filter(|(name, _)| !name.trim().is_empty())?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let all = lines.map(|line| header(line).ok_or_else(|| Problem::bad(format!("`{line}` is not `name: value`"))));
    all.collect()
}

/// The form.
pub(super) fn send(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    // No link decides what this form is told from others by.
    let asked = Typed { key: new_key(), ..Typed::of(&visit.fields) };
    Box::pin(form(visit, asked, None))
}

async fn form(visit: &Visit, asked: Typed, error: Option<String>) -> Result<String, Problem> {
    let snapshot = visit.snapshot().await?;
    let lanes = visit.console.lanes();
    let mut levels: Vec<String> = Vec::new();
    for level in lanes.iter().flat_map(|lanes| &lanes.set.levels) {
        // Several sets may have a level of this name.
        if !levels.iter().any(|known| **known == *level.name) {
            levels.push(level.name.to_string());
        }
    }
    Ok(rendered(&SendPage {
        frame: visit.frame("/queues", &snapshot),
        error,
        queues: visit.console.queues().to_vec(),
        lanes: lanes.iter().map(|lanes| lanes.set.name.to_string()).collect(),
        levels,
        asked,
    }))
}

/// Sends it, once; then its page says so.
pub(super) async fn sent(
    who: As<Operate>,
    State(console): State<Console>,
    asked: Asked,
    CheckedForm(fields): CheckedForm,
) -> Response {
    let mut typed = Typed::of(&fields);
    match try_send(&who, &typed).await {
        Ok(answer) => {
            console.0.snapshots.forget().await;
            go_on(&console, &page_of(&answer.ids), &told(&answer))
        }
        Err(mut why) => {
            let visit = Visit::new(&who, asked).still();
            // Somebody went back, changed it and sent it again: it is another message, if that is meant.
            if why.detail == USED {
                typed.key = new_key();
                why.detail = "this form has sent another message already; send it again if you mean one more".into();
            }
            // The page says it before the reason.
            let reason = why.detail.trim_end_matches("; nothing was sent").to_owned();
            match form(&visit, typed, Some(reason)).await {
                Ok(html) => (why.status, Html(html)).into_response(),
                Err(why) => super::problem(&console, Some(who.who()), &why),
            }
        }
    }
}

async fn try_send(who: &As<Operate>, typed: &Typed) -> Result<SentAnswer, Problem> {
    known::destination(who.console(), &typed.to)?;
    let messages = typed.messages()?;
    let Typed { payload, many, level, due, group, unique, attempts, headers, .. } = typed;
    let fields = [payload, many, level, due, group, unique, attempts, headers];
    let request = fields.map(|field| format!("{}:{field}", field.len())).concat();
    let idempotency = Idempotency::new(&typed.to, &format!("form {}", typed.key), request.as_bytes());
    let order = SendOrder { to: typed.to.clone(), messages, idempotency: Some(idempotency) };
    who.act(None).send(order).await
}

/// Where what was sent is seen.
fn page_of(ids: &[String]) -> String {
    match ids {
        [one] => format!("/message?id={}", encoded(one)),
        all => format!("/queue?name={}", encoded(all.first().and_then(|id| id.split('/').next()).unwrap_or_default())),
    }
}

fn told(answer: &SentAnswer) -> Flash {
    let ids = match &answer.ids[..] {
        all @ [first, .., last] if all.len() > FEW => format!("{}, {first} to {last}", plural(all.len(), "message")),
        few => few.join(", "),
    };
    match &answer.unpublished {
        _ if answer.replayed => Flash::warn(format!("This form was sent before: {ids}. It was not sent again.")),
        Some(why) => Flash::warn(format!("Sent: {ids}. Not all of it is at its broker yet, but will be: {why}")),
        None => Flash::ok(format!("Sent: {ids}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_the_command_line_would() {
        let form = Fields::parse(b"to=mail&payload=%7B%22a%22%3A1.10%7D&due=2h&attempts=3&headers=a%3A+b%0Ac%3Ad%3Ae");
        let message = &Typed::of(&form).messages().expect("a message")[0];
        assert_eq!(&*message.payload, br#"{"a":1.10}"#);
        assert_eq!((message.attempts, message.headers.len(), message.group.as_ref()), (Some(3), 2, None));
        for wrong in ["payload=%7B", "payload=1&attempts=0", "payload=1&headers=x", "payload=1&due=soon"] {
            assert!(Typed::of(&Fields::parse(wrong.as_bytes())).messages().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_line_may_be_a_message() {
        let typed = |form: &str| Typed::of(&Fields::parse(form.as_bytes())).messages();
        let messages = typed("to=mail&many=yes&attempts=3&payload=%7B%22a%22%3A1%7D%0D%0A%0D%0A2.0").expect("messages");
        let payloads: Vec<_> = messages.iter().map(|message| &*message.payload).collect();
        assert_eq!(payloads, [&br#"{"a":1}"#[..], b"2.0"]);
        assert!(messages.iter().all(|message| message.attempts == Some(3)));
        let wrong = |form| typed(form).expect_err("a problem").detail;
        assert!(wrong("many=yes&payload=1%0A%0Ax").starts_with("line 3 of the payload is not JSON"));
        assert!(wrong("many=yes&payload=1%0A2&unique=u").contains("one message"));
        assert!(wrong("many=yes&payload=").contains("1 to 1000 lines"));
        assert!(wrong("payload=1%0A2").starts_with("the payload is not JSON"), "unless it was said");
    }
}
