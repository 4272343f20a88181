//! Sending: in the caller's transaction, to managed and to table queues.

use ichido::{
    Client, Error, NewMessage,
    store::{Database, Queues, Transactions},
};

use crate::fixture::{Fixture, Player, send};

pub async fn a_managed_message_arrives_as_it_was_sent<F: Fixture>() {
    let fixture = F::fresh().await;
    let payload = r#"{"text":"it's \"日本\" \\ \u0000","n":12345678901234567890.1234567890}"#;
    let store = fixture.store();
    let mut message = NewMessage::new(payload);
    message.headers.insert("tenant".into(), "日本 'x'".into());
    let mut tx = store.begin().await.unwrap();
    let ids = store.send(F::Store::connection(&mut tx), "mail", &[message]).await.unwrap();
    store.commit(tx).await.unwrap();
    let delivery = Player::join(&fixture).await.claim_one("mail").await;
    assert_eq!(delivery.message.id(), ids[0]);
    assert_eq!(&*delivery.message.payload, payload.as_bytes());
    assert_eq!(delivery.message.headers["tenant"], "日本 'x'");
}

pub async fn many_messages_keep_their_order<F: Fixture>() {
    let fixture = F::fresh().await;
    let payloads: Vec<_> = (0..2500).map(|number| number.to_string()).collect();
    let ids = send(&fixture, "mail", &payloads.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let claimed = Player::join(&fixture).await.claim("mail", 3000).await;
    let arrived: Vec<_> =
        claimed.iter().map(|delivery| String::from_utf8_lossy(&delivery.message.payload).into_owned()).collect();
    assert_eq!(arrived, payloads);
    assert_eq!(claimed.iter().map(|delivery| delivery.message.id().to_string()).collect::<Vec<_>>(), ids);
}

pub async fn fields_of_a_message_for_a_table_are_columns<F: Fixture>() {
    let fixture = F::fresh().await;
    let ids = send(
        &fixture,
        "orders",
        &[r#"{"id":4,"name":"it's"}"#, r#"{"id":5}"#, r#"{"id":6,"name":"x","status":"1","process_id":"nobody"}"#],
    )
    .await;
    assert_eq!(ids, ["orders/4", "orders/5", "orders/6"]);
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '0' and process_id is null").await,
        3
    );
    assert_eq!(fixture.number("select count(*) from received_order where id = 4 and name = 'it''s'").await, 1);
    let ids = send(&fixture, "urgent", &[r#"{"region":"a","number":1,"priority":3}"#]).await;
    assert_eq!(ids, ["urgent/a/1"]);
    assert_eq!(
        fixture.number("select count(*) from ticket where kind = 'urgent' and state = 'new' and priority = 3").await,
        1
    );
}

pub async fn a_send_is_rolled_back_with_its_transaction<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let client = Client::new(store.clone());
    let mut tx = store.begin().await.unwrap();
    client.queue("mail").send(F::Store::connection(&mut tx), &"gone").await.unwrap();
    client.queue("orders").send(F::Store::connection(&mut tx), &serde_json::json!({"id": 1})).await.unwrap();
    store.rollback(tx).await.unwrap();
    assert_eq!(
        fixture.number("select (select count(*) from ichido_message) + (select count(*) from received_order)").await,
        0
    );
}

async fn refused<F: Fixture>(queue: &str, payload: &str) -> String {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let mut tx = store.begin().await.unwrap();
    let sent = store.send(F::Store::connection(&mut tx), queue, &[NewMessage::new(payload)]).await;
    store.rollback(tx).await.unwrap();
    match sent {
        Err(Error::Setup(text) | Error::Refused(text)) => text,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

pub async fn a_message_for_a_column_that_is_not_there_is_refused<F: Fixture>() {
    let text = refused::<F>("orders", r#"{"id":1,"nme":"x"}"#).await;
    assert!(text.contains("`nme`") && text.contains("did you mean `name`"), "{text}");
    assert!(refused::<F>("orders", "[1]").await.contains("a JSON object"));
}

pub async fn a_message_over_the_limit_is_refused<F: Fixture>() {
    let text = refused::<F>("mail", &format!("\"{}\"", "x".repeat(999))).await;
    assert!(text.contains("1001 bytes") && text.contains("1000 bytes"), "{text}");
    let fixture = F::fresh().await;
    send(&fixture, "mail", &[&format!("\"{}\"", "x".repeat(998))]).await;
}

pub async fn an_unknown_queue_is_refused<F: Fixture>() {
    let text = refused::<F>("ordres", "{}").await;
    assert!(text.contains("`ordres`") && text.contains("orders"), "{text}");
}
