//! One run of an action: the message, the context and the transaction of a worker, without the process around it. The
//! transaction is never committed; the test looks at what was written through it.

use std::{marker::PhantomData, path::PathBuf, sync::Arc};

use serde::Serialize;

use super::Ran;
use crate::{
    Action, ActionFn, BatchAction, BoxFuture, CancellationToken, Context, Delivery, Error, Key, Masks, Message,
    Outcome, Payload, RetryPolicy, Store,
    action::{
        DynAction, Function, OneByOne, Request, batch_action::Together, callbacks::Callback, files::Stage, slot::Slot,
    },
    error::Result,
    observe::journal::Journal,
    process::{
        Clock, SystemClock,
        record::{caught, failure},
    },
    store,
};

/// Runs an action in a transaction that is rolled back.
///
/// ```
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Order { id: i64, name: String }
/// # #[tokio::main]
/// # async fn main() -> ichido::Result<()> {
/// # use ichido::Operate;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}", folder.path().join("test.db").display());
/// # let store = ichido_sqlite::Sqlite::new(&url, vec![ichido::Queue::managed("mail")])?;
/// # store.migrate().await?;
/// # let mut tx = ichido::store::Transactions::begin(&store).await?;
/// # sqlx::query("create table project (id integer, name text)").execute(<ichido_sqlite::Sqlite as ichido::store::Database>::connection(&mut tx)).await?;
/// # ichido::store::Transactions::commit(&store, tx).await?;
/// use ichido::{Context, Outcome, Result, testing::Run};
/// use ichido_sqlite::Sqlite;
///
/// async fn create_project(cx: &mut Context<Sqlite>, order: Order) -> Result<Outcome> {
///     let insert = sqlx::query("insert into project (id, name) values (?, ?)").bind(order.id).bind(&order.name);
///     insert.execute(cx.tx().await?).await?;
///     cx.send("mail", &format!("project {} is there", order.name)).await?;
///     Ok(Outcome::Done)
/// }
///
/// let order = Order { id: 42, name: "kai".into() };
/// let mut ran = Run::new(store).message(&order).action_fn(create_project).await;
///
/// assert_eq!(ran.outcome(), &Outcome::Done);
/// let name: String = sqlx::query_scalar("select name from project where id = 42").fetch_one(ran.tx().await?).await?;
/// assert_eq!(name, "kai");
/// ran.assert_sent("mail").with(&"project kai is there").once();
/// ran.roll_back().await; // nothing of it was ever there
/// # Ok(()) }
/// ```
///
/// The action runs as it does in a worker, and when it says that it is done, the transaction must prove that it is still the
/// one that was begun: an action that commits by itself, or goes on after an error that has broken its transaction, fails here too.
/// `transaction_success` runs in that transaction; after a failure it is rolled back, and what is seen is what `transaction_failure`
/// writes. Nothing is claimed and nothing is recorded. Handlers, timeout, isolation level and the callbacks around the workers belong to
/// a process: see [`drain`](super::drain).
pub struct Run<S: Store> {
    store: S,
    queue: Arc<str>,
    messages: Vec<Delivery>,
    clock: Arc<dyn Clock>,
    request: Request,
    prepare: Vec<Prepare<S>>,
    folder: Option<PathBuf>,
}

type Prepare<S> = Box<dyn FnOnce(&mut Context<S>) + Send>;

impl<S: Store> Run<S> {
    /// A run on this store, without a message yet.
    pub fn new(store: S) -> Self {
        Run {
            store,
            queue: "test".into(),
            messages: Vec::new(),
            clock: Arc::new(SystemClock),
            request: Request::path("test"),
            prepare: Vec::new(),
            folder: None,
        }
    }

    /// The queue that the messages seem to come from: a part of their ids. It need not be there.
    #[must_use]
    pub fn from(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.queue = queue.into();
        for delivery in &mut self.messages {
            delivery.message.queue = self.queue.clone();
        }
        self
    }

    /// The message. Given several times: several messages in one transaction, as with a commit interval.
    ///
    /// # Panics
    /// If it cannot be written as JSON.
    #[must_use]
    #[track_caller]
    pub fn message(self, message: &impl Serialize) -> Self {
        self.json(serde_json::to_vec(message).expect("a message can be written as JSON"))
    }

    /// A message as it would come, right or wrong.
    #[must_use]
    pub fn json(mut self, payload: impl Into<Vec<u8>>) -> Self {
        let key = Key::new([(self.messages.len() + 1).to_string()]);
        self.messages.push(Delivery::unclaimed(Message::new(self.queue.clone(), key, payload.into())));
        self
    }

    /// The key of the message given last; else it is its number, from 1 on.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.last(|delivery| delivery.message.key = Key::new([key.into()]))
    }

    /// A header of the message given last.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.last(|delivery| drop(delivery.message.headers.insert(name.into(), value.into())))
    }

    /// Which attempt this is for the message given last; else it is the first.
    #[must_use]
    pub fn attempt(self, attempt: u32) -> Self {
        self.last(|delivery| delivery.attempt = attempt)
    }

    fn last(mut self, change: impl FnOnce(&mut Delivery)) -> Self {
        change(self.messages.last_mut().expect("give the message first"));
        self
    }

    /// The user on whose behalf the action runs.
    #[must_use]
    pub fn user_id(mut self, user: impl Into<String>) -> Self {
        self.request = self.request.user_id(user);
        self
    }

    /// What is said after `--` on the command line.
    #[must_use]
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request = self.request.argument(name, value);
        self
    }

    /// What the process would have by [`Process::state`](crate::Process::state).
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.prepare.push(Box::new(|cx| cx.state.insert(value)));
        self
    }

    /// A value that a handler would have put into the context.
    #[must_use]
    pub fn value<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.prepare.push(Box::new(|cx| cx.insert(value)));
        self
    }

    /// The folder of the handler `files`, below which the action writes; [`Ran::file`] tells what, and nothing of it stays.
    #[must_use]
    pub fn files_below(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Uses another clock, such as a [`Dial`](super::Dial).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Runs an action that is an async function.
    pub async fn action_fn<T, F>(self, function: F) -> Ran<S>
    where
        T: Payload,
        F: for<'a> ActionFn<'a, S, T>,
    {
        self.action(Function(function, PhantomData)).await
    }

    /// Runs an action that is a closure.
    pub async fn action_closure<T, F>(self, closure: F) -> Ran<S>
    where
        T: Payload,
        F: for<'a> Fn(&'a mut Context<S>, T) -> BoxFuture<'a, crate::Result<Outcome>> + Send + Sync + 'static,
    {
        self.action_fn(closure).await
    }

    /// Runs an action, for each message one after the other until one is not done.
    pub async fn action(self, action: impl Action<S>) -> Ran<S> {
        self.run(&OneByOne(action)).await
    }

    /// Runs a batch action, for all messages together.
    pub async fn batch_action(self, action: impl BatchAction<S>) -> Ran<S> {
        self.run(&Together(action)).await
    }

    async fn run(mut self, action: &dyn DynAction<S>) -> Ran<S> {
        let folder = self.folder.take();
        let mut cx = self.context();
        let mut result = match caught(Box::pin(act(&mut cx, action, folder))).await {
            Ok(Outcome::Done) => prove(&mut cx).await.map(|()| Outcome::Done),
            other => other,
        };
        if !matches!(result, Ok(Outcome::Done)) {
            cx.roll_back().await;
            result = tell(&mut cx, action, result).await;
        }
        Ran { cx, result }
    }

    /// The context of a worker with these messages in hand.
    fn context(self) -> Context<S> {
        let user = self.request.user_id.clone().unwrap_or_default();
        let journal = Arc::new(Journal::new(Masks::default(), String::new(), self.clock.now()));
        let mut cx = Context::new(self.store, self.clock, CancellationToken::new(), self.request, journal);
        (cx.connected, cx.in_worker, cx.noted) = (true, true, Some(Vec::new()));
        (cx.identity.request_id, cx.identity.user_id) = ("test".into(), user.into());
        self.messages.into_iter().for_each(|delivery| cx.batch.push(delivery));
        self.prepare.into_iter().for_each(|prepare| prepare(&mut cx));
        cx
    }
}

/// Runs the action, and lets it object to its success.
async fn act<S: Store>(cx: &mut Context<S>, action: &dyn DynAction<S>, folder: Option<PathBuf>) -> Result<Outcome> {
    if let Some(folder) = folder {
        cx.stage = Some(Arc::new(Stage::open(folder, false).await?));
    }
    let places: Vec<_> = match cx.batch.window().len() {
        0 => return Err(Error::Setup("there is no message to run; give one with `message`".into())),
        _ if action.takes_many() => vec![None],
        many => (0..many).map(Some).collect(),
    };
    for place in &places {
        cx.batch.turn_to(*place);
        match action.run(cx).await {
            Ok(Outcome::Done) => {}
            other => return other,
        }
    }
    for place in places {
        cx.batch.turn_to(place);
        action.call_back(cx, Callback::TransactionSuccess).await?;
    }
    Ok(Outcome::Done)
}

/// What the action has to say about its failure, in a transaction of its own.
async fn tell<S: Store>(cx: &mut Context<S>, action: &dyn DynAction<S>, result: Result<Outcome>) -> Result<Outcome> {
    let spared = matches!(&result, Err(error) if error.is_transient::<S>() || matches!(error, Error::Setup(_)));
    let (Ok(delivery), false) = (cx.delivery(), spared) else { return result };
    let failure = failure::<S>(delivery, &result, &RetryPolicy::default(), &cx.journal.masks);
    let said = Error::Failed(failure.error.clone().into());
    let error = result.as_ref().err().unwrap_or(&said);
    let told = caught(action.call_back(cx, Callback::TransactionFailure(error, &failure))).await;
    match told {
        Ok(()) => result,
        Err(second) => Err(format!("{}; then `transaction_failure` failed: {second:#}", failure.error).into()),
    }
}

/// What a worker asks of the transaction before it commits.
async fn prove<S: Store>(cx: &mut Context<S>) -> Result<()> {
    let store = cx.store.clone();
    let deliveries: Vec<_> = cx.batch.window().iter().map(Delivery::copy).collect();
    match &mut cx.slot {
        Slot::Open(tx) => store::complete(&store, tx, &deliveries).await,
        _ => Ok(()),
    }
}
