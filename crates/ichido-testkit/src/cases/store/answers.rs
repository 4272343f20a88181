//! Answers to requests that may come again: one per key, for a day, and only with the work that it is about.

use ichido::{
    NewMessage, error,
    process::Retention,
    store::{Answered, Answers, Database, Queues, Stats, Transactions},
};
use tokio::task::JoinSet;

use crate::{
    eventually,
    fixture::{Fixture, Player},
};

const KEY: &str = "order-42";

fn answered(request: &str, answer: &str) -> Answered {
    Answered { request: request.to_owned(), answer: answer.to_owned() }
}

/// Sends a mail and remembers the answer with it; if somebody has answered already, nothing is sent.
async fn answer<F: Fixture>(store: &F::Store, key: &str, answered: &Answered) -> error::Result<bool> {
    let mut tx = store.begin().await?;
    let mail = [NewMessage::new("{}")];
    let is_first = async {
        store.send(F::Store::connection(&mut tx), "mail", &mail).await?;
        store.remember_answer(&mut tx, key, answered).await
    };
    match is_first.await {
        Ok(true) => store.commit(tx).await.map(|()| true),
        other => {
            store.rollback(tx).await?;
            other
        }
    }
}

async fn mails<F: Fixture>(fixture: &F) -> i64 {
    fixture.number("select count(*) from ichido_message").await
}

/// As if all that was answered until now had been answered long ago.
async fn a_day_passes<F: Fixture>(fixture: &F) {
    fixture.sql("update ichido_idempotency set answered_at = '2001-02-03 04:05:06'").await;
}

pub async fn an_answer_is_recalled_by_its_key_as_it_was_given<F: Fixture>() {
    let fixture = F::fresh().await;
    let (request, text) = ("ab".repeat(32), format!("{{\"ids\":[\"mail/1\"],\"é\":\"{}\"}}", "x".repeat(100_000)));
    let given = answered(&request, &text);
    assert_eq!(fixture.store().recall_answer(KEY).await.unwrap(), None);
    assert!(answer::<F>(&fixture.store(), KEY, &given).await.unwrap());
    assert_eq!(fixture.store().recall_answer(KEY).await.unwrap(), Some(given), "every process knows it");
    for other in ["Order-42", "order-42x", "order-4", ""] {
        assert_eq!(fixture.store().recall_answer(other).await.unwrap(), None, "{other:?} is another key");
    }
}

pub async fn a_key_keeps_its_first_answer<F: Fixture>() {
    let fixture = F::fresh().await;
    let (store, first) = (fixture.store(), answered("one", "1"));
    assert!(answer::<F>(&store, KEY, &first).await.unwrap());
    for second in [answered("one", "2"), answered("another body", "3")] {
        assert!(!answer::<F>(&store, KEY, &second).await.unwrap(), "{second:?}");
        assert_eq!(store.recall_answer(KEY).await.unwrap().as_ref(), Some(&first), "who asks sees what was asked then");
    }
    assert_eq!(mails(&fixture).await, 1);
    assert!(answer::<F>(&store, "another", &answered("one", "1")).await.unwrap());
}

pub async fn work_that_is_rolled_back_has_no_answer<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let mut tx = store.begin().await.unwrap();
    assert!(store.remember_answer(&mut tx, KEY, &answered("one", "1")).await.unwrap());
    store.rollback(tx).await.unwrap();
    assert_eq!(store.recall_answer(KEY).await.unwrap(), None);
    assert!(answer::<F>(&store, KEY, &answered("one", "2")).await.unwrap());
}

pub async fn of_many_at_once_one_answers<F: Fixture>() {
    let fixture = F::fresh().await;
    let (mut all, mut told) = (JoinSet::new(), Vec::new());
    for at in 0..crate::size(8, 40) {
        let (store, mine) = (fixture.store(), answered("one", &at.to_string()));
        all.spawn(async move {
            loop {
                match answer::<F>(&store, KEY, &mine).await {
                    Ok(is_first) => break (is_first, store.recall_answer(KEY).await.unwrap()),
                    // Those that wait for the first can be each other's deadlock; one of them tries again.
                    Err(error) => assert!(error.is_fault::<F::Store>(), "{error}"),
                }
            }
        });
    }
    while let Some(one) = all.join_next().await {
        told.push(one.unwrap());
    }
    assert_eq!(told.iter().filter(|(is_first, _)| *is_first).count(), 1, "{told:?}");
    assert!(told.iter().all(|(_, recalled)| recalled.is_some() && *recalled == told[0].1), "{told:?}");
    assert_eq!(mails(&fixture).await, 1);
}

pub async fn who_comes_second_waits_for_what_becomes_of_the_first<F: Fixture>() {
    for first_commits in [true, false] {
        let fixture = F::fresh().await;
        let store = fixture.store();
        store.prepare().await.unwrap();
        let mut tx = store.begin().await.unwrap();
        assert!(store.remember_answer(&mut tx, KEY, &answered("one", "1")).await.unwrap());
        let second = fixture.store();
        let second = tokio::spawn(async move { answer::<F>(&second, KEY, &answered("one", "2")).await });
        if F::LOCKS {
            eventually("a session waits for a lock", async || fixture.lock_waits().await > 0).await;
        }
        assert!(!second.is_finished(), "nobody knows yet");
        let end = if first_commits { store.commit(tx).await } else { store.rollback(tx).await };
        end.unwrap();
        assert_eq!(second.await.unwrap().unwrap(), !first_commits);
        let valid = if first_commits { "1" } else { "2" };
        assert_eq!(store.recall_answer(KEY).await.unwrap(), Some(answered("one", valid)));
    }
}

pub async fn after_a_day_a_key_is_free<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    assert!(answer::<F>(&store, KEY, &answered("one", "1")).await.unwrap());
    a_day_passes(&fixture).await;
    assert_eq!(store.recall_answer(KEY).await.unwrap(), None);
    let second = answered("another body", "2");
    assert!(answer::<F>(&store, KEY, &second).await.unwrap(), "nobody has pruned it, and it is in nobody's way");
    assert_eq!(store.recall_answer(KEY).await.unwrap(), Some(second));
    assert!(!answer::<F>(&store, KEY, &answered("one", "3")).await.unwrap(), "it is taken for another day");
    assert_eq!(mails(&fixture).await, 2);
}

pub async fn only_answers_older_than_a_day_are_pruned<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = Player::join(&fixture).await.store;
    for key in ["a", "b"] {
        assert!(answer::<F>(&store, key, &answered("one", "1")).await.unwrap());
    }
    a_day_passes(&fixture).await;
    assert!(answer::<F>(&store, KEY, &answered("one", "1")).await.unwrap());
    store.prune(Retention::default()).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_idempotency").await, 1);
    assert!(store.recall_answer(KEY).await.unwrap().is_some());
}
