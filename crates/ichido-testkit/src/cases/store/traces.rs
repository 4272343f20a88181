//! Traces: the context of a send travels with its message, and on to what the message's action sends, whether or not anybody collects
//! traces here.

use std::sync::{Arc, Mutex};

use ichido::{
    Client, NewMessage, Outcome, Pool, Process,
    store::{Database, Queues, Transactions},
    trace::TRACEPARENT,
};

use crate::fixture::{Fixture, Player};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Who reads a message goes on with the trace of its send. A row of the user's own has no place for it, and is sent all the same.
pub async fn a_message_carries_the_trace_of_its_send<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let mut mail = NewMessage::new("{}").header(TRACEPARENT, "what the sender said").header("tenant", "x");
    mail.traceparent = Some(TRACE.into());
    let mut order = NewMessage::new(r#"{"id":1,"name":"a"}"#);
    order.traceparent = Some(TRACE.into());
    let mut tx = store.begin().await.unwrap();
    store.send(F::Store::connection(&mut tx), "mail", &[mail]).await.unwrap();
    store.send(F::Store::connection(&mut tx), "orders", &[order]).await.unwrap();
    store.commit(tx).await.unwrap();
    let player = Player::join(&fixture).await;
    let headers = player.claim_one("mail").await.message.headers;
    assert_eq!((headers.len(), headers[TRACEPARENT].as_str(), headers["tenant"].as_str()), (2, TRACE, "x"));
    assert!(player.claim_one("orders").await.message.headers.is_empty());
}

pub async fn what_an_action_sends_stays_in_its_trace<F: Fixture>() {
    let fixture = F::fresh().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    Client::new(fixture.store()).queue("mail").header(TRACEPARENT, TRACE).send_and_commit(&"first").await.unwrap();
    let notes = seen.clone();
    let process =
        Process::new(fixture.store()).action_closure(Pool::new("Mail").from("mail"), move |cx, text: String| {
            let notes = notes.clone();
            Box::pin(async move {
                if text == "first" {
                    cx.send("mail", &"second").await?;
                    return Ok(Outcome::Done);
                }
                notes.lock().unwrap().push(cx.headers()?[TRACEPARENT].clone());
                Ok(Outcome::Done)
            })
        });
    assert_eq!(process.drain().run().await.unwrap(), 0);
    assert_eq!(*seen.lock().unwrap(), [TRACE]);
}
