//! Sends in plain SQL: what a store says other programs must run, run from outside.

use ichido::{
    Inspect,
    broker::Found,
    inspect::{SendSql, SendStatement},
    store::{Mutexes, Outbox, Queues},
};

use crate::{
    cases::broker_rows::{join, leased},
    fixture::{Fixture, Player, effects},
};

/// Runs what was printed in one go, with these literals for the parameters and null for all others.
async fn run<F: Fixture>(fixture: &F, plain: &SendSql, literals: &[(&str, &str)]) {
    let filled = plain.statements.iter().map(|statement| fill(statement, literals));
    fixture.sql(&filled.collect::<Vec<_>>().join(";\n")).await;
}

fn fill(statement: &SendStatement, literals: &[(&str, &str)]) -> String {
    let literal = |name: &String| literals.iter().find(|(known, _)| known == name).map_or("null", |(_, text)| text);
    let mut sql = statement.sql.clone();
    for (name, at) in statement.parameters.iter().zip(1..).collect::<Vec<_>>().into_iter().rev() {
        let numbered = format!("${at}");
        let place = if sql.contains(&numbered) { numbered } else { "?".to_owned() };
        let last = sql.rfind(&place).expect("a place for each parameter");
        match place.as_str() {
            "?" => sql.replace_range(last..=last, literal(name)),
            numbered => sql = sql.replace(numbered, literal(name)),
        }
    }
    sql
}

pub async fn what_is_printed_sends_to_a_managed_queue<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let plain = player.store.send_sql("mail", &[]).await.unwrap();
    assert_eq!((&*plain.queue, plain.kind), ("mail", "managed"));
    let (payload, headers) = ("'{\"a\":1}'", "'{\"tenant\":\"x\",\"x-ichido-attempts\":\"2\"}'");
    run(&fixture, &plain, &[("payload", payload), ("headers", headers), ("unique", "'k'")]).await;
    run(&fixture, &plain, &[("payload", "'2'"), ("unique", "'k'"), ("delay_ms", "60000")]).await;
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 1, "its key is taken");
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0, "and the first one does not wait");
    let delivery = player.claim_one("mail").await;
    let message = &delivery.message;
    assert_eq!((&*message.payload, message.attempts), (&b"{\"a\":1}"[..], Some(2)));
    assert_eq!(message.headers["tenant"], "x");
    player.finish(&delivery).await.unwrap();
    run(&fixture, &plain, &[("payload", "'3'"), ("delay_ms", "60000")]).await;
    assert!(player.claim("mail", 1).await.is_empty(), "it waits");
    assert_eq!(fixture.number("select count(*) from ichido_parked where state = 'waiting'").await, 1);
    assert_eq!(effects(&fixture).await, 1);
}

pub async fn what_is_printed_sends_to_a_table<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let plain = player.store.send_sql("orders", &["id".into(), "name".into(), "status".into()]).await.unwrap();
    let names: Vec<_> = plain.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!((plain.kind, names), ("table", vec!["id", "name"]), "what makes a row a new message is not asked for");
    run(&fixture, &plain, &[("id", "7"), ("name", "'x'")]).await;
    assert_eq!(player.claim_one("orders").await.message.id().to_string(), "orders/7");
    let unknown = player.store.send_sql("orders", &["nme".into()]).await.unwrap_err().to_string();
    assert!(unknown.contains("`nme`") && unknown.contains("did you mean `name`"), "{unknown}");
}

pub async fn what_is_printed_sends_to_a_broker<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = join(&fixture).await;
    let plain = fixture.store_with(leased()).send_sql("paid", &[]).await.unwrap();
    assert_eq!(plain.kind, "broker");
    run(&fixture, &plain, &[("id", "'a'"), ("payload", "'{\"id\":1}'")]).await;
    run(&fixture, &plain, &[("id", "'b'"), ("payload", "'{}'"), ("delay_ms", "60000")]).await;
    let unsent = player.store.unsent("paid", 9).await.unwrap();
    assert_eq!(unsent.len(), 1, "the other one is not due");
    let message = &unsent[0].message;
    assert_eq!((&*message.id, &*message.exchange, &*message.routing_key), ("a", "shop", "paid.eu"));
    assert_eq!(message.payload, b"{\"id\":1}");
    let key = ichido::Key::new(["a"]);
    let hashed = fixture.number("select count(*) from ichido_mutex where hash is not null").await;
    let forged = [ichido::Message::new("paid", key.clone(), *b"{}")];
    if hashed > 0 {
        assert_eq!(hashed, 2, "where the database can compute it");
        let found = player.store.claim_these(player.registration.id, "paid", &forged).await.unwrap();
        assert_eq!(found, [Found::Another]);
    }
    player.finish(&player.take("paid", &key).await).await.unwrap();
    fixture.sql("update ichido_parked set due_at = parked_at").await;
    assert_eq!(player.store.return_due(&player.registration).await.unwrap(), 1);
    assert_eq!(player.store.unsent("paid", 9).await.unwrap()[0].message.id, "b");
}
