//! Handlers by name, with options: how a configuration changes the handler queue. Programs add handlers of their own under
//! names of their own; a name or an option that nobody knows is refused with the one that was probably meant.

use std::{collections::BTreeMap, fmt::Display, ops::RangeInclusive, str::FromStr, sync::Arc};

use crate::{
    Context, Error, Handler, HandlerQueue, Next, Outcome, Store,
    error::Result,
    handlers::{About, Availability, Elapsed, Files, RateLimit, Scope, SetContext, Single, chain::Link, suggestion},
};

/// One handler of a queue, as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The handler's name.
    pub name: String,
    /// Where it is put; none: in the order of the list, which then is the whole queue.
    pub place: Option<Placement>,
    /// Its options.
    pub options: BTreeMap<String, String>,
}

/// Beside which other handler one is put: `read`, or `worker transaction` where the name is in both scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Before it.
    Before(String),
    /// After it.
    After(String),
}

/// The options of a handler. Each getter removes its option and remembers the name, so that what is left is unknown.
#[derive(Debug)]
pub struct Options {
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Options {
    fn new(given: BTreeMap<String, String>) -> Self {
        Options { given, known: Vec::new() }
    }

    /// A text, or none.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.given.remove(name)
    }

    /// Anything that is read from a text, such as a number or a flag; or none.
    ///
    /// # Errors
    /// [`Error::Setup`] if it cannot be read.
    pub fn parsed<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|why| Error::Setup(format!("option `{name}`: \"{text}\": {why}")))
    }

    /// A whole number in this range; the default if it is not there.
    ///
    /// # Errors
    /// [`Error::Setup`] if it is none or outside, or if there is neither it nor a default.
    pub fn whole(&mut self, name: &'static str, range: RangeInclusive<u64>, default: Option<u64>) -> Result<u64> {
        let (least, most) = (range.start(), range.end());
        match self.parsed(name)?.or(default) {
            Some(number) if range.contains(&number) => Ok(number),
            Some(number) => {
                Err(Error::Setup(format!("option `{name}`: {number} is out of range; use {least} to {most}")))
            }
            None => Err(Error::Setup(format!("option `{name}` is missing; set it to a number from {least} to {most}"))),
        }
    }

    fn finish(self) -> Result<()> {
        let Some(name) = self.given.keys().next() else { return Ok(()) };
        let hint = suggestion(name, self.known.iter().copied());
        let known = if self.known.is_empty() { "none".into() } else { self.known.join(", ") };
        Err(Error::Setup(format!("no option `{name}` (known: {known}){hint}")))
    }
}

type Make<S> = Box<dyn Fn(&mut Options) -> Result<Link<S>> + Send + Sync>;

/// Handlers by name.
pub struct Registry<S: Store> {
    makers: BTreeMap<String, Make<S>>,
}

impl<S: Store> Registry<S> {
    /// The handlers that come with ichido and are not in the standard queue.
    #[must_use]
    pub fn built_in() -> Self {
        Registry { makers: BTreeMap::new() }
            .add("availability", |_| Ok(Availability))
            .add("context", |options| Ok(SetContext::from_options(options)))
            .add("elapsed", Elapsed::from_options)
            .add("files", Files::from_options)
            .add("rate limit", RateLimit::from_options)
            .add("single", Single::from_options)
    }

    /// Adds a handler of your own under this name.
    #[must_use]
    pub fn add<H: Handler<S>>(
        mut self,
        name: &str,
        make: impl Fn(&mut Options) -> Result<H> + Send + Sync + 'static,
    ) -> Self {
        let own: Arc<str> = name.into();
        let make = move |options: &mut Options| -> Result<Link<S>> {
            Ok(Arc::new(Named { handler: make(options)?, name: own.clone() }))
        };
        self.makers.insert(name.to_owned(), Box::new(make));
        self
    }

    /// The queue that these entries make of another one. Entries without a place are the whole queue, in order; if there is
    /// none of them, the other queue stays. Then those with a place are put in.
    ///
    /// # Errors
    /// [`Error::Setup`] for a name, a place or an option that nobody knows.
    pub fn apply(&self, base: &HandlerQueue<S>, entries: &[Entry]) -> Result<HandlerQueue<S>> {
        let listed: Vec<_> = entries.iter().filter(|entry| entry.place.is_none()).collect();
        let mut queue = if listed.is_empty() { base.clone() } else { self.list(base, &listed)? };
        for entry in entries {
            let (name, after) = match &entry.place {
                Some(Placement::Before(name)) => (name, 0),
                Some(Placement::After(name)) => (name, 1),
                None => continue,
            };
            let at = place(&queue, name)? + after;
            queue = queue.put(at, self.make(entry)?);
        }
        Ok(queue)
    }

    fn list(&self, base: &HandlerQueue<S>, entries: &[&Entry]) -> Result<HandlerQueue<S>> {
        let names: Vec<_> = base.about().collect();
        if let Some(first) = entries.first()
            && !entries.iter().any(|entry| names.iter().any(|(_, about)| about.name == entry.name))
        {
            self.make(first)?;
            let name = &first.name;
            let example = format!("{{ name = \"{name}\", before = \"read\" }}");
            return Err(Error::Setup(format!(
                "a list of names replaces the whole queue; to add `{name}` to the existing one, say where: {example}"
            )));
        }
        let mut queue = HandlerQueue::empty();
        let mut scope = Scope::Process;
        for entry in entries {
            let is_whole = names.iter().any(|(_, about)| about.name == entry.name);
            let (wanted, name) = if is_whole { (None, &*entry.name) } else { scoped(&entry.name) };
            if let Some(wanted) = wanted.filter(|wanted| *wanted != scope) {
                return Err(misplaced(&entry.name, wanted));
            }
            let same =
                |(at, (there, about)): (usize, &(Scope, About))| (about.name == name).then_some((*there != scope, at));
            let found = names.iter().enumerate().filter_map(same).min();
            let link = match found {
                Some((_, at)) if entry.options.is_empty() => base.handlers[at].clone(),
                _ => self.make(entry)?,
            };
            if link.about(scope).name == crate::handlers::CONCURRENCY {
                scope = Scope::Worker;
            }
            queue.handlers.push(link);
        }
        Ok(queue)
    }

    fn make(&self, entry: &Entry) -> Result<Link<S>> {
        let Entry { name, options, .. } = entry;
        let Some(make) = self.makers.get(name) else {
            let known = || self.makers.keys().map(String::as_str);
            let list = known().collect::<Vec<_>>().join(", ");
            let hint = suggestion(name, known());
            let standard = "handlers of the standard queue can only be listed by name, without options";
            return Err(Error::Setup(format!("no handler `{name}` to add (known: {list}; {standard}){hint}")));
        };
        let mut options = Options::new(options.clone());
        let link = make(&mut options).and_then(|link| options.finish().map(|()| link));
        link.map_err(|error| Error::Setup(format!("handler `{name}`: {error:#}")))
    }
}

/// A name in a list, and the scope that may stand before it: `process connection`.
fn scoped(text: &str) -> (Option<Scope>, &str) {
    match text.split_once(' ') {
        Some(("process", name)) => (Some(Scope::Process), name),
        Some(("worker", name)) => (Some(Scope::Worker), name),
        _ => (None, text),
    }
}

fn misplaced(text: &str, wanted: Scope) -> Error {
    let concurrency = crate::handlers::CONCURRENCY;
    let side = if wanted == Scope::Process { "before" } else { "after" };
    Error::Setup(format!("`{text}` must stand {side} `{concurrency}`, which begins the workers' part of the list"))
}

/// Where the handler with this name stands; `worker` or `process` before the name says which one, if there are two.
fn place<S: Store>(queue: &HandlerQueue<S>, text: &str) -> Result<usize> {
    let found: Vec<_> = queue.about().enumerate().filter(|(_, (_, about))| about.name == text).collect();
    match found[..] {
        [(at, _)] => Ok(at),
        [] => match scoped(text) {
            (Some(scope), name) => queue.position(scope, name),
            (None, name) => queue.position(Scope::Worker, name),
        },
        _ => Err(Error::Setup(format!("`{text}` is ambiguous; write `process {text}` or `worker {text}`"))),
    }
}

/// A handler under the name that the configuration knows.
struct Named<H> {
    handler: H,
    name: Arc<str>,
}

impl<S: Store, H: Handler<S>> Handler<S> for Named<H> {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        self.handler.handle(cx, next).await
    }

    async fn start(&self, cx: &mut Context<S>) -> crate::Result<()> {
        self.handler.start(cx).await
    }

    fn about(&self, scope: Scope) -> About {
        About { name: self.name.to_string().into(), ..self.handler.about(scope) }
    }
}
