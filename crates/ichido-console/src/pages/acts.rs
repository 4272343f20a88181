//! What the pages' buttons do: each is a form that posts, and leads on to a page that says what became of it. The verbs are those of the
//! command line, through the same desk.

use axum::{extract::Path, response::Response};
use ichido::{
    Due, MessageId,
    by_hand::{Examination, Moved, Repair, parse_duration, parse_time},
    inspect::ParkedFilter,
    store::Cancelled,
};

use super::{
    failed::{AT_ONCE, Which, verb},
    flash::Flash,
    problem,
    processes::{FLAGS, told},
    visit::go_on,
    words::plural,
};
use crate::{
    Console, Problem,
    access::{Admin, As, CheckedForm, Operate, inside},
    api::{self, LONGEST_DELAY},
    desk::{self, CancelLine, CancelOrder, RepairAnswer, RepairOrder, at_this_rate},
    fields::Fields,
    known,
    routes::Routes,
};

/// How long a message that runs is waited for when it is cancelled.
pub(super) const WAIT: std::time::Duration = std::time::Duration::from_secs(2);

/// What became of more messages than these is counted, not listed.
pub(super) const FEW: usize = 4;

pub(super) fn routes() -> Routes {
    Routes::new()
        .post("/messages/{verb}", message)
        .post("/failed/all", all)
        .post("/processes/{verb}", flag)
        .post("/doctor/fix", fix)
}

/// Why, if it was said.
pub(super) fn reason(form: &Fields) -> Result<Option<String>, Problem> {
    api::reason(form.get("reason").map(str::to_owned))
}

/// The page after a form: where it came from, and what it says.
async fn after(who: &As<Operate>, form: &Fields, done: Result<Flash, Problem>) -> Response {
    let console = who.console();
    console.0.snapshots.forget().await;
    let back = inside(form.get("back"));
    match done {
        Ok(flash) => go_on(console, back, &flash),
        Err(why) if form.get("back").is_some() => go_on(console, back, &Flash::bad(why.detail)),
        Err(why) => problem(console, Some(who.who()), &why),
    }
}

/// `retry`, `discard`, `cancel`, `run-now` and `reschedule`, each of the messages that are named.
async fn message(who: As<Operate>, Path(verb): Path<String>, CheckedForm(form): CheckedForm) -> Response {
    let done = message_done(&who, &verb, &form).await;
    after(&who, &form, done).await
}

async fn message_done(who: &As<Operate>, verb: &str, form: &Fields) -> Result<Flash, Problem> {
    let ids = ids(who.console(), form)?;
    let act = who.act(reason(form)?);
    match verb {
        "retry" | "discard" => {
            let verb = repair(verb);
            let order = RepairOrder { verb, ids, filter: ParkedFilter::default(), dry_run: false, rate: None };
            Ok(repaired(verb, &act.repair(order).await?))
        }
        "cancel" => {
            let order = CancelOrder { which: desk::Which::These(ids), dry_run: false, wait: WAIT, most: None };
            Ok(cancelled(&act.cancel(order).await?))
        }
        "run-now" => Ok(moved(&act.run_now(ids).await?)),
        "reschedule" => {
            let due = due(form.get("due").unwrap_or_default())?;
            let mut all = Vec::new();
            for id in ids {
                all.push(act.reschedule(id, due).await?);
            }
            Ok(moved(&all))
        }
        _ => Err(Problem::nowhere(format!("there is nothing called `{verb}` to do with a message"))),
    }
}

fn repair(verb: &str) -> Repair {
    if verb == "discard" { Repair::Discard } else { Repair::Retry }
}

fn ids(console: &Console, form: &Fields) -> Result<Vec<MessageId>, Problem> {
    let ids = form.all("id").map(|text| known::id(console, text)).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() { Err(Problem::bad("no message is selected; nothing was changed")) } else { Ok(ids) }
}

/// A time span from now, or a time.
pub(super) fn due(text: &str) -> Result<Due, Problem> {
    match parse_duration(text) {
        Ok(span) if span.as_secs() > LONGEST_DELAY => {
            return Err(Problem::bad(format!("`{text}` is too long: a message waits for at most ten years")));
        }
        Ok(span) => return Ok(Due::After(span)),
        Err(_) => {}
    }
    // A time that does not say where it is read is UTC, as the form says.
    let at = parse_time(text).or_else(|_| humantime::parse_rfc3339_weak(text.trim()));
    let wrong = |_| {
        Problem::bad(format!("`{text}` is neither a time span like 10m or 1h30m nor a time like 2026-11-18T09:00:00Z"))
    };
    at.map(Due::At).map_err(wrong)
}

/// All that the filter means: only the page that has shown how many leads here.
async fn all(who: As<Operate>, CheckedForm(form): CheckedForm) -> Response {
    let mut which = Which::of(&form);
    which.waiting = false;
    let done = async {
        let verb = repair(verb(form.get("verb"))?.path);
        let rate = form.number("rate", 1..=1000)?.and_then(|rate| u32::try_from(rate).ok());
        let filter = which.filter(who.console(), &form, at_this_rate(rate, form.limit(AT_ONCE, AT_ONCE)?))?;
        let order = RepairOrder { verb, ids: Vec::new(), filter, dry_run: false, rate };
        Ok(repaired(verb, &who.act(reason(&form)?).repair(order).await?))
    };
    let done = done.await;
    let console = who.console();
    console.0.snapshots.forget().await;
    match done {
        Ok(flash) => go_on(console, &format!("/failed?{}", which.query()), &flash),
        Err(why) => problem(console, Some(who.who()), &why),
    }
}

/// Why a message was left alone, without saying that it was.
fn why(left: &desk::LeftAlone) -> &str {
    left.why.trim_end_matches("; left alone")
}

fn repaired(verb: Repair, answer: &RepairAnswer) -> Flash {
    let done = match &answer.changed[..] {
        [one] => format!("{one} {}.", verb.done()),
        all => format!("{} {}.", plural(all.len(), "message"), verb.done()),
    };
    let left = match &answer.left[..] {
        [] => String::new(),
        [one] => format!(" Left alone: {}.", why(one)),
        all => format!(" {} left alone: {} …", all.len(), why(&all[0])),
    };
    let more = if answer.more { " There may be more." } else { "" };
    let warning = answer.warning.as_ref().map_or_else(String::new, |warning| format!(" {warning}"));
    let text = format!("{done}{left}{more}{warning}");
    if answer.changed.is_empty() || answer.warning.is_some() { Flash::warn(text) } else { Flash::ok(text) }
}

/// What became of messages that were to be cancelled: each if they are few, else how many of which.
pub(super) fn cancelled(lines: &[CancelLine]) -> Flash {
    let text = if lines.len() <= FEW { each_cancelled(lines) } else { counted_cancelled(lines) };
    if lines.iter().all(|line| line.result.is_cancelled()) { Flash::ok(text) } else { Flash::warn(text) }
}

fn each_cancelled(lines: &[CancelLine]) -> String {
    let told = lines.iter().map(|CancelLine { id, result }| match result {
        Cancelled::Cancelled => format!("{id} cancelled."),
        Cancelled::Already => format!("{id} was cancelled or discarded before."),
        Cancelled::Done => format!("{id} is done, and stays done."),
        Cancelled::Asked => {
            format!("{id} still runs; its process is asked to drop it, and cancels it unless it is done first.")
        }
        _ => format!("{id} not found: never sent, or done and gone."),
    });
    if lines.is_empty() { "Nothing was there to cancel.".into() } else { told.collect::<Vec<_>>().join(" ") }
}

fn counted_cancelled(lines: &[CancelLine]) -> String {
    let count = |of: fn(Cancelled) -> bool| lines.iter().filter(|line| of(line.result)).count();
    let (cancelled, asked) = (count(Cancelled::is_cancelled), count(|result| result == Cancelled::Asked));
    let mut told = vec![format!("{} cancelled.", plural(cancelled, "message"))];
    if asked > 0 {
        told.push(format!("{} still run; their processes are asked to drop them.", plural(asked, "message")));
    }
    let gone = lines.len() - cancelled - asked;
    if gone > 0 {
        told.push(format!("{} done or gone by then.", plural(gone, "message")));
    }
    told.join(" ")
}

fn moved(all: &[Moved]) -> Flash {
    let failed = all.iter().filter(|moved| moved.failed).count();
    let text = |moved: &Moved| format!("{}.", moved.text.trim_end_matches('.'));
    let text = match all.len() {
        ..=FEW => all.iter().map(text).collect::<Vec<_>>().join(" "),
        many if failed == 0 => format!("{} become ready now.", plural(many, "message")),
        many => {
            let first = all.iter().find(|moved| moved.failed).map(text).unwrap_or_default();
            format!("{} become ready now, {failed} do not: {first}", plural(many - failed, "message"))
        }
    };
    if failed > 0 { Flash::warn(text) } else { Flash::ok(text) }
}

/// `stop`, `unstop`, `pause` and `resume` of a request id.
async fn flag(who: As<Operate>, Path(verb): Path<String>, CheckedForm(form): CheckedForm) -> Response {
    let done = async {
        let known = FLAGS.iter().find(|(name, ..)| *name == verb);
        let (_, flag, on) =
            known.ok_or_else(|| Problem::nowhere(format!("there is nothing called `{verb}` to do with a process")))?;
        let id = form.get("request_id").ok_or_else(|| Problem::bad("no request id was given"))?.to_owned();
        known::request_id(&id)?;
        let (changed, now) = who.act(reason(&form)?).set_flag(id, *flag, *on).await?;
        Ok(Flash::ok(told(&verb, changed, &now)))
    };
    let done = done.await;
    let console = who.console();
    console.0.snapshots.forget().await;
    match done {
        Ok(flash) => go_on(console, "/processes", &flash),
        Err(why) => problem(console, Some(who.who()), &why),
    }
}

/// The doctor does what is safe.
async fn fix(who: As<Admin>, CheckedForm(form): CheckedForm) -> Response {
    let done = async { Ok(mended(&who.act(reason(&form)?).fix().await?)) };
    let done = done.await;
    let console = who.console();
    console.0.snapshots.forget().await;
    match done {
        Ok(flash) => go_on(console, "/doctor", &flash),
        Err(why) => problem(console, Some(who.who()), &why),
    }
}

/// What the doctor has done, what goes on by itself, and what is left for somebody.
fn mended(found: &Examination) -> Flash {
    let count = |number: u64| plural(usize::try_from(number).unwrap_or(usize::MAX), "message");
    let mut told = Vec::new();
    if found.done > 0 {
        told.push(format!("Mended: {}.", count(found.done)));
    }
    let waiting = found.found.saturating_sub(found.done + found.left);
    if waiting > 0 {
        told.push(format!("On the way: {}; nothing is to be done about them.", count(waiting)));
    }
    if found.left > 0 {
        told.push(format!("Left: {}; look at the verdicts below.", count(found.left)));
    }
    let text = if told.is_empty() { "Nothing was wrong.".to_owned() } else { told.join(" ") };
    if found.left == 0 { Flash::ok(text) } else { Flash::warn(text) }
}

#[cfg(test)]
mod tests {
    use ichido::{
        broker::Verdict,
        by_hand::{Done, Finding},
    };

    use super::*;

    #[test]
    fn a_due_time_is_a_span_or_a_time() {
        assert!(matches!(due("10m"), Ok(Due::After(span)) if span.as_secs() == 600));
        assert!(matches!(due("1h30m"), Ok(Due::After(span)) if span.as_secs() == 5400));
        let at = |text: &str| if let Ok(Due::At(at)) = due(text) { Some(at) } else { None };
        assert!(at("2026-11-18T09:00:00Z").is_some());
        assert_eq!(at("2026-11-18T10:00:00+01:00"), at("2026-11-18T09:00:00Z"));
        assert_eq!(at("2026-11-18 09:00"), None, "without seconds");
        assert_eq!(at("2026-11-18 09:00:00"), at("2026-11-18T09:00:00Z"));
        assert!(due("4000d").unwrap_err().detail.contains("ten years"));
        assert!(due("tomorrow").unwrap_err().detail.contains("tomorrow"));
    }

    #[test]
    fn what_only_waits_was_not_mended() {
        let finding = |verdict, done| {
            let mut finding = Finding::of("orders", "orders/1".into(), "a test".into());
            (finding.verdict, finding.done) = (verdict, done);
            finding
        };
        let told = |findings: &[Finding]| {
            let mut found = Examination::default();
            for finding in findings {
                found.finding(finding);
            }
            mended(&found)
        };
        let waits = || finding(Verdict::Wait, None);
        let done = || finding(Verdict::Retry, Some(Done::did("released")));
        let left = || finding(Verdict::Retry, Some(Done::left_alone()));
        assert_eq!(told(&[]), Flash::ok("Nothing was wrong."));
        assert_eq!(told(&[waits()]).text, "On the way: 1 message; nothing is to be done about them.");
        assert!(told(&[waits(), done(), done()]).text.starts_with("Mended: 2 messages. On the way: 1 message;"));
        assert_eq!(
            told(&[done(), left()]),
            Flash::warn("Mended: 1 message. Left: 1 message; look at the verdicts below.")
        );
    }

    #[test]
    fn what_was_left_alone_is_told() {
        let left = vec![desk::LeftAlone { id: "a/1".into(), why: "a/1 has not failed; left alone".into() }];
        let flash =
            repaired(Repair::Retry, &RepairAnswer { changed: vec!["a/2".into()], left, ..RepairAnswer::default() });
        assert_eq!(flash, Flash::ok("a/2 retried. Left alone: a/1 has not failed."));
    }
}
