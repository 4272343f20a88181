//! An idle process writes nothing but its heartbeat: what locks a row writes it, and so does a transaction that gets an id.

use ichido::store::Processes;
use ichido_testkit::fixture::{Fixture, Player, send};

use crate::fixture::OnPostgres;

#[tokio::test]
async fn a_claim_that_finds_nothing_locks_nothing() {
    let fixture = OnPostgres::fresh().await;
    let player = Player::join(&fixture).await;
    // Registering has locked it, for the rows that refer to it.
    let locked_by = async || fixture.number("select max(xmax::text::bigint) from ichido_process").await;
    let before = locked_by().await;
    for queue in ["orders", "mail", "urgent"] {
        assert!(player.claim(queue, 5).await.is_empty());
        player.store.poll(&player.registration).await.unwrap();
    }
    assert_eq!(locked_by().await, before);
    send(&fixture, "mail", &["{}"]).await;
    assert_eq!(player.claim("mail", 5).await.len(), 1);
    assert_ne!(locked_by().await, before, "a claim holds its process");
}
