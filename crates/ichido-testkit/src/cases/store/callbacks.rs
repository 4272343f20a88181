//! An action's callbacks: in which transaction each of them runs, and what becomes of one that fails.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use ichido::{
    Action, Context, Error, Failure, Handler, Next, Outcome, Pool, Process, Result, RetryPolicy, Store,
    action::CommitOn, handlers::Scope, store::Database,
};
use serde::Deserialize;
use tokio::sync::Notify;

use crate::{
    faults::{Fault, Scene, Verb},
    fixture::{Connection, Fixture, effects, failed, send_orders},
    in_time,
};

#[derive(Deserialize)]
struct Order {
    name: Option<String>,
}

type Diary<S> = fn(&mut <S as Database>::Connection, String) -> ichido::BoxFuture<'_, Result<()>>;

/// An action that keeps a diary in the ledger, one line for each time that it is called. What it is told to fail at, it fails at.
struct Diarist<S: Store> {
    write: Diary<S>,
    fails: &'static str,
}

impl<S: Store> Diarist<S> {
    async fn line(&self, cx: &mut Context<S>, called: &str, what: &str) -> Result<()> {
        let line = format!("insert into ledger (message, who) values ('{called}', '{what}')");
        (self.write)(cx.tx().await?, line).await?;
        if called == self.fails { Err(format!("{called} is wrong").into()) } else { Ok(()) }
    }
}

impl<S: Store> Action<S> for Diarist<S> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<S>, order: Order) -> Result<Outcome> {
        let id = cx.message_id()?.to_string();
        let seen = format!(
            "insert into ledger (message, who) select 'saw initialize', '{id}' from ledger where message = 'initialize'"
        );
        (self.write)(cx.tx().await?, seen).await?;
        self.line(cx, "handle", &id).await?;
        match order.name.as_deref() {
            Some("error") => Err("a bad order".into()),
            Some("panic") => panic!("a worse order"),
            Some("park") => Ok(Outcome::park("an odd order")),
            _ => Ok(Outcome::Done),
        }
    }

    async fn initialize(&self, cx: &mut Context<S>) -> Result<()> {
        self.line(cx, "initialize", cx.request_id().to_owned().as_str()).await
    }

    async fn transaction_success(&self, cx: &mut Context<S>) -> Result<()> {
        let id = cx.message_id()?.to_string();
        self.line(cx, "success", &id).await
    }

    async fn transaction_failure(&self, cx: &mut Context<S>, error: &Error, failure: &Failure) -> Result<()> {
        let again = if failure.retry_after.is_some() { "again" } else { "for good" };
        let mut text = String::new();
        write!(text, "{} {again}: {error}", cx.message_id()?)?;
        self.line(cx, "failure", &text).await
    }

    async fn error(&self, cx: &mut Context<S>, error: &Error) -> Result<()> {
        self.line(cx, "error", &error.to_string()).await
    }

    async fn terminate(&self, cx: &mut Context<S>, ended: &Result<Outcome>) -> Result<()> {
        self.line(cx, "terminate", if ended.is_ok() { "well" } else { "badly" }).await
    }
}

fn diary<F: Fixture>(connection: &mut Connection<F>, statement: String) -> ichido::BoxFuture<'_, Result<()>> {
    Box::pin(F::through(connection, statement))
}

fn diarist<F: Fixture>(fails: &'static str) -> Diarist<F::Store> {
    Diarist { write: diary::<F>, fails }
}

fn orders() -> Pool {
    let retry =
        RetryPolicy { attempts: 2, first: Duration::from_millis(1), max: Duration::from_millis(2), factor: 1.0 };
    Pool::new("Diarist").from("orders").concurrency(2).retry(retry)
}

async fn with_names<F: Fixture>(names: &[&str]) -> F {
    let fixture = F::fresh().await;
    send_orders(&fixture, names.len().try_into().unwrap()).await;
    for (at, name) in names.iter().enumerate() {
        fixture.sql(&format!("update received_order set name = '{name}' where id = {}", at + 1)).await;
    }
    fixture
}

async fn run<S: Store>(process: Process<S>) -> i32 {
    let process = process.poll(Duration::from_millis(5)).drain();
    in_time("the process ends", process.run()).await.unwrap()
}

async fn lines<F: Fixture>(fixture: &F, called: &str) -> i64 {
    fixture.number(&format!("select count(*) from ledger where message = '{called}'")).await
}

async fn line<F: Fixture>(fixture: &F, called: &str, what: &str) -> i64 {
    let of = format!("select count(*) from ledger where message = '{called}' and who = '{what}'");
    fixture.number(&of).await
}

pub async fn each_callback_runs_in_the_transaction_that_is_its_own<F: Fixture>() {
    let fixture: F = with_names(&["", "error", "park", "panic", ""]).await;
    assert_eq!(run(Process::new(fixture.store()).action(orders(), diarist::<F>(""))).await, 0);
    assert_eq!(line(&fixture, "initialize", "Diarist").await, 1);
    assert_eq!(lines(&fixture, "saw initialize").await, 2, "committed before the workers started");
    assert_eq!((lines(&fixture, "handle").await, lines(&fixture, "success").await), (2, 2), "of what is done only");
    let told = [
        ("orders/2 again: a bad order", 1),
        ("orders/2 for good: a bad order", 1),
        ("orders/3 for good: an odd order", 1),
        ("orders/4 again: panic: a worse order", 1),
        ("orders/4 for good: panic: a worse order", 1),
    ];
    for (text, times) in told {
        assert_eq!(line(&fixture, "failure", text).await, times, "{text}");
    }
    assert_eq!(lines(&fixture, "failure").await, 5, "what the action wrote before is rolled back, this is not");
    assert_eq!((lines(&fixture, "error").await, line(&fixture, "terminate", "well").await), (0, 1));
}

pub async fn a_failing_success_fails_its_message<F: Fixture>() {
    let fixture: F = with_names(&["", ""]).await;
    assert_eq!(run(Process::new(fixture.store()).action(orders(), diarist::<F>("success"))).await, 0);
    let failed: Vec<_> = failed(&fixture).await.into_iter().map(|(_, attempts, error)| (attempts, error)).collect();
    assert_eq!(failed, vec![(2, "success is wrong".to_owned()); 2]);
    assert_eq!((lines(&fixture, "handle").await, lines(&fixture, "success").await), (0, 0));
    assert_eq!(lines(&fixture, "failure").await, 4);
}

pub async fn a_failing_failure_does_not_hide_the_first_one<F: Fixture>() {
    for pool in [orders(), orders().commit_on(CommitOn::Error)] {
        let fixture: F = with_names(&["error"]).await;
        assert_eq!(run(Process::new(fixture.store()).action(pool, diarist::<F>("failure"))).await, 0);
        let text = "a bad order; then `transaction_failure` failed: failure is wrong";
        assert_eq!(failed(&fixture).await, [("orders/1".to_owned(), 2, text.to_owned())]);
        assert_eq!((lines(&fixture, "handle").await, lines(&fixture, "failure").await), (0, 0));
    }
}

pub async fn what_is_said_of_a_committed_failure_is_committed_with_it<F: Fixture>() {
    let fixture: F = with_names(&["error"]).await;
    let pool = orders().commit_on(CommitOn::Error);
    assert_eq!(run(Process::new(fixture.store()).action(pool, diarist::<F>(""))).await, 0);
    assert_eq!(failed(&fixture).await, [("orders/1".to_owned(), 1, "a bad order".to_owned())]);
    assert_eq!((lines(&fixture, "handle").await, lines(&fixture, "failure").await), (1, 1));
    assert_eq!(line(&fixture, "failure", "orders/1 for good: a bad order").await, 1);
}

pub async fn a_failure_is_told_once_though_its_commits_reply_is_lost<F: Fixture>() {
    for harm in [Fault::ReplyLost, Fault::Unreachable] {
        let scene = Scene::<F>::new(1).await;
        scene.fixture.sql("update received_order set name = 'park'").await;
        let action = Diarist { write: diary::<F>, fails: "" };
        let faults = scene.faults.clone();
        let process = scene.process().action(orders().concurrency(1), Harmed { action, faults, harm });
        scene.drain(process).await;
        assert_eq!(lines(&scene.fixture, "failure").await, 1, "{harm:?}");
        assert_eq!(failed(&scene.fixture).await, [("orders/1".to_owned(), 1, "an odd order".to_owned())]);
        assert_eq!(scene.faults.begun(Verb::Park), 0, "both are one transaction");
    }
}

/// An action in whose failure the next COMMIT comes to harm.
struct Harmed<S: Store> {
    action: Diarist<S>,
    faults: Arc<crate::faults::Faults>,
    harm: Fault,
}

impl<S: Store> Action<S> for Harmed<S> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<S>, order: Order) -> Result<Outcome> {
        if self.faults.begun(Verb::Commit) == 0 {
            self.faults.inject(Verb::Commit, self.harm, 1);
        }
        self.action.handle(cx, order).await
    }

    async fn transaction_failure(&self, cx: &mut Context<S>, error: &Error, failure: &Failure) -> Result<()> {
        self.action.transaction_failure(cx, error, failure).await
    }
}

/// An action that waits before it fails, so that its message can be taken away.
struct Waits<S: Store> {
    action: Diarist<S>,
    begun: Arc<Notify>,
    taken: Arc<Notify>,
}

impl<S: Store> Action<S> for Waits<S> {
    type Message = Order;

    async fn handle(&self, _: &mut Context<S>, _: Order) -> Result<Outcome> {
        self.begun.notify_one();
        self.taken.notified().await;
        Err("too late".into())
    }

    async fn transaction_failure(&self, cx: &mut Context<S>, error: &Error, failure: &Failure) -> Result<()> {
        self.action.transaction_failure(cx, error, failure).await
    }
}

pub async fn nothing_is_said_about_a_message_that_is_not_ours_any_more<F: Fixture>() {
    let fixture: F = with_names(&[""]).await;
    let (begun, taken) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let action = Waits { action: diarist::<F>(""), begun: begun.clone(), taken: taken.clone() };
    let running = tokio::spawn(run(Process::new(fixture.store()).action(orders(), action)));
    begun.notified().await;
    fixture.sql("update received_order set status = '1', process_id = null").await;
    taken.notify_one();
    assert_eq!(running.await.unwrap(), 0);
    assert_eq!((effects(&fixture).await, failed(&fixture).await), (0, vec![]));
}

pub async fn where_initialize_fails_no_worker_starts<F: Fixture>() {
    let fixture: F = with_names(&[""]).await;
    assert_eq!(run(Process::new(fixture.store()).action(orders(), diarist::<F>("initialize"))).await, 20);
    assert_eq!(effects(&fixture).await, 0);
    let untouched = "select count(*) from received_order where status = '0' and process_id is null";
    assert_eq!(fixture.number(untouched).await, 1);
}

pub async fn a_failing_terminate_is_the_process_s_error<F: Fixture>() {
    let fixture: F = with_names(&[""]).await;
    assert_eq!(run(Process::new(fixture.store()).action(orders(), diarist::<F>("terminate"))).await, 20);
    assert_eq!((lines(&fixture, "handle").await, lines(&fixture, "terminate").await), (1, 0));
}

/// A handler that ends its worker, and with it the process.
struct Ends;

impl<S: Store> Handler<S> for Ends {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        next.run(cx).await?;
        Err(Error::Ended { status: 117, reason: "enough".into() }.into())
    }
}

pub async fn workers_that_end_with_an_error_say_so_and_their_error_stays<F: Fixture>() {
    for fails in ["", "error", "terminate"] {
        let fixture: F = with_names(&[""]).await;
        let process = Process::new(fixture.store()).action(orders().concurrency(1), diarist::<F>(fails));
        let process = process.handlers(|queue| queue.before(Scope::Worker, "transaction", Ends));
        assert_eq!(run(process).await, 117, "{fails}");
        assert_eq!(line(&fixture, "error", "enough").await, i64::from(fails != "error"));
        assert_eq!(line(&fixture, "terminate", "badly").await, i64::from(fails != "terminate"));
        assert_eq!((lines(&fixture, "handle").await, lines(&fixture, "failure").await), (1, 0));
    }
}

pub async fn messages_that_share_a_transaction_are_told_one_by_one<F: Fixture>() {
    let fixture: F = with_names(&["", "", "error", "", ""]).await;
    let pool = orders().concurrency(1).commit_interval(5);
    assert_eq!(run(Process::new(fixture.store()).action(pool, diarist::<F>(""))).await, 0);
    assert_eq!((lines(&fixture, "handle").await, lines(&fixture, "success").await), (4, 4));
    for id in [1, 2, 4, 5] {
        assert_eq!(line(&fixture, "success", &format!("orders/{id}")).await, 1);
    }
    assert_eq!(lines(&fixture, "failure").await, 2, "once for each of its attempts, alone");
}

pub async fn several_actions_of_a_process_have_their_own<F: Fixture>() {
    let fixture: F = with_names(&[""]).await;
    let mail = Pool::new("Mail").from("mail");
    let process = Process::new(fixture.store()).action(orders(), diarist::<F>("")).action(mail, diarist::<F>(""));
    assert_eq!(run(process).await, 0);
    let both = [line(&fixture, "initialize", "Diarist").await, line(&fixture, "initialize", "Mail").await];
    assert_eq!((both, lines(&fixture, "terminate").await), ([1, 1], 2));
}
