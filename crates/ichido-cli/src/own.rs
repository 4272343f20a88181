//! A program of the user's own: Rust actions and handlers under the command line of `ichido`. `lib` starts it, `program` makes a
//! process of it and the configuration.

use std::{any::Any, collections::BTreeMap, ffi::OsString, process::ExitCode};

use ichido::{
    Action, ActionFn, BatchAction, BoxFuture, Context, Handler, HandlerQueue, Outcome, Payload, Pool, Process, QueueOf,
    Registry, action::IntoAction, error::Result, handlers::Options,
};

use crate::{failure::Failure, open::Backend};

type AddAction<S> = Box<dyn FnOnce(Process<S>, Pool) -> Process<S> + Send>;
type Need = fn(Pool) -> Pool;
type Give<S> = Box<dyn FnOnce(Process<S>) -> Process<S> + Send>;
type Change<S> = Box<dyn FnOnce(HandlerQueue<S>) -> Result<HandlerQueue<S>> + Send>;

/// A program with actions and handlers of its own, on one kind of database, and the same commands as `ichido`.
///
/// ```no_run
/// use ichido::{Context, Outcome, Result};
/// use ichido_cli::Program;
/// use ichido_sqlite::Sqlite;
///
/// async fn greet(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
///     println!("{} {name}", cx.argument("greeting").unwrap_or("hello"));
///     Ok(Outcome::Done)
/// }
///
/// fn main() -> std::process::ExitCode {
///     Program::<Sqlite>::new().action_fn("Greet", greet).main()
/// }
/// ```
///
/// `[actions.Greet]` in `ichido.toml`, without `sql`, says where its messages come from and how many workers it has.
pub struct Program<S: Backend> {
    pub(crate) actions: BTreeMap<String, OwnAction<S>>,
    pub(crate) registry: Registry<S>,
    pub(crate) changes: Vec<Change<S>>,
    pub(crate) states: Vec<Give<S>>,
    pub(crate) needs: Vec<(String, Need)>,
}

/// An action in Rust, and the typed queue that it is for.
pub(crate) struct OwnAction<S: Backend> {
    add: AddAction<S>,
    queue: Option<&'static str>,
}

impl<S: Backend> OwnAction<S> {
    /// The process with this action, whose messages come `from` this queue or lane set.
    pub(crate) fn join(self, process: Process<S>, pool: Pool, from: &str) -> Result<Process<S>, String> {
        match self.queue {
            Some(queue) if queue != from => {
                Err(format!("this program's action is for messages of `{queue}`, not of `{from}`"))
            }
            _ => Ok((self.add)(process, pool)),
        }
    }
}

impl<S: Backend> Default for Program<S> {
    fn default() -> Self {
        Program {
            actions: BTreeMap::new(),
            registry: Registry::built_in(),
            changes: Vec::new(),
            states: Vec::new(),
            needs: Vec::new(),
        }
    }
}

impl<S: Backend> Program<S> {
    /// A program that adds nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Program::default()
    }

    /// The action of `[actions.NAME]` is a type.
    #[must_use]
    pub fn action(self, name: &str, action: impl Action<S>) -> Self {
        self.add(name, None, |process, pool| process.action(pool, action))
    }

    /// The action of `[actions.NAME]` gets all messages of a transaction together; its `commit_interval` says how many at most.
    #[must_use]
    pub fn batch_action(self, name: &str, action: impl BatchAction<S>) -> Self {
        self.add(name, None, |process, pool| process.batch_action(pool, action))
    }

    /// The action of `[actions.NAME]` is an async function `fn(&mut Context<S>, T) -> Result<Outcome>`.
    #[must_use]
    pub fn action_fn<T: Payload, F: for<'a> ActionFn<'a, S, T>>(self, name: &str, function: F) -> Self {
        self.add(name, None, |process, pool| process.action_fn(pool, function))
    }

    /// The action of `[actions.NAME]`, a type or an async function, is for the messages of this typed queue: one for other messages
    /// does not compile, and another queue or lane set in `from` is refused.
    #[must_use]
    pub fn on<T: 'static, How>(
        self,
        queue: &QueueOf<T>,
        name: &str,
        action: impl IntoAction<S, T, How> + Send + 'static,
    ) -> Self {
        let queue = *queue;
        self.add(name, Some(queue.name()), move |process, pool| process.on(&queue, pool, action))
    }

    fn add(
        mut self,
        name: &str,
        queue: Option<&'static str>,
        add: impl FnOnce(Process<S>, Pool) -> Process<S> + Send + 'static,
    ) -> Self {
        self.actions.insert(name.to_owned(), OwnAction { add: Box::new(add), queue });
        self
    }

    /// The action of `[actions.NAME]` is a closure that captures; see [`Process::action_closure`].
    #[must_use]
    pub fn action_closure<T, F>(self, name: &str, closure: F) -> Self
    where
        T: Payload,
        F: for<'a> Fn(&'a mut Context<S>, T) -> BoxFuture<'a, ichido::Result<Outcome>> + Send + Sync + 'static,
    {
        self.add(name, None, |process, pool| process.action_closure(pool, closure))
    }

    /// What actions and handlers get by `cx.state::<T>()`; see [`Process::state`].
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.push(Box::new(|process| process.state(value)));
        self
    }

    /// The action of `[actions.NAME]` asks for state of this type; see [`Pool::needs`].
    #[must_use]
    pub fn needs<T: Send + Sync + 'static>(mut self, name: &str) -> Self {
        self.needs.push((name.to_owned(), Pool::needs::<T>));
        self
    }

    /// A handler that `ichido.toml` can put into a queue by this name, with options.
    #[must_use]
    pub fn handler<H: Handler<S>>(
        mut self,
        name: &str,
        make: impl Fn(&mut Options) -> Result<H> + Send + Sync + 'static,
    ) -> Self {
        self.registry = self.registry.add(name, make);
        self
    }

    /// Changes the handler queue, before the configuration does.
    #[must_use]
    pub fn handlers(
        mut self,
        change: impl FnOnce(HandlerQueue<S>) -> Result<HandlerQueue<S>> + Send + 'static,
    ) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Runs the command line of this process and returns the exit code.
    #[must_use]
    pub fn main(self) -> ExitCode {
        self.run(std::env::args_os()).into()
    }

    /// Runs this command line, whose first word is the program's name, and returns the exit code.
    pub fn run(self, args: impl IntoIterator<Item = OsString>) -> u8 {
        crate::start(&args.into_iter().collect::<Vec<_>>(), Parts::of(self))
    }
}

/// A [`Program`] of any kind of database, or none, on its way to the command that knows the kind.
pub(crate) struct Parts(Option<(Box<dyn Any + Send>, &'static str)>);

impl Parts {
    pub(crate) fn none() -> Self {
        Parts(None)
    }

    fn of<S: Backend>(program: Program<S>) -> Self {
        Parts(Some((Box::new(program), short_name::<S>())))
    }

    pub(crate) fn program<S: Backend>(self) -> Result<Program<S>, Failure> {
        let Some((program, store)) = self.0 else { return Ok(Program::new()) };
        let found = short_name::<S>();
        let wrong = |_| {
            let text = format!("database.url: this program's actions are for {store}, but the database is {found}");
            Failure::usage(text)
        };
        program.downcast::<Program<S>>().map(|program| *program).map_err(wrong)
    }
}

fn short_name<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.rsplit("::").next().unwrap_or(path)
}
