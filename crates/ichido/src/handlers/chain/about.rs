//! What a handler says about itself: the line that `ichido check` prints, and what must be true of the queue around it so that
//! it can work. `order` reads the second part before anything runs.

use std::{borrow::Cow, fmt};

/// Where in the queue a handler stands: before the workers are started, or in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Once per process.
    Process,
    /// In every worker.
    Worker,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Process => "process",
            Scope::Worker => "worker",
        })
    }
}

/// A handler's line in the table that `ichido check` prints, and what it needs of the queue.
///
/// ```
/// # use ichido::handlers::{About, Scope};
/// About::new("tenant", "the tenant of the message", "", "")
///     .only(Scope::Worker)
///     .after(Scope::Worker, "read", "there is no message before it");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The handler's name, by which others are placed before or after it.
    pub name: Cow<'static, str>,
    /// On the way in.
    pub way_in: &'static str,
    /// On the way out.
    pub way_out: &'static str,
    /// On an error.
    pub on_error: &'static str,
    /// The only scope in which it works; none: both.
    pub scope: Option<Scope>,
    /// Only one of them may be in a scope.
    pub once: bool,
    /// What must come before it.
    pub needs: Vec<Need>,
}

/// Another handler that must come before this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// In which scope.
    pub scope: Scope,
    /// Its name.
    pub handler: &'static str,
    /// Must it be present at all? If not, only the order counts.
    pub required: bool,
    /// What goes wrong without it, for the error message.
    pub why: &'static str,
}

impl About {
    /// A handler with a name only.
    #[must_use]
    pub fn named(name: &'static str) -> Self {
        About { name: name.into(), ..About::default() }
    }

    /// A name, and what happens on the way in, on the way out and on an error.
    #[must_use]
    pub fn new(name: &'static str, way_in: &'static str, way_out: &'static str, on_error: &'static str) -> Self {
        About { way_in, way_out, on_error, ..About::named(name) }
    }

    /// It works in this scope only.
    #[must_use]
    pub fn only(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Only one of them may be in a scope.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// It works in a worker only, inside `loop`; `why` says what goes wrong otherwise.
    pub(crate) fn in_loop(self, why: &'static str) -> Self {
        self.only(Scope::Worker).after(Scope::Worker, "loop", why)
    }

    /// Requires this handler before it; `why` says what goes wrong otherwise.
    #[must_use]
    pub fn after(mut self, scope: Scope, handler: &'static str, why: &'static str) -> Self {
        self.needs.push(Need { scope, handler, required: true, why });
        self
    }

    /// Requires this handler, if present, to be before it; `why` says what goes wrong otherwise.
    #[must_use]
    pub fn after_any(mut self, scope: Scope, handler: &'static str, why: &'static str) -> Self {
        self.needs.push(Need { scope, handler, required: false, why });
        self
    }
}
