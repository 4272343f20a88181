//! Somebody who looks at a page: who they are, what they asked for, and the frame around every page. [`show`] answers with a rendered page, with a
//! problem as a page, or with a stream of refreshed ones (`live`).

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use askama::Template;
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{Html, IntoResponse, Response},
};
use ichido::BoxFuture;

use super::{
    flash::{self, Flash},
    live, problem,
    snapshot::Snapshot,
    words::counted,
};
use crate::{Console, Problem, Role, Who, access::As, desk::Look, fields::Fields};

/// What of a request a page looks at.
pub(super) struct Asked {
    fields: Fields,
    flash: Option<Flash>,
    /// A browser wants to be told when the page changes.
    live: bool,
}

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let fields = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let accepts = parts.headers.get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok()).unwrap_or_default();
        let live = accepts.starts_with("text/event-stream");
        Ok(Asked { fields, flash: flash::read(&parts.headers), live })
    }
}

/// Somebody who looks at a page.
pub(super) struct Visit {
    pub(super) console: Console,
    pub(super) who: Who,
    pub(super) fields: Fields,
    flash: Option<Flash>,
    live: bool,
    lists: AtomicBool,
}

impl Visit {
    pub(super) fn new<R>(who: &As<R>, asked: Asked) -> Self {
        let Asked { fields, flash, live } = asked;
        let lists = AtomicBool::new(false);
        Visit { console: who.console().clone(), who: who.who().clone(), fields, flash, live, lists }
    }

    /// The page does not refresh itself.
    pub(super) fn still(mut self) -> Self {
        self.live = false;
        self
    }

    pub(super) fn look(&self) -> &dyn Look {
        self.console.look()
    }

    /// The same for a list, which costs the database more the longer the table has been in use: its page is refreshed less often.
    pub(super) fn lists(&self) -> &dyn Look {
        self.lists.store(true, Ordering::Relaxed);
        self.look()
    }

    /// Has a list been read for this page?
    pub(super) fn has_list(&self) -> bool {
        self.lists.load(Ordering::Relaxed)
    }

    /// How everything is doing, as of a moment ago.
    pub(super) async fn snapshot(&self) -> Result<Arc<Snapshot>, Problem> {
        self.console.0.snapshots.get(self.look()).await
    }

    /// A value of the query, or nothing.
    pub(super) fn field(&self, name: &str) -> String {
        self.fields.get(name).unwrap_or_default().to_owned()
    }

    /// The frame of a page that is in this place of the menu.
    pub(super) fn frame(&self, here: &'static str, snapshot: &Snapshot) -> Frame {
        Frame {
            base: self.console.base().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            here,
            user: self.who.name.clone(),
            role: self.who.role.as_str(),
            operates: self.who.role >= Role::Operate,
            administers: self.who.role >= Role::Admin,
            csrf: self.who.form_token.clone(),
            flash: self.flash.clone(),
            failed: snapshot.standing.overview.queues.iter().map(|queue| queue.failed).sum(),
            asof: snapshot.age(),
        }
    }
}

/// What is around every page.
pub(super) struct Frame {
    pub(super) base: String,
    pub(super) version: &'static str,
    here: &'static str,
    pub(super) user: Option<String>,
    pub(super) role: &'static str,
    pub(super) operates: bool,
    pub(super) administers: bool,
    pub(super) csrf: String,
    pub(super) flash: Option<Flash>,
    failed: i64,
    pub(super) asof: String,
}

pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) tabs: Vec<Tab>,
}

pub(super) struct Tab {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) here: bool,
    /// How many are there, where that is shown; empty if there is none.
    pub(super) count: Option<String>,
}

/// The menu.
const MENU: [(&str, &[(&str, &str)]); 3] = [
    ("Watch", &[("Overview", "/"), ("Queues", "/queues"), ("Lanes", "/lanes"), ("Processes", "/processes")]),
    ("Repair", &[("Failed", "/failed"), ("Doctor", "/doctor")]),
    ("Look up", &[("Handler queue", "/handlers"), ("Settings", "/settings"), ("Audit", "/audit")]),
];

impl Frame {
    /// Without anything that must be asked of a database: for problems.
    pub(super) fn bare(console: &Console, who: Option<&Who>) -> Self {
        let role = who.map(|who| who.role);
        Frame {
            base: console.base().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            here: "",
            user: who.and_then(|who| who.name.clone()),
            role: role.map_or("", Role::as_str),
            operates: role >= Some(Role::Operate),
            administers: role >= Some(Role::Admin),
            csrf: who.map(|who| who.form_token.clone()).unwrap_or_default(),
            flash: None,
            failed: 0,
            asof: String::new(),
        }
    }

    /// Does the page refresh itself? Not where looking costs more than a few counts, or nothing changes.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self.here, "/doctor" | "/settings")
    }

    pub(super) fn nav(&self) -> Vec<Group> {
        let tab = |(name, path): &(&'static str, &'static str)| {
            let failed = || if self.failed > 0 { counted(self.failed) } else { String::new() };
            let count = (*path == "/failed").then(failed);
            Tab { name, path, here: *path == self.here, count }
        };
        let group = |(name, tabs): &(&'static str, &[(&'static str, &'static str)])| Group {
            name,
            tabs: tabs.iter().filter(|(_, path)| self.administers || *path != "/settings").map(tab).collect(),
        };
        MENU.iter().map(group).collect()
    }
}

/// Renders a page.
pub(super) type Render = for<'a> fn(&'a Visit) -> BoxFuture<'a, Result<String, Problem>>;

/// Answers with a page, or with a stream of it.
pub(super) async fn show(visit: Visit, render: Render) -> Response {
    if let Err(why) = visit.fields.refuse_nul() {
        return problem(&visit.console, Some(&visit.who), &why);
    }
    if visit.live {
        return live::stream(visit, render);
    }
    match render(&visit).await {
        Ok(html) => {
            let mut response = Html(html).into_response();
            if visit.flash.is_some() {
                flash::clear(&visit.console, response.headers_mut());
            }
            response
        }
        Err(why) => problem(&visit.console, Some(&visit.who), &why),
    }
}

/// The text of a template. Writing to a text cannot fail.
pub(super) fn rendered(page: &impl Template) -> String {
    page.render().unwrap_or_default()
}

/// Leads on to another page of this console, which says this.
pub(super) fn go_on(console: &Console, to: &str, flash: &Flash) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers: &mut HeaderMap = response.headers_mut();
    if let Ok(to) = HeaderValue::from_str(&format!("{}{to}", console.base())) {
        headers.insert(header::LOCATION, to);
    }
    flash::set(console, flash, headers);
    response
}
