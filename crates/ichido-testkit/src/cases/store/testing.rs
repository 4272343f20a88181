//! `ichido::testing` on each store: a run leaves nothing behind, and notices what a worker would notice.

use std::marker::PhantomData;

use ichido::{
    Action, Context, Error, Failure, Outcome, Pool, Process, Result, RetryPolicy,
    testing::{Run, drain},
};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use crate::fixture::{Fixture, effect_here, effects, send};

#[derive(Serialize, Deserialize)]
struct Letter {
    to: String,
}

impl Letter {
    fn to(name: &str) -> Self {
        Letter { to: name.into() }
    }
}

async fn deliver<F: Fixture>(cx: &mut Context<F::Store>, letter: Letter) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    match letter.to.as_str() {
        "nobody" => Ok(Outcome::park("nobody lives there")),
        "late" if cx.attempt() == 1 => Err("not yet".into()),
        "rollback" => {
            F::through(cx.tx().await?, "rollback".into()).await?;
            Ok(Outcome::Done)
        }
        _ => {
            F::through(cx.tx().await?, "insert into only_one (id) values (1)".into()).await?;
            cx.send("mail", &letter).await?;
            Ok(Outcome::Done)
        }
    }
}

pub async fn what_a_run_writes_and_sends_is_seen_inside_and_then_gone<F: Fixture>() {
    let fixture = F::fresh().await;
    let run = Run::new(fixture.store()).from("letters").message(&Letter::to("anna")).key("7");
    let mut ran = run.action_fn(deliver::<F>).await;
    assert_eq!(ran.outcome(), &Outcome::Done);
    assert!(ran.opened_transaction());
    ran.assert_sent("mail").with(&Letter::to("anna")).once();
    let twice = F::through(ran.tx().await.unwrap(), "insert into only_one (id) values (1)".into()).await;
    assert!(twice.is_err(), "the row is there already");
    ran.roll_back().await;
    let left = "select (select count(*) from ledger) + (select count(*) from only_one) + (select count(*) from ichido_message)";
    assert_eq!(fixture.number(left).await, 0);

    // The next one waits for a transaction that was only dropped, if it must.
    drop(Run::new(fixture.store()).message(&Letter::to("ben")).action_fn(deliver::<F>).await);
    let ran = Run::new(fixture.store()).message(&Letter::to("chris")).action_fn(deliver::<F>).await;
    assert_eq!(ran.outcome(), &Outcome::Done);
    ran.roll_back().await;
    assert_eq!(fixture.number(left).await, 0);
}

pub async fn a_run_notices_what_a_worker_would_notice<F: Fixture>() {
    let fixture = F::fresh().await;
    let run = || Run::new(fixture.store());
    let ran = run().message(&Letter::to("nobody")).action_fn(deliver::<F>).await;
    assert_eq!(ran.outcome(), &Outcome::park("nobody lives there"));
    ran.assert_nothing_sent();
    ran.roll_back().await;
    let ran = run().message(&Letter::to("late")).action_fn(deliver::<F>).await;
    assert_eq!(ran.error().to_string(), "not yet");
    ran.roll_back().await;
    let ran = run().message(&Letter::to("late")).attempt(2).action_fn(deliver::<F>).await;
    assert_eq!(ran.outcome(), &Outcome::Done);
    ran.roll_back().await;
    let ran = run().message(&Letter::to("rollback")).action_fn(deliver::<F>).await;
    assert!(matches!(ran.error(), Error::BrokenTransaction(_)), "{ran:?}");
    ran.roll_back().await;
    let ran = run().json("{").action_fn(deliver::<F>).await;
    assert!(matches!(ran.error(), Error::Undecodable(_)), "{ran:?}");
    assert!(!ran.opened_transaction());
    let ran = run().action_fn(deliver::<F>).await;
    assert!(ran.error().to_string().contains("give one with `message`"), "{ran:?}");
    assert_eq!(effects(&fixture).await, 0);
}

async fn report<F: Fixture>(cx: &mut Context<F::Store>, letter: Letter) -> Result<Outcome> {
    cx.file("reports/1.txt").await?.write_all(letter.to.as_bytes()).await?;
    Ok(Outcome::Done)
}

pub async fn what_a_run_writes_to_files_is_told_and_then_gone<F: Fixture>() {
    let fixture = F::fresh().await;
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(fixture.store()).message(&Letter::to("anna")).files_below(folder.path());
    let mut ran = run.action_fn(report::<F>).await;
    assert_eq!(ran.outcome(), &Outcome::Done);
    assert_eq!(ran.file("reports/1.txt").await.unwrap(), b"anna");
    assert!(ran.file("reports/2.txt").await.is_err());
    assert!(!folder.path().join("reports").exists(), "it is not seen");
    ran.roll_back().await;
    let left = std::fs::read_dir(folder.path().join(".ichido")).unwrap().count();
    assert_eq!((left, folder.path().join("reports").exists()), (0, false), "nothing of it stays");
}

struct Careful<F>(PhantomData<fn() -> F>);

impl<F: Fixture> Action<F::Store> for Careful<F> {
    type Message = Letter;

    async fn handle(&self, cx: &mut Context<F::Store>, letter: Letter) -> Result<Outcome> {
        cx.send("mail", &letter).await?;
        deliver::<F>(cx, letter).await
    }

    async fn transaction_success(&self, cx: &mut Context<F::Store>) -> Result<()> {
        cx.send("mail", &"delivered").await?;
        Ok(())
    }

    async fn transaction_failure(&self, cx: &mut Context<F::Store>, error: &Error, _: &Failure) -> Result<()> {
        cx.send("mail", &error.to_string()).await?;
        Ok(())
    }
}

pub async fn a_run_calls_the_action_back<F: Fixture>() {
    let fixture = F::fresh().await;
    let run = |name| Run::new(fixture.store()).message(&Letter::to(name)).action(Careful::<F>(PhantomData));
    let ran = run("anna").await;
    assert_eq!(ran.outcome(), &Outcome::Done);
    ran.assert_sent("mail").with(&"delivered").once();
    ran.assert_sent("mail").with(&Letter::to("anna")).times(2);
    ran.roll_back().await;
    let ran = run("nobody").await;
    assert_eq!(ran.outcome(), &Outcome::park("nobody lives there"));
    ran.assert_sent("mail").with(&"nobody lives there").once();
    assert_eq!(ran.sent().len(), 1, "what the action sent is rolled back: {ran:?}");
    ran.roll_back().await;
}

pub async fn a_drain_says_what_became_of_each_message<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &[r#"{"to":"nobody"}"#, r#"{"to":"late"}"#, r#"{"to":7}"#]).await;
    let short = std::time::Duration::from_millis(1);
    let pool =
        Pool::new("Deliver").from("mail").retry(RetryPolicy { first: short, max: short, ..RetryPolicy::default() });
    let process = Process::new(fixture.store()).poll(std::time::Duration::from_millis(20));
    // `late` is done at its second attempt and sends a letter to itself, which `only_one` refuses every time.
    let drained = drain(process.action_fn(pool, deliver::<F>)).await.unwrap();
    assert_eq!((drained.done, drained.failed, drained.code), (1, 3, 0), "{drained:?}");
    let attempts = |id: &str| drained.errors.iter().filter(|attempt| attempt.id.to_string() == id).count();
    let of_each = ["mail/1", "mail/2", "mail/3", "mail/4"].map(attempts);
    assert_eq!((of_each, drained.errors.len()), ([1, 1, 1, 5], 8), "{drained:?}");
    let failure = std::panic::catch_unwind(|| drained.assert_all_done()).unwrap_err();
    let text = failure.downcast_ref::<String>().unwrap();
    assert!(
        text.starts_with("1 done, 3 failed, 0 snoozed, exit code 0\n") && text.contains("mail/1, attempt 1: nobody"),
        "{text}"
    );
}
