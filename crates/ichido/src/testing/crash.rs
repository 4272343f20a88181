//! Processes that die at a step of their messages, as if the machine had lost its power: nothing is rolled back, released or
//! told. For the handler queue of a process that a test starts and expects to die.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{Context, Error, Handler, HandlerQueue, Next, Outcome, Store, error::Result, handlers::Scope};

/// A step of a message on its way through a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// `claimed`: the message is in the worker's hands, and nothing has begun.
    Claimed,
    /// `acted`: the action is done, and the message is not completed.
    Acted,
    /// `committed`: effects and completion are committed, and nobody in the process knows it yet.
    Committed,
    /// `failed`: the action has failed, and the failure is not recorded.
    Failed,
    /// `recorded`: the failure is recorded.
    Recorded,
    /// `settled`: the message is done and has left the worker's hands.
    Settled,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 6] =
        [Step::Claimed, Step::Acted, Step::Committed, Step::Failed, Step::Recorded, Step::Settled];

    /// Its name, for a process that is told by its command line or its environment where to die.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Step::Claimed => "claimed",
            Step::Acted => "acted",
            Step::Committed => "committed",
            Step::Failed => "failed",
            Step::Recorded => "recorded",
            Step::Settled => "settled",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Step {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let there = Step::ALL.map(Step::name).join(", ");
        let found = Step::ALL.into_iter().find(|step| step.name() == text);
        found.ok_or_else(|| Error::Setup(format!("no step `{text}` (known: {there})")))
    }
}

/// Lets a process die, without a word to anybody, when its nth message (from 1 on) comes to this step: a change of its handler queue.
///
/// The steps are those of the worker's `read` and `transaction`. Nothing of this is in a process that does not ask for it.
///
/// ```standalone_crate
/// use std::process::Command;
/// use ichido::{Client, Context, Operate, Outcome, Pool, Process, Queue, Result};
/// use ichido::store::{Database, Transactions};
/// use ichido::testing::{self, Step};
/// use ichido_sqlite::Sqlite;
///
/// async fn greet(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
///     sqlx::query("insert into greeted (name) values (?)").bind(name).execute(cx.tx().await?).await?;
///     Ok(Outcome::Done)
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     // The test starts itself again, and that process is told where the database is.
///     if let Ok(url) = std::env::var("GREETINGS") {
///         let store = Sqlite::new(&url, vec![Queue::managed("mail")])?;
///         let process = Process::new(store).action_fn(Pool::new("Greet").from("mail"), greet);
///         process.handlers(testing::crash_at(Step::Acted, 2)).run().await?;
///         unreachable!("it dies at its second message");
///     }
///     let folder = tempfile::tempdir()?;
///     let url = format!("sqlite://{}", folder.path().join("test.db").display());
///     let store = Sqlite::new(&url, vec![Queue::managed("mail")])?;
///     store.migrate().await?;
///     let mut tx = store.begin().await?;
///     let connection = Sqlite::connection(&mut tx);
///     sqlx::query("create table greeted (name text)").execute(&mut *connection).await?;
///     Client::new(store.clone()).queue("mail").send_all(connection, &["anna", "ben", "chris"]).await?;
///     store.commit(tx).await?;
///
///     let ended = Command::new(std::env::current_exe()?).env("GREETINGS", &url).status()?;
///     assert!(!ended.success());
///
///     // What it had in its hands is done by the next process, and what it had done is not done again.
///     let process = Process::new(store.clone()).action_fn(Pool::new("Greet").from("mail"), greet);
///     testing::drain(process).await?.assert_all_done();
///     let mut tx = store.begin().await?;
///     let greeted = "select count(*) * 10 + count(distinct name) from greeted";
///     assert_eq!(sqlx::query_scalar::<_, i64>(greeted).fetch_one(Sqlite::connection(&mut tx)).await?, 33);
///     store.rollback(tx).await?;
///     Ok(())
/// }
/// ```
pub fn crash_at<S: Store>(
    step: Step,
    nth: u32,
) -> impl FnOnce(HandlerQueue<S>) -> Result<HandlerQueue<S>> + Send + 'static {
    let crash = Crash { step, nth, come: AtomicU32::new(0) };
    move |queue| match step {
        Step::Claimed => queue.after(Scope::Worker, "read", crash),
        Step::Acted | Step::Failed => queue.after(Scope::Worker, "transaction", crash),
        Step::Committed | Step::Recorded => queue.before(Scope::Worker, "transaction", crash),
        Step::Settled => queue.before(Scope::Worker, "read", crash),
    }
}

struct Crash {
    step: Step,
    nth: u32,
    come: AtomicU32,
}

impl Crash {
    fn come(&self) {
        if self.come.fetch_add(1, Ordering::SeqCst) + 1 == self.nth {
            eprintln!("ichido::testing: crashing this process; its message {} is {}", self.nth, self.step);
            std::process::abort();
        }
    }
}

impl<S: Store> Handler<S> for Crash {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        if self.step == Step::Claimed {
            self.come();
            return next.run(cx).await;
        }
        let result = next.run(cx).await;
        match (&result, self.step) {
            (Ok(Outcome::Done), Step::Acted | Step::Committed | Step::Settled) => self.come(),
            (Ok(Outcome::Done | Outcome::Stop | Outcome::Ended(_)), _) => {}
            (_, Step::Failed | Step::Recorded) => self.come(),
            _ => {}
        }
        result
    }
}
