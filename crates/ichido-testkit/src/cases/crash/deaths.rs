//! Processes that die at the worst moments, and a supervisor that starts them again as long as they die.

use std::{os::unix::process::ExitStatusExt, time::Duration};

use ichido::{
    Context, Inspect, Outcome, Pool, Process, Result, RetryPolicy,
    inspect::ParkedFilter,
    testing::{Step, crash_at},
};
use serde::Deserialize;

use crate::{
    child::{start, supervise},
    fixture::{Fixture, effect_here, effects, with_orders},
};

/// The role of a process whose action snoozes.
const SNOOZE: &str = "snooze ";

const SIGABRT: i32 = 6;

#[derive(Deserialize)]
struct Order {
    name: Option<String>,
}

async fn deadly<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    if order.name.as_deref() == Some("abort") {
        std::process::abort();
    }
    if order.name.as_deref() == Some("fail once") && cx.attempt() == 1 {
        return Err("as it should".into());
    }
    Ok(Outcome::Done)
}

/// Snoozes what nobody has parked yet: after a death it is done, if it was a suspect.
async fn early<F: Fixture>(cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    let parked = cx.delivery()?.claim.as_ref().is_some_and(|claim| claim.parked);
    Ok(if parked { Outcome::Done } else { Outcome::snooze(Duration::ZERO) })
}

/// What a process of these tests does: it drains the queue, unless it dies at the step that is its role.
pub(crate) async fn child<F: Fixture>(fixture: F, role: &str) {
    let retry =
        RetryPolicy { attempts: 3, first: Duration::from_millis(1), max: Duration::from_millis(5), factor: 2.0 };
    let pool = Pool::new("Deadly").from("orders").concurrency(2).retry(retry);
    let process = Process::new(fixture.store()).poll(Duration::from_millis(50)).lease(Duration::from_secs(1)).drain();
    let (mut process, role) = match role.strip_prefix(SNOOZE) {
        Some(role) => (process.action_fn(pool, early::<F>), role),
        None => (process.action_fn(pool, deadly::<F>), role),
    };
    if !role.is_empty() {
        let step: Step = role.parse().unwrap();
        let nth = if matches!(step, Step::Failed | Step::Recorded) { 1 } else { 5 };
        process = process.handlers(crash_at(step, nth));
    }
    assert_eq!(process.run().await.unwrap(), 0);
}

pub async fn a_message_that_aborts_its_process_is_parked_in_the_end<F: Fixture>() {
    let fixture = with_orders::<F>(101).await;
    fixture.sql("update received_order set name = 'abort' where id = 50").await;
    let (one, two, three) =
        tokio::join!(supervise(&fixture, "", 9), supervise(&fixture, "", 9), supervise(&fixture, "", 9));
    // A process that stands still for longer than its lease counts as dead too, and what it had claimed is suspect then.
    let deaths = one + two + three;
    assert!((3..=4).contains(&deaths), "{deaths}: once as a bystander, if at all, then three times as a suspect");
    assert_eq!(effects(&fixture).await, 100);
    assert_eq!(fixture.number("select count(distinct message) from ledger").await, 100);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 100);
    let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
    assert_eq!((failed.len(), failed[0].id.as_str(), failed[0].attempts), (1, "orders/50", 3));
    assert_eq!(failed[0].error, ichido::inspect::DIED_RUNNING);
}

pub async fn a_death_at_any_step_leaves_each_effect_once<F: Fixture>() {
    for step in Step::ALL {
        let fixture = with_orders::<F>(12).await;
        fixture.sql("update received_order set name = 'fail once' where id = 6").await;
        let ended = start(&fixture, step.name()).wait().await.unwrap();
        assert_eq!(ended.signal(), Some(SIGABRT), "it died when a message was {step}");
        // In one look: the server may be at the last COMMIT of the dead process.
        let look =
            "select (select count(*) from received_order where status = '1') * 100 + (select count(*) from ledger)";
        let seen = fixture.number(look).await;
        let (done, effects_so_far) = (seen / 100, seen % 100);
        assert!(done < 12, "it died in the middle");
        assert_eq!(effects_so_far, done, "{step}: every effect that is there belongs to a done order");
        supervise(&fixture, "", 2).await;
        assert_eq!(effects(&fixture).await, 12);
        assert_eq!(fixture.number("select count(distinct message) from ledger").await, 12);
        assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 12);
    }
}

pub async fn a_death_at_a_snooze_loses_nothing_and_spends_no_attempt<F: Fixture>() {
    for step in [Step::Failed, Step::Recorded, Step::Committed] {
        let fixture = with_orders::<F>(12).await;
        let ended = start(&fixture, &format!("{SNOOZE}{step}")).wait().await.unwrap();
        assert_eq!(ended.signal(), Some(SIGABRT), "it died when a snooze was {step}");
        assert_eq!(fixture.number("select count(*) from ichido_parked where attempts > 0").await, 0, "{step}");
        supervise(&fixture, SNOOZE, 2).await;
        assert_eq!(effects(&fixture).await, 12, "{step}");
        assert_eq!(fixture.number("select count(distinct message) from ledger").await, 12);
        assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 12);
        assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0, "{step}: nothing is known any more");
    }
}
