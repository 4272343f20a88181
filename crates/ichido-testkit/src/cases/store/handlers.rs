//! The handlers of the minimal queue one by one, as a handler of the test's own beside them sees them. The loop, the retry rule
//! and `read` have files of their own.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use ichido::{Context, Error, Handler, Next, Outcome, Pool, Process, Result, Store, action::Request, handlers::Scope};

use crate::fixture::{Fixture, effects, send};

/// What a test's handler does on its way in and out.
struct Probe<F> {
    what: &'static str,
    seen: Arc<Mutex<Vec<String>>>,
    _fixture: std::marker::PhantomData<fn(F)>,
}

impl<F: Fixture> Probe<F> {
    fn new(what: &'static str, seen: &Arc<Mutex<Vec<String>>>) -> Self {
        Probe { what, seen: seen.clone(), _fixture: std::marker::PhantomData }
    }

    fn see(&self, cx: &Context<F::Store>) {
        let line = format!("{} {}", cx.request_id(), cx.get::<u32>().copied().unwrap_or_default());
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl<F: Fixture> Handler<F::Store> for Probe<F> {
    async fn handle(&self, cx: &mut Context<F::Store>, next: Next<'_, F::Store>) -> Result<Outcome> {
        match self.what {
            "insert" => cx.insert(7_u32),
            "write" => {
                F::through(cx.tx().await?, "insert into ledger (message, who) values ('a', 'probe')".into()).await?;
            }
            "fail" => return Err("nobody handles this".into()),
            "refuse" => return Err(Error::Setup("change something by hand".into()).into()),
            _ => {}
        }
        let result = next.run(cx).await;
        if self.what == "see" {
            self.see(cx);
        }
        result
    }
}

type Seen = Arc<Mutex<Vec<String>>>;

fn process<F: Fixture>(fixture: &F) -> Process<F::Store> {
    let pool = Pool::new("Mail").from("mail").concurrency(3);
    Process::new(fixture.store()).drain().action_fn(pool, count_ledger::<F>)
}

/// Writes down how many lines the ledger has, and who asked for what.
async fn count_ledger<F: Fixture>(cx: &mut Context<F::Store>, _: serde_json::Value) -> Result<Outcome> {
    let who = format!("{} {} {}", cx.request_id(), cx.user_id(), cx.argument("day").unwrap_or("no day"));
    let count = format!("insert into ledger (message, who) select '{who}', count(*) from ledger");
    F::through(cx.tx().await?, count).await?;
    Ok(Outcome::Done)
}

fn with<F: Fixture>(
    process: Process<F::Store>,
    place: (Scope, &'static str),
    what: &'static str,
    seen: &Seen,
) -> Process<F::Store> {
    let probe = Probe::<F>::new(what, seen);
    process.handlers(move |queue| queue.after(place.0, place.1, probe))
}

pub async fn context_clear_removes_what_was_put_in_also_after_an_error<F: Fixture>() {
    for (what, code) in [("insert", 0), ("fail", 20)] {
        let (fixture, seen) = (F::fresh().await, Seen::default());
        let process = with::<F>(process(&fixture), (Scope::Process, "context"), what, &seen);
        let process = with::<F>(process, (Scope::Process, "context"), "insert", &seen);
        let process = with::<F>(process, (Scope::Process, "context clear"), "see", &seen);
        let process = with::<F>(process, (Scope::Process, "status code"), "see", &seen);
        assert_eq!(process.run_request(Request::path("Mail/M1")).await.unwrap(), code);
        assert_eq!(*seen.lock().unwrap(), ["M1 7", " 0"], "there inside of it, and gone outside");
    }
}

pub async fn context_says_who_asked_for_what<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &["1"]).await;
    let request = Request::path("Mail/M1").user_id("ito").argument("day", "monday");
    assert_eq!(process(&fixture).run_request(request).await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from ledger where message = 'M1 ito monday'").await, 1);
}

pub async fn global_error_turns_what_nobody_handled_into_a_status<F: Fixture>() {
    for (what, code) in [("fail", 20), ("refuse", 127), ("nothing", 0)] {
        let fixture = F::fresh().await;
        let process = with::<F>(process(&fixture), (Scope::Process, "global error"), what, &Seen::default());
        assert_eq!(process.run().await.unwrap(), code, "{what}");
    }
    let fixture = F::fresh().await;
    let outside = with::<F>(process(&fixture), (Scope::Process, "context clear"), "fail", &Seen::default());
    assert!(outside.run().await.is_err(), "outside of it nobody turns it into anything");
}

/// Only after `connection` is there a right to one, and what is open on its way out is rolled back.
pub async fn connection_gives_a_right_to_the_pool_and_keeps_nothing<F: Fixture>() {
    let fixture = F::fresh().await;
    let before = with::<F>(process(&fixture), (Scope::Process, "retry"), "write", &Seen::default());
    assert_eq!(before.run().await.unwrap(), 127);
    let alone = process(&fixture).handlers(|queue| queue.without(Scope::Process, "transaction"));
    let alone = with::<F>(alone, (Scope::Process, "connection"), "write", &Seen::default());
    assert_eq!(alone.run_request(Request::path("Nothing")).await.unwrap(), 13);
    assert_eq!(effects(&fixture).await, 0);
}

pub async fn the_process_commits_its_transaction_before_workers_start<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &["1"]).await;
    let build = || with::<F>(process(&fixture), (Scope::Process, "transaction"), "write", &Seen::default());
    assert_eq!(build().run_request(Request::path("Nothing")).await.unwrap(), 13);
    assert_eq!(effects(&fixture).await, 0, "rolled back after an error");
    assert_eq!(build().run_request(Request::path("Mail/M1")).await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from ledger where message = 'a'").await, 1);
    assert_eq!(fixture.number("select count(*) from ledger where who = '1'").await, 1, "the action has seen it");
}

/// Counts how often the rest is run.
struct Counter(Arc<AtomicU32>);

impl<S: Store> Handler<S> for Counter {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run(cx).await
    }
}

pub async fn concurrency_starts_so_many_workers<F: Fixture>() {
    let (fixture, workers) = (F::fresh().await, Arc::new(AtomicU32::new(0)));
    let counter = Counter(workers.clone());
    let process = process(&fixture).handlers(move |queue| queue.before(Scope::Worker, "loop", counter));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(workers.load(Ordering::SeqCst), 3);
}
