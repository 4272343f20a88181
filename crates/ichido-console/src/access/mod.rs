//! Who asks, and what they may do. A role is a type: a handler asks for [`As<Read>`](As), `As<Operate>` or `As<Admin>`, gets who asks with it, and
//! only the last two hand out what changes something. Programs show their token as `Authorization: Bearer`, browsers exchange it for a signed
//! cookie (`session`). Without tokens, whoever is on this host and asks by one of its own names may do everything (`origin`).

mod form;
mod login;
mod origin;
mod session;
mod throttle;
mod token;

use std::{
    marker::PhantomData,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{Extensions, HeaderMap, header, request::Parts},
    response::{IntoResponse, Response},
};
use ichido::store::By;
use serde::{Deserialize, Serialize};

pub use self::{form::CheckedForm, token::Token};
pub(crate) use self::{
    login::{inside, log_in, log_out},
    origin::{is_same_origin, why_not_here},
    session::Access,
};
use crate::{
    Console, Problem,
    desk::{Act, Look},
    pages,
};

/// What somebody may do. Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look at everything but the settings.
    Read,
    /// Send, cancel, move, retry and discard messages; stop and pause processes.
    Operate,
    /// Let the doctor repair, and see the settings.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Role; 3] = [Role::Read, Role::Operate, Role::Admin];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}

/// [`Role::Read`] as a type.
#[derive(Debug)]
pub enum Read {}
/// [`Role::Operate`] as a type.
#[derive(Debug)]
pub enum Operate {}
/// [`Role::Admin`] as a type.
#[derive(Debug)]
pub enum Admin {}

/// A role as a type.
pub trait IsRole: Send + Sync + 'static {
    /// The role.
    const ROLE: Role;
}

impl IsRole for Read {
    const ROLE: Role = Role::Read;
}
impl IsRole for Operate {
    const ROLE: Role = Role::Operate;
}
impl IsRole for Admin {
    const ROLE: Role = Role::Admin;
}

/// A role that may change something.
pub trait MayAct: IsRole {}
impl MayAct for Operate {}
impl MayAct for Admin {}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The name of their token; none without tokens.
    pub name: Option<String>,
    /// What they may do.
    pub role: Role,
    /// What a form must carry that is theirs.
    pub(crate) form_token: String,
}

/// The address from which somebody asks, as whoever accepts connections has seen it: an extension of the request. Where there is none, it is that
/// of axum's [`ConnectInfo`].
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Somebody who may do what `R` says. The first argument of every handler but those that are [`Public`].
pub struct As<R> {
    console: Console,
    who: Who,
    role: PhantomData<fn() -> R>,
}

impl<R> As<R> {
    /// Who it is.
    #[must_use]
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// May they do what this role may? For buttons.
    #[must_use]
    pub fn may(&self, role: Role) -> bool {
        self.who.role >= role
    }

    /// What the hidden field `csrf` of every form of theirs must hold.
    #[must_use]
    pub fn form_token(&self) -> &str {
        &self.who.form_token
    }

    /// The console.
    #[must_use]
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// What they may look at.
    #[must_use]
    pub fn look(&self) -> &dyn Look {
        self.console.look()
    }
}

impl<R: MayAct> As<R> {
    /// What they may change, in their name and for this reason: the audit has both.
    #[must_use]
    pub fn act(&self, reason: Option<String>) -> Arc<dyn Act> {
        let by = match &self.who.name {
            Some(name) => By::user(name),
            None => By::here(),
        };
        self.console.0.desk.acting(by.because(reason))
    }
}

impl<R: IsRole> FromRequestParts<Console> for As<R> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Response> {
        let refuse = |problem| refused(console, parts, None, problem);
        let who = console.0.access.who(&parts.headers, peer(&parts.extensions)).map_err(refuse)?;
        if who.role < R::ROLE {
            let (has, needs) = (who.role.as_str(), R::ROLE.as_str());
            let text = format!("this needs the role `{needs}`; your token has `{has}`");
            return Err(refused(console, parts, Some(&who), Problem::new(axum::http::StatusCode::FORBIDDEN, text)));
        }
        Ok(As { console: console.clone(), who, role: PhantomData })
    }
}

/// For programs a problem, for people a page: the one to log in, if that would help.
fn refused(console: &Console, parts: &Parts, who: Option<&Who>, problem: Problem) -> Response {
    if is_for_programs(parts.uri.path()) {
        return problem.into_response();
    }
    pages::refused(console, parts, who, &problem)
}

/// Are the answers there for programs, and not for people?
pub(crate) fn is_for_programs(path: &str) -> bool {
    path.starts_with("/api/") || path == "/metrics" || path == "/livez" || path == "/readyz"
}

/// Anybody: the first argument of a handler that asks for no role.
#[derive(Debug, Clone, Copy)]
pub struct Public;

impl<S: Sync> FromRequestParts<S> for Public {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Public)
    }
}

/// The address from which a request comes, if it is known.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    let connected = || extensions.get::<ConnectInfo<SocketAddr>>().map(|connected| connected.0.ip());
    extensions.get::<Peer>().map(|peer| peer.0).or_else(connected).map(|ip| ip.to_canonical())
}

/// The token that a program shows.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
