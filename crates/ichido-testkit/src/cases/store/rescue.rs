//! Death: what a dead process had goes back into circulation, and what killed it does not for ever.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    Inspect, Key, MessageId,
    inspect::ParkedFilter,
    store::{Processes, Registration, Rescued, Running},
};

use crate::fixture::{Fixture, Player, assert_lost, effects, send, with_orders};

pub async fn what_a_dead_process_had_becomes_suspect_without_an_attempt<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let victim = Player::join(&fixture).await;
    victim.finish(&victim.claim_one("orders").await).await.unwrap();
    assert_eq!(victim.claim("orders", 5).await.len(), 2);
    victim.die(&fixture).await;
    let other = Player::join(&fixture).await;
    let rescued = other.store.rescue(&other.registration).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 1, messages: 2, parked: 0 });
    let again = other.claim("orders", 5).await;
    assert_eq!(
        again.iter().map(|delivery| (delivery.attempt, delivery.is_suspect())).collect::<Vec<_>>(),
        [(1, true); 2]
    );
    for delivery in &again {
        other.finish(delivery).await.unwrap();
    }
    assert_eq!(effects(&fixture).await, 3);
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
    assert_eq!(fixture.number("select count(*) from ichido_process").await, 1);
    assert_eq!(other.store.rescue(&other.registration).await.unwrap(), Rescued::default());
}

/// The keys of the orders that can be claimed now, and whether each is a suspect.
async fn claimable<F: Fixture>(fixture: &F) -> BTreeMap<i64, bool> {
    let other = Player::join(fixture).await;
    let claimed = other.claim("orders", 100).await;
    let found = claimed.iter().map(|delivery| {
        assert_eq!(delivery.attempt, 1, "no attempt is spent");
        (delivery.message.key.to_string().parse().unwrap(), delivery.is_suspect())
    });
    let found = found.collect();
    other.store.deregister(other.registration.id).await.unwrap();
    found
}

fn suspects(orders: &BTreeMap<i64, bool>) -> Vec<i64> {
    orders.iter().filter(|(_, suspect)| **suspect).map(|(order, _)| *order).collect()
}

fn order(key: i64) -> MessageId {
    MessageId { queue: "orders".into(), key: Key::new([key.to_string()]) }
}

pub async fn suspects_are_what_ran_and_as_many_as_had_slots<F: Fixture>() {
    let fixture = with_orders::<F>(12).await;
    let victim = Player::join_with_slots(&fixture, 3).await;
    let claimed = victim.claim("orders", 12).await;
    assert_eq!(claimed.len(), 12);
    let running = [2, 9].map(|key| Running::new(&order(key), Duration::from_secs(5)));
    assert!(victim.store.heartbeat(victim.registration.id, &running).await.unwrap());
    victim.finish(&claimed[0]).await.unwrap();
    victim.die(&fixture).await;
    let medic = Player::join(&fixture).await;
    let rescued = medic.store.rescue(&medic.registration).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 1, messages: 11, parked: 0 });
    let orders = claimable(&fixture).await;
    assert_eq!((orders.len(), suspects(&orders)), (11, vec![2, 3, 4, 9]), "the rest was only claimed");
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 4, "nothing is written about the rest");
}

pub async fn the_first_in_claim_order_are_suspects_also_where_it_descends<F: Fixture>() {
    let fixture = F::fresh().await;
    let ticket = |at: i64| format!(r#"{{"kind":"urgent","region":"north","number":{at},"priority":{at}}}"#);
    let tickets: Vec<_> = (1..=600).map(ticket).collect();
    send(&fixture, "urgent", &tickets.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut victim = Player::join(&fixture).await;
    victim.store.deregister(victim.registration.id).await.unwrap();
    victim.registration = Registration::new("many slots", Duration::from_mins(20), [("urgent".into(), 3)].into());
    victim.registration.slots.insert("urgent".into(), 550);
    victim.store.register(&victim.registration).await.unwrap();
    while !victim.claim("urgent", 200).await.is_empty() {}
    victim.die(&fixture).await;
    let medic = Player::join(&fixture).await;
    assert_eq!(medic.store.rescue(&medic.registration).await.unwrap().messages, 600);
    assert_eq!(
        fixture.number("select count(*) from ichido_parked where suspect").await,
        550,
        "over more than one page"
    );
    let first = medic.claim_one("urgent").await;
    assert!(first.is_suspect() && first.message.key.to_string().ends_with("600"), "{}", first.message.id());
}

pub async fn what_is_a_suspect_already_takes_no_slot<F: Fixture>() {
    let fixture = with_orders::<F>(6).await;
    let medic = Player::join(&fixture).await;
    for (slots, claim) in [(2, 2), (2, 6)] {
        let victim = Player::join_with_slots(&fixture, slots).await;
        assert_eq!(victim.claim("orders", claim).await.len(), claim);
        victim.die(&fixture).await;
        medic.store.rescue(&medic.registration).await.unwrap();
    }
    let orders = claimable(&fixture).await;
    assert_eq!(
        (orders.len(), suspects(&orders)),
        (6, vec![1, 2, 3, 4]),
        "1 and 2 have not begun again: they had no mark"
    );
}

pub async fn a_killer_that_slips_through_is_caught_the_next_time<F: Fixture>() {
    const KILLER: &str = "5";
    let fixture = with_orders::<F>(6).await;
    let medic = Player::join(&fixture).await;
    for deaths in 1.. {
        let victim = Player::join_with_slots(&fixture, 1).await;
        for delivery in victim.claim("orders", 6).await {
            if delivery.is_suspect() {
                victim.store.mark_running(victim.registration.id, Some(&delivery.message.id())).await.unwrap();
            }
            // The first process begins with the killer, behind others in claim order.
            if deaths == 1 || delivery.message.key.to_string() == KILLER {
                break;
            }
            victim.finish(&delivery).await.unwrap();
            victim.store.mark_running(victim.registration.id, None).await.unwrap();
        }
        victim.die(&fixture).await;
        if medic.store.rescue(&medic.registration).await.unwrap().parked > 0 {
            assert_eq!(deaths, 5, "once unseen, once as a bystander, then three times as a suspect");
            break;
        }
    }
    assert_eq!(fixture.number("select count(*) from received_order where status = '2' and id = 5").await, 1);
    assert_eq!(effects(&fixture).await, 4, "those before it");
}

pub async fn a_death_under_the_mark_spends_an_attempt<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let victim = Player::join(&fixture).await;
    let claimed = victim.claim("orders", 2).await;
    victim.store.mark_running(victim.registration.id, Some(&claimed[1].message.id())).await.unwrap();
    victim.die(&fixture).await;
    let other = Player::join(&fixture).await;
    other.store.rescue(&other.registration).await.unwrap();
    let attempts: BTreeMap<_, _> = other
        .claim("orders", 2)
        .await
        .iter()
        .map(|delivery| (delivery.message.key.to_string(), delivery.attempt))
        .collect();
    assert_eq!(attempts, BTreeMap::from([("1".to_owned(), 1), ("2".to_owned(), 2)]));
}

pub async fn a_message_that_kills_its_process_is_parked_in_the_end<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let medic = Player::join(&fixture).await;
    let mut deaths = 0;
    let parked = loop {
        let victim = Player::join(&fixture).await;
        let delivery = victim.claim_one("orders").await;
        if delivery.is_suspect() {
            victim.store.mark_running(victim.registration.id, Some(&delivery.message.id())).await.unwrap();
        }
        victim.die(&fixture).await;
        deaths += 1;
        let rescued = medic.store.rescue(&medic.registration).await.unwrap();
        assert_eq!(rescued.processes, 1);
        if rescued.parked > 0 {
            break medic.store.parked(&ParkedFilter::default()).await.unwrap().remove(0);
        }
    };
    assert_eq!(deaths, 4, "once as a bystander, then three times as a suspect");
    assert_eq!((parked.attempts, parked.error.as_str()), (3, ichido::inspect::DIED_RUNNING));
    assert_eq!(fixture.number("select count(*) from received_order where status = '2'").await, 1);
}

pub async fn a_live_process_keeps_its_messages<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let (owner, other) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let delivery = owner.claim_one("orders").await;
    assert_eq!(other.store.rescue(&other.registration).await.unwrap(), Rescued::default());
    owner.finish(&delivery).await.unwrap();
}

pub async fn a_rescued_message_cannot_be_completed_by_its_old_owner<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let (old, other) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let stale = old.claim_one("orders").await;
    let id = old.registration.id;
    old.die(&fixture).await;
    other.store.rescue(&other.registration).await.unwrap();
    let zombie = Player::<F> { store: fixture.store(), registration: other.registration.clone() };
    assert_eq!(stale.claim.as_ref().map(|claim| claim.owner), Some(id), "the stale delivery is the dead process's");
    assert_lost(&zombie.finish(&stale).await);
    other.finish(&other.claim_one("orders").await).await.unwrap();
    assert_lost(&zombie.finish(&stale).await);
    assert_eq!(effects(&fixture).await, 1);
}

pub async fn a_queue_that_the_rescuer_does_not_serve_is_left_alone<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let victim = Player::join(&fixture).await;
    victim.claim_one("orders").await;
    victim.die(&fixture).await;
    let store = fixture.store();
    let stranger = Registration::new("mail only", Duration::from_mins(20), BTreeMap::from([("mail".into(), 3)]));
    store.register(&stranger).await.unwrap();
    assert_eq!(store.rescue(&stranger).await.unwrap().messages, 0);
    assert_eq!(fixture.number("select count(*) from received_order where process_id is not null").await, 1);
    let friend = Player::join(&fixture).await;
    assert_eq!(
        friend.store.rescue(&friend.registration).await.unwrap(),
        Rescued { processes: 1, messages: 1, parked: 0 }
    );
}

pub async fn of_two_rescuers_each_message_is_freed_once<F: Fixture>() {
    let fixture = with_orders::<F>(40).await;
    let victim = Player::join(&fixture).await;
    assert_eq!(victim.claim("orders", 40).await.len(), 40);
    victim.die(&fixture).await;
    let (one, two) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let (first, second) = tokio::join!(one.store.rescue(&one.registration), two.store.rescue(&two.registration));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.messages + second.messages, 40);
    assert!(first.processes + second.processes <= 1);
    assert_eq!(one.claim("orders", 50).await.len(), 40);
}

pub async fn a_process_that_leaves_frees_what_it_has<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let leaver = Player::join(&fixture).await;
    assert_eq!(leaver.claim("orders", 3).await.len(), 3);
    leaver.store.deregister(leaver.registration.id).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_process").await, 0);
    let other = Player::join(&fixture).await;
    let claimed = other.claim("orders", 3).await;
    assert_eq!(
        claimed.iter().map(|delivery| (delivery.attempt, delivery.is_suspect())).collect::<Vec<_>>(),
        [(1, false); 3]
    );
}

/// It costs no write, and is still there for whoever serves its queue.
pub async fn a_dead_process_whose_queues_nobody_serves_is_left_until_somebody_does<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let victim = Player::join(&fixture).await;
    victim.claim_one("orders").await;
    let dead = victim.registration.id.to_string();
    victim.die(&fixture).await;
    let (store, stranger) = stranger(&fixture).await;
    assert_eq!(store.rescue(&stranger).await.unwrap(), Rescued::default());
    assert!(!store.poll(&stranger).await.unwrap().dead, "there is nothing that it could do");
    assert_eq!(store.prune_dead(&stranger).await.unwrap(), 0, "it still owns a message");
    let shown = store.overview().await.unwrap().processes;
    let shown = shown.iter().find(|process| process.id == dead).expect("an operator sees it");
    assert!(!shown.alive && shown.queues.contains(&"orders".to_owned()), "{shown:?}");
    let friend = Player::join(&fixture).await;
    assert!(friend.store.poll(&friend.registration).await.unwrap().dead);
    let rescued = friend.store.rescue(&friend.registration).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 1, messages: 1, parked: 0 });
    assert!(friend.claim_one("orders").await.is_suspect());
}

pub async fn a_dead_process_that_owns_nothing_is_forgotten_by_anybody<F: Fixture>() {
    let fixture = F::fresh().await;
    let victim = Player::join(&fixture).await;
    victim.die(&fixture).await;
    let (store, stranger) = stranger(&fixture).await;
    assert_eq!(store.prune_dead(&stranger).await.unwrap(), 1);
    assert_eq!(fixture.number("select count(*) from ichido_process").await, 1, "the living stay");
    assert_eq!(fixture.number("select count(*) from ichido_process_queue where queue = 'orders'").await, 0);
}

/// A process that serves nothing that the others do.
async fn stranger<F: Fixture>(fixture: &F) -> (F::Store, Registration) {
    let store = fixture.store();
    let stranger = Registration::new("nothing here", Duration::from_mins(20), BTreeMap::new());
    store.register(&stranger).await.unwrap();
    (store, stranger)
}
