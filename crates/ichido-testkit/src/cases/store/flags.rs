//! What operators ask of a request id, and who may serve it alone: the store's verbs.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    Error, Inspect, Operate, Result,
    process::{Flag, Flags},
    store::{ProcessId, Processes, Registration},
};

use crate::fixture::{Fixture, Player};

const STOPPED: Flags = Flags { stopped: true, paused: false };
const PAUSED: Flags = Flags { stopped: false, paused: true };

fn serving(request_ids: &[&str], alone: &[&str]) -> Registration {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).into()).collect();
    let mut process = Registration::of(ids(request_ids), Duration::from_mins(20), BTreeMap::from([("mail".into(), 3)]));
    process.alone = ids(alone);
    process
}

async fn flags<F: Fixture>(fixture: &F, request_ids: &[&str]) -> Vec<(String, Flags)> {
    let seen = fixture.store().poll(&serving(request_ids, &[])).await.unwrap();
    seen.flags.into_iter().collect()
}

/// How many live processes serve each request id.
async fn served<F: Fixture>(fixture: &F) -> Vec<(String, usize)> {
    let all = fixture.store().requests().await.unwrap();
    all.into_iter().map(|state| (state.request_id, state.processes)).collect()
}

pub async fn a_flag_stays_until_taken_away_and_those_concerned_see_it<F: Fixture>() {
    let fixture = F::fresh().await;
    let set = async |id: &str, flag, on| fixture.store().set_flag(id, flag, on).await.unwrap();
    assert_eq!(flags(&fixture, &["R1", "R2"]).await, []);
    assert!(!set("R1", Flag::Stop, false).await, "it was not set");
    assert!(set("R1", Flag::Stop, true).await);
    assert!(!set("R1", Flag::Stop, true).await, "it is set already");
    assert!(set("R2", Flag::Pause, true).await);
    assert_eq!(flags(&fixture, &["R1", "R2"]).await, [("R1".into(), STOPPED), ("R2".into(), PAUSED)]);
    assert_eq!(flags(&fixture, &["R2", "R3"]).await, [("R2".into(), PAUSED)], "nobody else's");
    assert!(set("R1", Flag::Pause, true).await);
    assert!(set("R1", Flag::Stop, false).await);
    assert_eq!(flags(&fixture, &["R1"]).await, [("R1".into(), PAUSED)], "one flag leaves the other alone");
    let states = fixture.store().requests().await.unwrap();
    let states: Vec<_> = states.iter().map(|state| (&*state.request_id, state.processes, state.flags)).collect();
    assert_eq!(states, [("R1", 0, PAUSED), ("R2", 0, PAUSED)], "nobody serves them");
    assert!(set("R1", Flag::Pause, false).await && set("R2", Flag::Pause, false).await);
    assert_eq!(flags(&fixture, &["R1", "R2"]).await, []);
}

pub async fn request_ids_are_bytes_and_refused_if_nobody_can_type_them<F: Fixture>() {
    let fixture = F::fresh().await;
    let long = "é".repeat(255);
    for id in ["R1", "r1 ", "依頼", "a'b\"c%", &long] {
        assert!(fixture.store().set_flag(id, Flag::Stop, true).await.unwrap(), "{id}");
    }
    assert_eq!(flags(&fixture, &["r1", "R1 ", "R1", "依頼", "a'b\"c%", "é"]).await.len(), 3);
    assert_eq!(flags(&fixture, &[&long]).await, [(long.clone(), STOPPED)]);
    for bad in ["", "a\0b", &"x".repeat(256)] {
        let refused = fixture.store().set_flag(bad, Flag::Stop, true).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{bad:?}: {refused:?}");
        let refused = fixture.store().register(&serving(&[bad], &[])).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{bad:?}: {refused:?}");
    }
}

pub async fn who_serves_a_request_id_is_counted_while_it_lives<F: Fixture>() {
    let fixture = F::fresh().await;
    let (one, two, three) = (fixture.store(), fixture.store(), fixture.store());
    let (first, second, third) = (serving(&["R1"], &[]), serving(&["R1", "R2"], &[]), serving(&["R2"], &[]));
    one.register(&first).await.unwrap();
    two.register(&second).await.unwrap();
    three.register(&third).await.unwrap();
    assert_eq!(served(&fixture).await, [("R1".into(), 2), ("R2".into(), 2)]);
    two.quit(second.id, "R2").await.unwrap();
    assert_eq!(served(&fixture).await, [("R1".into(), 2), ("R2".into(), 1)], "it goes on with the other one");
    fixture.die(three, third.id).await;
    assert_eq!(served(&fixture).await, [("R1".into(), 2)], "the dead serve nobody");
    one.deregister(first.id).await.unwrap();
    two.deregister(second.id).await.unwrap();
    assert_eq!(served(&fixture).await, []);
    let rescuer = Player::join(&fixture).await;
    rescuer.store.rescue(&rescuer.registration).await.unwrap();
    let left = fixture.number("select count(*) from ichido_process_request").await;
    assert_eq!(left, 1, "who is forgotten leaves nothing behind");
}

#[track_caller]
fn assert_refused(registered: Result<(), Error>, by: ProcessId) -> Option<String> {
    let Err(Error::Duplicate { reason, heartbeat }) = registered else { panic!("it is not refused: {registered:?}") };
    assert!(reason.contains(&by.to_string()) && reason.contains("ichido stop R1"), "{reason}");
    heartbeat
}

pub async fn of_two_that_must_serve_alone_the_second_is_refused<F: Fixture>() {
    let fixture = F::fresh().await;
    let (holder, store) = (fixture.store(), fixture.store());
    let first = serving(&["R1"], &["R1"]);
    holder.register(&first).await.unwrap();
    let seen = assert_refused(store.register(&serving(&["R0", "R1"], &["R0", "R1"])).await, first.id);
    assert!(holder.heartbeat(first.id, &[]).await.unwrap());
    let again = assert_refused(store.register(&serving(&["R1"], &["R1"])).await, first.id);
    assert!(seen.is_none() == again.is_none() && (seen.is_none() || seen != again), "a heartbeat can be told");
    assert_eq!(fixture.number("select count(*) from ichido_process").await, 1, "who is refused is not known");
    let (other, exempt) = (serving(&["R2"], &["R2"]), serving(&["R1"], &[]));
    store.register(&other).await.unwrap();
    store.register(&exempt).await.unwrap();
    store.deregister(exempt.id).await.unwrap();
    fixture.die(holder, first.id).await;
    store.register(&serving(&["R1"], &["R1"])).await.expect("the dead block nobody");
}

pub async fn of_many_that_register_at_once_to_serve_alone_one_is_admitted<F: Fixture>() {
    let fixture = F::fresh().await;
    for round in 0..5 {
        let id = format!("R{round}");
        let starting: Vec<_> = (0..6)
            .map(|_| (fixture.store(), serving(&[&id], &[&id])))
            .map(|(store, process)| tokio::spawn(async move { (store.register(&process).await, store) }))
            .collect();
        let mut admitted = Vec::new();
        for started in starting {
            match started.await.unwrap() {
                (Ok(()), store) => admitted.push(store),
                (Err(Error::Duplicate { .. }), _) => {}
                (Err(error), _) => panic!("{error:?}"),
            }
        }
        assert_eq!(admitted.len(), 1, "round {round}");
    }
}
