//! An idle process writes nothing but its heartbeat: what locks a row writes it, and so does a transaction that gets an id.

use ichido::store::Processes;
use ichido_testkit::fixture::{Fixture, Player, send};

use crate::fixture::OnPostgres;

#[tokio::test]
async fn a_claim_that_finds_nothing_locks_nothing() {
    let fixture = OnPostgres::fresh().await;
    let player = Player::join(&fixture).await;
    let locked = async || fixture.number("select count(*) from ichido_process where xmax <> 0").await;
    for queue in ["orders", "mail", "urgent"] {
        assert!(player.claim(queue, 5).await.is_empty());
        player.store.poll(&player.registration).await.unwrap();
    }
    assert_eq!(locked().await, 0);
    send(&fixture, "mail", &["{}"]).await;
    assert_eq!(player.claim("mail", 5).await.len(), 1);
    assert_eq!(locked().await, 1, "a claim holds its process");
}
