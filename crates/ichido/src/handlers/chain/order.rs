//! Is the order of a handler queue one that can work? Asked before anything runs, of what the handlers say about themselves.
//! The answer names the reason and the handler that should move.

use crate::{
    Error,
    error::Result,
    handlers::{About, CONCURRENCY, Scope, chain::about::Need},
};

/// A handler with the scope in which it stands.
pub(crate) type Row = (Scope, About);

/// Finds the first handler that cannot work where it stands. `rows` gives the queue again with one handler moved from a place
/// to before another, so that the advice is one that helps.
pub(crate) fn check(queue: &[Row], moved: impl Fn(usize, usize) -> Vec<Row>) -> Result<()> {
    let Some(broken) = broken(queue) else { return Ok(()) };
    Err(Error::Setup(format!("invalid handler queue: {}", broken.tell(queue, moved))))
}

/// What is wrong, and with which handler.
enum Broken<'a> {
    WrongScope { at: usize, right: Scope },
    Twice { first: usize, at: usize },
    Missing { at: usize, need: &'a Need },
    Late { at: usize, found: usize, need: &'a Need },
}

fn broken(queue: &[Row]) -> Option<Broken<'_>> {
    queue.iter().enumerate().find_map(|(at, (scope, about))| {
        let twin = queue[..at].iter().position(|(there, other)| there == scope && other.name == about.name);
        match (about.scope, twin) {
            (Some(right), _) if right != *scope => Some(Broken::WrongScope { at, right }),
            (_, Some(first)) if about.once => Some(Broken::Twice { first, at }),
            _ => about.needs.iter().find_map(|need| unmet(queue, at, need)),
        }
    })
}

fn unmet<'a>(queue: &[Row], at: usize, need: &'a Need) -> Option<Broken<'a>> {
    let is_it = |(scope, about): &Row| *scope == need.scope && about.name == need.handler;
    if queue[..at].iter().any(is_it) {
        return None;
    }
    // The scopes themselves may be wrong: what starts the workers may be the one that is out of place.
    let later = queue[at..].iter().position(is_it);
    let later = later.or_else(|| queue[at..].iter().position(|(_, about)| about.name == need.handler));
    match later {
        Some(after) => Some(Broken::Late { at, found: at + after, need }),
        None => need.required.then_some(Broken::Missing { at, need }),
    }
}

impl Broken<'_> {
    fn tell(&self, queue: &[Row], moved: impl Fn(usize, usize) -> Vec<Row>) -> String {
        let name = |at: usize| format!("`{}` ({}, {} scope)", queue[at].1.name, at + 1, queue[at].0);
        match *self {
            Broken::WrongScope { at, right } => {
                let side = if right == Scope::Worker { "after" } else { "before" };
                format!("{} works in {right} scope only; move it {side} `{CONCURRENCY}`", name(at))
            }
            Broken::Twice { first, at } => format!("{} repeats number {}; remove one of them", name(at), first + 1),
            Broken::Missing { at, need } => {
                let Need { scope, handler, why, .. } = need;
                format!("{} needs `{handler}` before it, in {scope} scope: {why}; add it", name(at))
            }
            Broken::Late { at, found, need } => {
                let way_out = if broken(&moved(found, at)).is_none() {
                    format!("move `{}` before `{}`", need.handler, queue[at].1.name)
                } else {
                    format!("move `{}` after `{}`", queue[at].1.name, need.handler)
                };
                format!("{} comes before {}: {}; {way_out}", name(at), name(found), need.why)
            }
        }
    }
}
