//! Claims: bounded, in order, exclusive, released.

use ichido::{
    Error,
    store::{ProcessId, Processes, Queues, Stats},
};

use crate::fixture::{Fixture, Player, forged, send, with_orders};

fn keys(deliveries: &[ichido::Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| delivery.message.key.to_string()).collect()
}

pub async fn claims_come_in_order_and_no_more_than_asked_for<F: Fixture>() {
    let fixture = with_orders::<F>(12).await;
    let process = Player::join(&fixture).await;
    assert_eq!(keys(&process.claim("orders", 5).await), ["1", "2", "3", "4", "5"]);
    assert_eq!(keys(&process.claim("orders", 50).await), ["6", "7", "8", "9", "10", "11", "12"]);
    assert!(process.claim("orders", 1).await.is_empty());
}

pub async fn what_is_left_is_what_can_be_claimed<F: Fixture>() {
    let fixture = with_orders::<F>(12).await;
    send(&fixture, "mail", &["{}", "{}"]).await;
    let process = Player::join(&fixture).await;
    process.claim("orders", 5).await;
    process.claim("mail", 1).await;
    assert_eq!(process.store.backlog("orders", 10).await.unwrap(), Some(7));
    assert_eq!(process.store.backlog("orders", 3).await.unwrap(), Some(3), "no more are counted");
    assert_eq!(process.store.backlog("mail", 10).await.unwrap(), Some(1));
    let counted = process.store.count("orders").await.unwrap().unwrap();
    assert_eq!((counted.ready, counted.claimed, counted.oldest, counted.unpublished), (7, 5, None, None));
    let counted = process.store.count("mail").await.unwrap().unwrap();
    assert_eq!((counted.ready, counted.claimed, counted.oldest.is_some()), (1, 1, true));
}

pub async fn a_claimed_message_is_not_claimed_again<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &["{}"]).await;
    let (first, second) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let delivery = first.claim_one("mail").await;
    assert_eq!(delivery.claim.as_ref().map(|claim| claim.owner), Some(first.registration.id));
    assert_eq!(delivery.attempt, 1);
    assert!(second.claim("mail", 10).await.is_empty());
    assert!(first.claim("mail", 10).await.is_empty());
}

pub async fn two_processes_share_a_queue_and_never_a_message<F: Fixture>() {
    let fixture = with_orders::<F>(400).await;
    let claim_all = async |player: &Player<F>| {
        let mut all = Vec::new();
        loop {
            let claimed = player.claim("orders", 7).await;
            if claimed.is_empty() {
                return all;
            }
            all.extend(keys(&claimed));
        }
    };
    let players = [Player::join(&fixture).await, Player::join(&fixture).await, Player::join(&fixture).await];
    let mut all = Vec::new();
    for player in &players {
        let first = player.claim("orders", 7).await;
        assert_eq!(first.len(), 7, "nobody takes the whole backlog");
        all.extend(keys(&first));
    }
    let [one, two, three] = &players;
    let (one, two, three) = tokio::join!(claim_all(one), claim_all(two), claim_all(three));
    all.extend(one);
    all.extend(two.into_iter().chain(three));
    all.sort_unstable();
    let before = all.len();
    all.dedup();
    assert_eq!((before, all.len()), (400, 400));
}

pub async fn a_queue_has_its_own_order_and_its_own_part_of_a_table<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture
        .sql("insert into ticket (region, number, kind, priority) values ('a', 1, 'urgent', 1), ('b', 1, 'urgent', 9), ('a', 2, 'urgent', 9), ('a', 3, 'slow', 99)")
        .await;
    let process = Player::join(&fixture).await;
    assert_eq!(keys(&process.claim("urgent", 10).await), ["a/2", "b/1", "a/1"]);
}

pub async fn a_released_message_is_claimable_and_nothing_is_counted<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql("insert into ticket (region, number, kind) values ('a/%', 1, 'urgent')").await;
    send(&fixture, "mail", &["{}", "{}"]).await;
    let process = Player::join(&fixture).await;
    let mut claimed = process.claim("mail", 10).await;
    claimed.extend(process.claim("urgent", 10).await);
    process.store.release(&claimed).await.unwrap();
    let other = Player::join(&fixture).await;
    assert_eq!(other.claim("mail", 10).await.len(), 2);
    let again = other.claim_one("urgent").await;
    assert_eq!((again.attempt, again.is_suspect()), (1, false));
    assert_eq!(again.message.key.columns(), ["a/%", "1"]);
}

pub async fn release_leaves_alone_what_is_not_ours<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let (owner, other) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let delivery = owner.claim_one("orders").await;
    owner.finish(&owner.claim_one("orders").await).await.unwrap();
    other
        .store
        .release(&[forged("orders", "1", other.registration.id), forged("orders", "2", owner.registration.id)])
        .await
        .unwrap();
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '0' and process_id is null").await,
        0
    );
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 1);
    owner.finish(&delivery).await.unwrap();
}

pub async fn a_process_that_is_not_alive_claims_nothing<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let claimed = fixture.store().claim(ProcessId::random(), "orders", 1).await;
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
    let process = Player::join(&fixture).await;
    assert!(process.store.heartbeat(process.registration.id, &[]).await.unwrap());
    process.store.deregister(process.registration.id).await.unwrap();
    assert!(!process.store.heartbeat(process.registration.id, &[]).await.unwrap());
    let claimed = process.store.claim(process.registration.id, "orders", 1).await;
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
    assert_eq!(fixture.number("select count(*) from received_order where process_id is not null").await, 0);
}

pub async fn a_claim_whose_reply_was_lost_is_found<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let process = Player::join(&fixture).await;
    drop(process.claim("orders", 2).await);
    let mut found = keys(&process.store.claimed(process.registration.id, "orders").await.unwrap());
    found.sort_unstable();
    assert_eq!(found, ["1", "2"]);
}

pub async fn a_row_is_delivered_with_its_columns_and_its_owner<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql("insert into received_order (id, name) values (7, 'it''s \"日本\"'), (8, null)").await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("orders").await;
    let row: serde_json::Value = delivery.message.decode().unwrap();
    let owner = process.registration.id.to_string();
    assert_eq!(row, serde_json::json!({"id": 7, "name": "it's \"日本\"", "status": "0", "process_id": owner}));
    assert_eq!(delivery.message.id().to_string(), "orders/7");
    let row: serde_json::Value = process.claim_one("orders").await.message.decode().unwrap();
    assert_eq!(row["name"], serde_json::Value::Null);
}

pub async fn a_payload_over_the_limit_is_kept_from_the_action<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture
        .sql(&format!(
            "insert into ichido_message (queue, payload) values ('mail', '\"{}\"'), ('mail', '1')",
            "x".repeat(2000)
        ))
        .await;
    let process = Player::join(&fixture).await;
    let claimed = process.claim("mail", 10).await;
    assert!(claimed[0].refused.as_ref().is_some_and(|why| why.contains("2002") && why.contains("1000")), "{claimed:?}");
    assert!(claimed[0].message.payload.is_empty());
    assert_eq!((claimed[1].refused.as_ref(), &*claimed[1].message.payload), (None, &b"1"[..]));
}
