//! Pages to look things up: the handler queue, the settings and the audit.

use askama::Template;
use ichido::{
    BoxFuture,
    stat::{WINDOW, spell},
    store::Audited,
};
use serde::Deserialize;

use super::{
    concern::{self, Concern},
    visit::{Frame, Visit, rendered},
    words::{clock, grouped, milliseconds, whole},
};
use crate::{Chain, Problem};

/// So many entries of the audit on a page.
const ENTRIES: u32 = 100;

#[derive(Template)]
#[template(path = "chain.html")]
struct ChainPage {
    frame: Frame,
    chains: Vec<ChainView>,
    queues: Vec<QueueTimes>,
    span: String,
}

struct ChainView {
    name: String,
    note: &'static str,
    links: Vec<Link>,
}

struct Link {
    kind: &'static str,
    scope: &'static str,
    number: String,
    name: String,
    way_in: String,
    way_out: String,
    on_error: String,
}

/// How the messages of a queue fared on their way through.
struct QueueTimes {
    name: String,
    done: String,
    retried: String,
    failed: String,
    p50: String,
    p95: String,
    busy: String,
}

/// The handler queue.
pub(super) fn handlers(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let snapshot = visit.snapshot().await?;
        let measured = snapshot.standing.measured.iter().map(|one| QueueTimes {
            name: one.queue.clone(),
            done: grouped(whole(one.done)),
            retried: grouped(whole(one.retried)),
            failed: grouped(whole(one.failed)),
            p50: milliseconds(one.running_ms.map(|times| times.p50)),
            p95: milliseconds(one.running_ms.map(|times| times.p95)),
            busy: one.share_of_slots.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)),
        });
        Ok(rendered(&ChainPage {
            frame: visit.frame("/handlers", &snapshot),
            chains: visit.console.settings().chains.iter().map(chain).collect(),
            queues: measured.collect(),
            span: spell(WINDOW),
        }))
    })
}

fn chain(chain: &Chain) -> ChainView {
    let mut links = Vec::new();
    let mut scope = "";
    for (at, link) in chain.links.iter().enumerate() {
        let begins = link.scope != scope;
        scope = &link.scope;
        let worker = link.scope == "worker";
        links.push(Link {
            kind: if worker { "worker" } else { "process" },
            scope: match (begins, worker) {
                (false, _) => "",
                (true, true) => "In each worker, for every message",
                (true, false) => "Once per process",
            },
            number: (at + 1).to_string(),
            name: link.handler.clone(),
            way_in: link.way_in.clone(),
            way_out: link.way_out.clone(),
            on_error: link.on_error.clone(),
        });
    }
    links.push(Link {
        kind: "action",
        scope: "",
        number: "★".into(),
        name: chain.action.clone().unwrap_or_else(|| "action".into()),
        way_in: "your business code".into(),
        way_out: "an outcome: done, retry, park or abort".into(),
        on_error: "nothing of it is committed".into(),
    });
    let note = if chain.action.is_some() { "of this action alone" } else { "of every action that has none of its own" };
    ChainView { name: chain.action.clone().unwrap_or_else(|| "Common handler queue".into()), note, links }
}

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    problems: Vec<Concern>,
    sections: Vec<Section>,
    text: Option<String>,
}

/// The keys that begin alike.
struct Section {
    name: String,
    rows: Vec<(String, String)>,
}

/// Lines like `process.lease=30s`, by what they begin with; none if the configuration is written otherwise.
fn sections(config: &str) -> Option<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    for line in config.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once('=').filter(|(name, _)| !name.contains(char::is_whitespace))?;
        let (section, key) = name.split_once('.').unwrap_or(("", name));
        let row = (key.to_owned(), value.to_owned());
        match sections.iter_mut().find(|known| known.name == section) {
            Some(known) => known.rows.push(row),
            None => sections.push(Section { name: section.to_owned(), rows: vec![row] }),
        }
    }
    Some(sections)
}

/// The configuration as it was read, and what is not as safe as it could be.
pub(super) fn settings(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let snapshot = visit.snapshot().await?;
        let settings = visit.console.settings();
        let mut warnings = settings.warnings.clone();
        if let Some(lease) = settings.lease {
            warnings.extend(visit.look().warnings(lease).await?);
        }
        warnings.dedup();
        let config = settings.config.as_deref();
        let sections = config.and_then(sections).unwrap_or_default();
        let text = config.filter(|_| sections.is_empty()).map(str::to_owned);
        Ok(rendered(&SettingsPage {
            frame: visit.frame("/settings", &snapshot),
            problems: concern::of_warnings(&warnings),
            sections,
            text,
        }))
    })
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    queues: Vec<String>,
    queue: String,
    /// Not the first page.
    later: bool,
    entries: Vec<Entry>,
    next: Option<String>,
}

struct Entry {
    at: String,
    verb: String,
    what: String,
    by: String,
    reason: String,
    detail: String,
}

/// What was changed by hand.
pub(super) fn audit(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let queue = visit.field("queue");
        let after: Option<i64> = visit.fields.parsed("after", "what the last page said")?;
        let snapshot = visit.snapshot().await?;
        let of = visit.fields.name("queue")?;
        let found = visit.look().audit(of, after, ENTRIES).await?;
        Ok(rendered(&AuditPage {
            frame: visit.frame("/audit", &snapshot),
            queues: known(visit.console.queues(), &queue),
            queue,
            later: after.is_some(),
            entries: found.entries.into_iter().map(entry).collect(),
            next: found.next,
        }))
    })
}

/// The queues of the configuration, and the one that was asked for: what was done stays true when a queue is gone.
fn known(queues: &[String], asked: &str) -> Vec<String> {
    let gone = Some(asked.to_owned()).filter(|asked| !asked.is_empty() && !queues.contains(asked));
    queues.iter().cloned().chain(gone).collect()
}

fn entry(found: Audited) -> Entry {
    let by = match (found.by.user, found.by.host) {
        (Some(user), Some(host)) => format!("{user}@{host}"),
        (user, host) => user.or(host).unwrap_or_default(),
    };
    let reason = found.by.reason.unwrap_or_default();
    Entry { at: clock(&found.at), verb: found.verb, what: found.what, by, reason, detail: detail(found.detail) }
}

/// An error that a message had when it was retried or discarded.
#[derive(Deserialize)]
struct Failed {
    attempt: i64,
    error: String,
}

/// Of the errors of a message the last one; anything else as it is.
fn detail(text: String) -> String {
    let Ok(errors) = serde_json::from_str::<Vec<Failed>>(&text) else { return text };
    errors.last().map_or_else(String::new, |last| format!("attempt {}: {}", last.attempt, last.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_tells_the_last_error_in_words() {
        let history = r#"[{"attempt":1,"at":"x","error":"a"},{"attempt":2,"at":"y","error":"no address"}]"#;
        for (text, told) in [(history, "attempt 2: no address"), ("[]", ""), ("ready", "ready")] {
            assert_eq!(detail(text.to_owned()), told);
        }
    }

    #[test]
    fn settings_are_shown_by_section() {
        let found = sections("process.lease=30s\nqueues.a.rabbitmq=(queue a, x=1)\nprocess.poll=1s\n").expect("keys");
        let shown: Vec<_> = found.iter().map(|section| (&*section.name, section.rows.len())).collect();
        assert_eq!(shown, [("process", 2), ("queues", 1)]);
        assert_eq!(found[1].rows[0], ("a.rabbitmq".to_owned(), "(queue a, x=1)".to_owned()));
        assert!(sections("[database]\nurl = \"x\"").is_none());
    }
}
