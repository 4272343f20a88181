//! Many types of messages in one queue: each reaches the action of its kind, and so do the callbacks; what has no known kind is parked.

use std::{marker::PhantomData, time::Duration};

use ichido::{
    Action, Client, Context, Error, Failure, KindOf, Kinds, Outcome, Pool, Process, Result, Store,
    store::{Database, Transactions},
};
use serde::{Deserialize, Serialize};

use crate::{
    fixture::{Fixture, effects, failed, send},
    in_time,
};

#[derive(Serialize, Deserialize)]
struct Created {
    id: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename = "cancelled")]
struct Cancelled {
    reason: String,
}

const CREATED: KindOf<Created> = KindOf::named("mail", "created");
const CANCELLED: KindOf<Cancelled> = KindOf::named("mail", "cancelled");

/// An action that writes each time that it is called.
struct Scribe<F> {
    name: String,
    fixture: PhantomData<fn() -> F>,
}

#[derive(Deserialize)]
struct Any {
    #[serde(default)]
    fails: bool,
}

async fn line<F: Fixture>(cx: &mut Context<F::Store>, called: &str, who: &str) -> Result<()> {
    let line = format!("insert into ledger (message, who) values ('{called}', '{who}')");
    F::through(cx.tx().await?, line).await?;
    Ok(())
}

impl<F: Fixture> Action<F::Store> for Scribe<F> {
    type Message = Any;

    async fn handle(&self, cx: &mut Context<F::Store>, message: Any) -> Result<Outcome> {
        line::<F>(cx, "handle", &self.name).await?;
        if message.fails { Ok(Outcome::park("as it was told")) } else { Ok(Outcome::Done) }
    }

    async fn initialize(&self, cx: &mut Context<F::Store>) -> Result<()> {
        line::<F>(cx, "initialize", &self.name).await
    }

    async fn transaction_success(&self, cx: &mut Context<F::Store>) -> Result<()> {
        line::<F>(cx, "success", &self.name).await
    }

    async fn transaction_failure(&self, cx: &mut Context<F::Store>, _: &Error, _: &Failure) -> Result<()> {
        line::<F>(cx, "failure", &self.name).await
    }

    async fn terminate(&self, cx: &mut Context<F::Store>, _: &Result<Outcome>) -> Result<()> {
        line::<F>(cx, "terminate", &self.name).await
    }
}

fn scribe<F: Fixture>(name: impl Into<String>) -> Scribe<F> {
    Scribe { name: name.into(), fixture: PhantomData }
}

async fn created<F: Fixture>(cx: &mut Context<F::Store>, message: Created) -> Result<Outcome> {
    line::<F>(cx, "created", &message.id.to_string()).await?;
    Ok(Outcome::Done)
}

async fn cancelled<F: Fixture>(cx: &mut Context<F::Store>, message: Cancelled) -> Result<Outcome> {
    line::<F>(cx, "cancelled", &message.reason).await?;
    Ok(Outcome::Done)
}

async fn ends<S: Store>(store: S, queue: &str, kinds: Kinds<S>) -> i32 {
    let process = Process::new(store).poll(Duration::from_millis(5)).drain();
    let process = process.action(Pool::new("Kinds").from(queue), kinds);
    in_time("the process ends", process.run()).await.unwrap()
}

async fn written<F: Fixture>(fixture: &F, called: &str, who: &str) -> i64 {
    let of = format!("select count(*) from ledger where message = '{called}' and who = '{who}'");
    fixture.number(&of).await
}

pub async fn eighty_kinds_share_a_pool<F: Fixture>() {
    let fixture = F::fresh().await;
    let messages: Vec<_> = (0..80).map(|kind| format!(r#"{{"about":"kind {kind}"}}"#)).collect();
    send(&fixture, "mail", &messages.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let kinds = (0..80).fold(Kinds::by("about"), |kinds, kind| {
        let name = format!("kind {kind}");
        kinds.on(name.clone(), scribe::<F>(name))
    });
    assert_eq!(ends(fixture.store(), "mail", kinds).await, 0);
    assert_eq!(fixture.number("select count(distinct who) from ledger where message = 'handle'").await, 80);
    assert_eq!(fixture.number("select count(*) from ledger where message = 'handle'").await, 80);
}

pub async fn typed_kinds_are_sent_and_received<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let client = Client::new(store.clone());
    let mut tx = store.begin().await.unwrap();
    client.to(&CREATED).send_all(F::Store::connection(&mut tx), &[Created { id: 1 }, Created { id: 2 }]).await.unwrap();
    let why = Cancelled { reason: "too late".into() };
    client.to(&CANCELLED).send(F::Store::connection(&mut tx), &why).await.unwrap();
    store.commit(tx).await.unwrap();
    let kinds = Kinds::by("kind").on(&CREATED, created::<F>).on(&CANCELLED, cancelled::<F>);
    assert_eq!(ends(store, "mail", kinds).await, 0);
    assert_eq!((written(&fixture, "created", "1").await, written(&fixture, "created", "2").await), (1, 1));
    assert_eq!((effects(&fixture).await, written(&fixture, "cancelled", "too late").await), (3, 1));
}

pub async fn what_has_no_known_kind_is_parked_at_once<F: Fixture>() {
    let fixture = F::fresh().await;
    let messages = [
        r#"{"kind":"careted","id":1}"#,
        r#"{"id":2}"#,
        r#"["created"]"#,
        r#"{"kind":"created"}"#,
        r#"{"kind":"created","id":5}"#,
    ];
    let ids = send(&fixture, "mail", &messages).await;
    let kinds = Kinds::by("kind").on("created", created::<F>).on("cancelled", cancelled::<F>);
    assert_eq!(ends(fixture.store(), "mail", kinds).await, 0);
    assert_eq!((effects(&fixture).await, written(&fixture, "created", "5").await), (1, 1), "the neighbour is done");
    let failed = failed(&fixture).await;
    let texts = [
        "no action for the kind `careted` (known: cancelled, created); did you mean `created`?",
        "no field `kind` says its kind (known: cancelled, created)",
        "expected an object with a field `kind`",
        "missing field `id`",
    ];
    assert_eq!(failed.len(), texts.len(), "{failed:?}");
    for (at, text) in texts.iter().enumerate() {
        let (id, attempts, error) = &failed[at];
        assert!((id, *attempts) == (&ids[at], 1) && error.contains(text), "{failed:?}");
    }
}

pub async fn callbacks_reach_the_action_whose_message_it_is<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &[r#"{"kind":"a"}"#, r#"{"kind":"b","fails":true}"#, r#"{"kind":"c"}"#]).await;
    let kinds = Kinds::by("kind").on("a", scribe::<F>("a")).on("b", scribe::<F>("b"));
    assert_eq!(ends(fixture.store(), "mail", kinds).await, 0);
    for (called, a, b) in
        [("initialize", 1, 1), ("handle", 1, 0), ("success", 1, 0), ("failure", 0, 1), ("terminate", 1, 1)]
    {
        let seen = (written(&fixture, called, "a").await, written(&fixture, called, "b").await);
        assert_eq!(seen, (a, b), "{called}");
    }
    assert_eq!(effects(&fixture).await, 7, "nobody hears of what has no known kind");
    assert_eq!(failed(&fixture).await.len(), 2);
}

pub async fn a_column_of_a_table_can_be_the_kind<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "orders", &[r#"{"id":1,"name":"a"}"#, r#"{"id":2,"name":"b"}"#, r#"{"id":3}"#]).await;
    let kinds = Kinds::by("name").on("a", created::<F>).on("b", scribe::<F>("b"));
    assert_eq!(ends(fixture.store(), "orders", kinds).await, 0);
    assert_eq!((written(&fixture, "created", "1").await, written(&fixture, "handle", "b").await), (1, 1));
    assert_eq!(failed(&fixture).await[0].0, "orders/3", "its kind is null");
}

pub async fn kinds_that_do_not_fit_are_refused_at_start<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &[r#"{"kind":"created","id":1}"#]).await;
    let other_queue = Kinds::by("kind").on(&CREATED, created::<F>);
    assert_eq!(ends(fixture.store(), "orders", other_queue).await, 127);
    let other_field = Kinds::by("about").on(&CREATED, created::<F>);
    assert_eq!(ends(fixture.store(), "mail", other_field).await, 127);
    let twice = Kinds::by("kind").on(&CREATED, created::<F>).on("created", created::<F>);
    assert_eq!(ends(fixture.store(), "mail", twice).await, 127);
    assert_eq!(effects(&fixture).await, 0);
}

pub async fn a_message_that_has_another_kind_already_is_refused<F: Fixture>() {
    const ANY: KindOf<serde_json::Value> = KindOf::named("mail", "created");
    let fixture = F::fresh().await;
    let store = fixture.store();
    let mut tx = store.begin().await.unwrap();
    for message in [serde_json::json!({"kind": "cancelled"}), serde_json::json!(["created"])] {
        let sent = Client::new(store.clone()).to(&ANY).send(F::Store::connection(&mut tx), &message).await;
        assert!(matches!(sent, Err(Error::Refused(_))), "{sent:?}");
    }
    store.rollback(tx).await.unwrap();
}
