//! Pages to look things up: the handler queue, the settings and the audit.

use askama::Template;
use ichido::{
    BoxFuture,
    stat::{WINDOW, spell},
    store::Audited,
};

use super::{
    concern::{self, Concern},
    visit::{Frame, Visit, rendered},
    words::{grouped, milliseconds, plural, whole},
};
use crate::{Chain, Problem};

/// So many entries of the audit.
const ENTRIES: u32 = 200;

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
    config: Option<String>,
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
        Ok(rendered(&SettingsPage {
            frame: visit.frame("/settings", &snapshot),
            problems: concern::of_warnings(&warnings),
            config: settings.config.clone(),
        }))
    })
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    queues: Vec<String>,
    queue: String,
    note: String,
    entries: Vec<Entry>,
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
        let snapshot = visit.snapshot().await?;
        let found = visit.look().audit(Some(queue.clone()).filter(|queue| !queue.is_empty()), ENTRIES).await?;
        let note = if found.len() < ENTRIES as usize {
            plural(found.len(), "entry").replace("entrys", "entries")
        } else {
            format!("the last {ENTRIES}")
        };
        Ok(rendered(&AuditPage {
            frame: visit.frame("/audit", &snapshot),
            queues: visit.console.queues().to_vec(),
            queue,
            note,
            entries: found.into_iter().map(entry).collect(),
        }))
    })
}

fn entry(found: Audited) -> Entry {
    let by = match (found.by.user, found.by.host) {
        (Some(user), Some(host)) => format!("{user}@{host}"),
        (user, host) => user.or(host).unwrap_or_default(),
    };
    let reason = found.by.reason.unwrap_or_default();
    Entry { at: found.at, verb: found.verb, what: found.what, by, reason, detail: found.detail }
}
