//! Entries of a batch that fail although the call succeeds: they are sent again, alone, and hold up nobody but their group.

use std::collections::BTreeMap;

use ichido::{
    broker::{Broker as _, Outgoing, Settlement, Source as _, Unpublished},
    message::GROUP,
};
use ichido_test_servers::injector::{Fault, Faults};
use ichido_testkit::{
    fixture::{BrokerFixture as _, Part},
    run,
};

use crate::{
    fixture::AtSqs,
    seam::{behind_injector, next, outgoing},
};

fn failing(percentage: u8) -> Faults {
    Faults { entries: percentage, ..Faults::none() }
}

/// Less often than an entry is sent again: none of them stays unsent by chance.
fn failing_twice_at_most(percentage: u8) -> Faults {
    Faults { times_per_entry: 2, ..failing(percentage) }
}

#[test]
fn only_entries_that_failed_are_sent_again() {
    run(async {
        let at = AtSqs::fresh().await;
        let (queue, injector) = behind_injector(&at, "orders").await;
        injector.inject(failing_twice_at_most(30));
        let messages: Vec<_> = (0..100).map(|n| outgoing("orders", &n.to_string())).collect();
        let fates = queue.publish(&messages).await;
        assert!(fates.iter().all(Result::is_ok), "{fates:?}");
        let injected = injector.injected();
        assert!(injected[&Fault::EntryFailed] > 0 && injected[&Fault::EntryFalselyFailed] > 0, "{injected:?}");
        // Only what had arrived although the answer said that it had not is there twice.
        let copies = u32::try_from(injected[&Fault::EntryFalselyFailed]).expect("few");
        assert_eq!(at.depth("orders", Part::Queue).await, (100 + copies, 0));
    });
}

#[test]
fn an_entry_that_fails_each_time_says_why() {
    run(async {
        let at = AtSqs::fresh().await;
        let (queue, injector) = behind_injector(&at, "orders").await;
        injector.forget_calls();
        injector.inject(failing(100));
        let fates = queue.publish(&[outgoing("orders", "1")]).await;
        assert!(matches!(&fates[0], Err(Unpublished::Unsent(why)) if why == "injected (InternalError)"), "{fates:?}");
        let calls = injector.calls();
        assert!((2..=10).contains(&calls["SendMessageBatch"]), "again, and not for ever: {calls:?}");
        assert_eq!(at.depth("orders", Part::Queue).await, (0, 0));
    });
}

#[test]
fn a_group_keeps_its_order_when_entries_fail() {
    run(async {
        let at = AtSqs::fresh().await;
        let (queue, injector) = behind_injector(&at, "line.fifo").await;
        injector.inject(failing_twice_at_most(50));
        let of = |n: usize| {
            let message = outgoing("line.fifo", &format!("{n:02}"));
            Outgoing { headers: [(GROUP.into(), ["a", "b", "c"][n % 3].to_owned())].into_iter().collect(), ..message }
        };
        let fates = queue.publish(&(0..30).map(of).collect::<Vec<_>>()).await;
        assert!(fates.iter().all(Result::is_ok), "{fates:?}");
        assert!(injector.injected().contains_key(&Fault::EntryFailed));
        injector.inject(Faults::none());
        let (source, mut order) = (queue.receive(10), BTreeMap::<String, Vec<String>>::new());
        for _ in 0..30 {
            let received = next(&source).await;
            let group = received.headers[GROUP].clone();
            order.entry(group).or_default().push(received.id.clone().expect("an id"));
            source.settle(received.tag, Settlement::Ack).await.expect("settled");
        }
        assert!(order.values().all(|ids| ids.len() == 10 && ids.is_sorted()), "{order:?}");
    });
}
