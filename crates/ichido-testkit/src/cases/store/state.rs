//! What the application gives to its actions, and actions that are closures: what is there reaches every worker, and what is missing
//! ends the process before a message pays for it.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ichido::{
    Action, Context, Outcome, Pool, Process, Result,
    testing::{Run, drain},
};
use serde_json::Value;

use crate::fixture::{Fixture, effect, effects, send};

/// What an application would have: a thing that counts.
#[derive(Default)]
struct Mailer(AtomicU32);

/// Counts in the state, and writes a line.
struct Mail<F>(std::marker::PhantomData<fn(F)>);

impl<F: Fixture> Action<F::Store> for Mail<F> {
    type Message = Value;

    async fn handle(&self, cx: &mut Context<F::Store>, _: Value) -> Result<Outcome> {
        assert_eq!(cx.attempt(), 1, "an attempt was spent");
        let mailer = cx.state::<Arc<Mailer>>()?;
        let message = cx.message()?.clone();
        effect::<F>(cx.tx().await?, &message).await?;
        mailer.0.fetch_add(1, Ordering::SeqCst);
        Ok(Outcome::Done)
    }
}

fn mail<F: Fixture>() -> Mail<F> {
    Mail(std::marker::PhantomData)
}

fn pool() -> Pool {
    Pool::new("Mail").from("mail").concurrency(3)
}

pub async fn state_reaches_every_worker<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &["1", "2", "3", "4", "5"]).await;
    let mailer = Arc::new(Mailer::default());
    let process = Process::new(fixture.store()).state(mailer.clone());
    let pool = pool().needs::<Arc<Mailer>>();
    drain(process.action(pool, mail::<F>())).await.unwrap().assert_all_done();
    assert_eq!((effects(&fixture).await, mailer.0.load(Ordering::SeqCst)), (5, 5));
}

pub async fn missing_state_ends_the_process_and_spends_no_attempt<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &["1", "2"]).await;
    let code = Process::new(fixture.store()).action(pool(), mail::<F>()).drain().run().await.unwrap();
    assert_eq!((code, effects(&fixture).await), (127, 0));
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
    let process = Process::new(fixture.store()).state(Arc::new(Mailer::default()));
    drain(process.action(pool(), mail::<F>())).await.unwrap().assert_all_done();
    assert_eq!(effects(&fixture).await, 2);
}

pub async fn declared_state_is_checked_before_anything_is_claimed<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &["1"]).await;
    let begun = Arc::new(AtomicU32::new(0));
    let count = begun.clone();
    let pool = pool().needs::<Arc<Mailer>>();
    let process = Process::new(fixture.store()).action_closure(pool, move |_, _: Value| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Outcome::Done) })
    });
    assert_eq!(process.drain().run().await.unwrap(), 127);
    assert_eq!(begun.load(Ordering::SeqCst), 0);
    assert_eq!(fixture.number("select count(*) from ichido_message where owner is null").await, 1);
}

pub async fn a_closure_captures_and_writes<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &["1", "2", "3"]).await;
    let seen = Arc::new(AtomicU32::new(0));
    let sum = seen.clone();
    let process = Process::new(fixture.store()).action_closure(pool(), move |cx, number: u32| {
        let sum = sum.clone();
        Box::pin(async move {
            let message = cx.message()?.clone();
            effect::<F>(cx.tx().await?, &message).await?;
            sum.fetch_add(number, Ordering::SeqCst);
            Ok(Outcome::Done)
        })
    });
    drain(process).await.unwrap().assert_all_done();
    assert_eq!((effects(&fixture).await, seen.load(Ordering::SeqCst)), (3, 6));
}

pub async fn a_run_has_state_and_names_what_is_missing<F: Fixture>() {
    let fixture = F::fresh().await;
    let mailer = Arc::new(Mailer::default());
    let ran = Run::new(fixture.store()).state(mailer.clone()).message(&1).action(mail::<F>()).await;
    assert_eq!((ran.outcome(), mailer.0.load(Ordering::SeqCst)), (&Outcome::Done, 1));
    ran.roll_back().await;
    let ran = Run::new(fixture.store()).message(&1).action(mail::<F>()).await;
    let error = ran.error().to_string();
    assert!(error.contains("state::Mailer>") && error.contains("`.state(…)`"), "{error}");
    ran.roll_back().await;
}
