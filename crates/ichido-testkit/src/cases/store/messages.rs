//! What operators see of single messages: each in its state, and lists of them by state, page by page, in the order of an index.

use std::time::Duration;

use ichido::{
    Client, Delivery, Inspect, Key, MessageId, Messages, NewMessage, Operate, Queue, Status, Table,
    inspect::{Changed, Cursor, Listed, MessageFilter, MessageInfo, MessageState, ParkedFilter},
    message::Order,
    store::{Database, Failure, Processes, Queues, Running, Transactions},
};

use crate::{
    eventually,
    fixture::{Fixture, Player, send, send_orders, with_orders},
};

const HOUR: Duration = Duration::from_hours(1);

pub(crate) fn id(text: &str) -> MessageId {
    text.parse().expect("this is an id")
}

pub(crate) async fn state<F: Fixture>(process: &Player<F>, message: &str) -> Option<MessageState> {
    process.store.message(&id(message)).await.unwrap().map(|info| info.state)
}

/// What was left as it is.
pub(crate) fn left(changed: Changed) -> MessageInfo {
    match changed {
        Changed::No(Some(info)) => *info,
        other => panic!("it was not left as it is: {other:?}"),
    }
}

/// The ids of all messages in a state, read in pages of this size.
pub(crate) async fn listed<S: Messages>(store: &S, queue: &str, state: Listed, size: usize) -> Vec<String> {
    let mut filter = MessageFilter::new(queue, state, size);
    let mut found = Vec::new();
    loop {
        let page = store.messages(&filter).await.unwrap();
        assert!(page.messages.len() <= size && page.notes.is_empty(), "{page:?}");
        found.extend(page.messages.into_iter().map(|message| message.id));
        // As a program would hand it on.
        let Some(next) = page.next else { return found };
        filter.after = Some(next.to_string().parse::<Cursor>().unwrap());
        assert_eq!(filter.after, Some(next));
        assert!(found.len() < 1000, "the list has no end");
    }
}

/// The same in pages of every size that matters.
async fn is_listed<S: Messages>(store: &S, queue: &str, state: Listed, expected: &[&str]) {
    for size in [1, 2, 3, 100] {
        assert_eq!(listed(store, queue, state, size).await, expected, "{queue}, {state:?}, pages of {size}");
    }
}

async fn park<F: Fixture>(process: &Player<F>, delivery: &Delivery, failure: &Failure) {
    assert!(process.store.park(delivery, failure).await.unwrap());
}

/// An index by which the rows of a process are found, where the claim index is not enough.
const OWNER_INDEX: &str = "create index order_owner on received_order (process_id)";

pub async fn messages_are_listed_by_state_page_by_page<F: Fixture>() {
    let fixture = with_orders::<F>(9).await;
    fixture.sql(OWNER_INDEX).await;
    let (one, other) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let claimed = one.claim("orders", 5).await;
    for (delivery, minutes) in claimed[..2].iter().zip([20, 10]) {
        park(&one, delivery, &Failure::waiting("not yet", 1, Duration::from_mins(minutes))).await;
    }
    for delivery in claimed[2..4].iter().rev() {
        // The second one is later, whatever a clock counts.
        fixture.sql("update ichido_parked set parked_at = '2001-02-03 04:05:06' where state = 'dead'").await;
        park(&one, delivery, &Failure::dead("never", 3)).await;
    }
    let sixth = other.claim_one("orders").await;
    let store = &one.store;
    is_listed(store, "orders", Listed::Ready, &["orders/7", "orders/8", "orders/9"]).await;
    is_listed(store, "orders", Listed::Waiting, &["orders/2", "orders/1"]).await;
    is_listed(store, "orders", Listed::Failed, &["orders/4", "orders/3"]).await;
    let mut both = [(one.registration.id.to_string(), "orders/5"), (other.registration.id.to_string(), "orders/6")];
    both.sort_unstable();
    is_listed(store, "orders", Listed::Claimed, &both.iter().map(|(_, id)| *id).collect::<Vec<_>>()).await;
    other.finish(&sixth).await.unwrap();
    is_listed(store, "orders", Listed::Claimed, &["orders/5"]).await;
    for state in Listed::ALL {
        assert_eq!(listed(store, "mail", state, 2).await, [""; 0], "{state:?}");
    }
}

pub async fn a_list_goes_through_all_queues_and_states<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let mail = send(&fixture, "mail", &["1", "2"]).await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("mail").await;
    park(&process, &delivery, &Failure::dead("never", 3)).await;
    let queues = ["orders".to_owned(), "mail".to_owned(), "urgent".to_owned()];
    let states = [Listed::Ready, Listed::Failed];
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = process.store.list(&queues, &states, after, 2).await.unwrap();
        found.extend(page.messages.into_iter().map(|message| (message.id, message.state)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected = [
        ("orders/1", MessageState::Ready),
        ("orders/2", MessageState::Ready),
        ("orders/3", MessageState::Ready),
        (mail[1].as_str(), MessageState::Ready),
        (mail[0].as_str(), MessageState::Failed),
    ];
    assert_eq!(found, expected.map(|(id, state)| (id.to_owned(), state)));
    let elsewhere = Some("mail/waiting".parse().unwrap());
    let error = process.store.list(&queues, &states, elsewhere, 2).await.unwrap_err().to_string();
    assert!(error.contains("is in another list"), "{error}");
}

pub async fn ready_messages_are_listed_in_claim_order<F: Fixture>() {
    let fixture = F::fresh().await;
    let rows = "create table job (id integer primary key, rank_no integer, day varchar(9), status char(1) default '0' not null, taken_by char(36)); \
                insert into job (id, rank_no, day) values (1, 5, 'b'), (2, null, 'a'), (3, 5, null), (4, 7, 'a'), (5, null, null), (6, 5, 'a'), \
                (7, 5, 'b'), (8, null, 'a'), (9, 5, null)";
    fixture.sql(rows).await;
    for order in [["-rank_no", "day", "id"], ["rank_no", "-day", "-id"]] {
        let mut table = Table::new("job", "taken_by", Status::new("status", "0", "1").failed("2"));
        table.order_by = order.iter().map(|column| Order::parse(column)).collect();
        let process = Player::<F>::join_with(fixture.store_with(vec![Queue::table("jobs", table)]), &["jobs"]).await;
        let mut seen = Vec::new();
        for size in [1, 2, 4, 100] {
            seen.push(listed(&process.store, "jobs", Listed::Ready, size).await);
        }
        let claimed = process.claim("jobs", 100).await;
        let order: Vec<_> = claimed.iter().map(|delivery| delivery.message.id().to_string()).collect();
        assert_eq!(order.len(), 9);
        assert_eq!(seen, vec![order; 4]);
        process.store.release(&claimed).await.unwrap();
    }
}

pub async fn keys_of_several_columns_are_listed_too<F: Fixture>() {
    let fixture = F::fresh().await;
    let rows = "insert into ticket (region, number, kind, priority) values ('b/x', 2, 'urgent', 1), ('a', 1, 'urgent', 1), ('a', 7, 'other', 9), \
                ('a', 10, 'urgent', 1), ('c', 3, 'urgent', 5), ('c', 4, 'urgent', 0)";
    fixture.sql(rows).await;
    let process = Player::join(&fixture).await;
    let expected = ["urgent/c/3", "urgent/a/1", "urgent/a/10", "urgent/b%2Fx/2", "urgent/c/4"];
    is_listed(&process.store, "urgent", Listed::Ready, &expected).await;
    let first = process.claim_one("urgent").await;
    park(&process, &first, &Failure::dead("never", 3)).await;
    is_listed(&process.store, "urgent", Listed::Failed, &["urgent/c/3"]).await;
    assert_eq!(state(&process, "urgent/c/3").await, Some(MessageState::Failed));
    assert_eq!(state(&process, "urgent/a/7").await, Some(MessageState::Other), "it is not one of this queue");
}

pub async fn messages_in_groups_are_listed_after_those_in_none<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let message = |group: &str, delayed: bool| {
        let message = if group.is_empty() { NewMessage::new("1") } else { NewMessage::new("1").group(group) };
        if delayed { message.delay(HOUR) } else { message }
    };
    let sent = [("b", false), ("", false), ("a", true), ("b", false), ("a", false), ("", false), ("", true)];
    let messages: Vec<_> = sent.iter().map(|(group, delayed)| message(group, *delayed)).collect();
    let mut tx = store.begin().await.unwrap();
    let ids = store.send(F::Store::connection(&mut tx), "mail", &messages).await.unwrap();
    store.commit(tx).await.unwrap();
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    let expected = [1, 5, 4, 0, 3].map(|at: usize| ids[at].as_str());
    is_listed(&store, "mail", Listed::Ready, &expected).await;
    let info = store.message(&id(&ids[0])).await.unwrap().unwrap();
    assert_eq!((info.group.as_deref(), info.state), (Some("b"), MessageState::Ready));
}

pub async fn a_message_is_found_in_every_state<F: Fixture>() {
    let fixture = with_orders::<F>(6).await;
    let process = Player::join(&fixture).await;
    let claimed = process.claim("orders", 5).await;
    park(&process, &claimed[1], &Failure::waiting("not yet", 2, HOUR)).await;
    park(&process, &claimed[2], &Failure::dead("never", 3)).await;
    park(&process, &claimed[3], &Failure::dead("never", 3)).await;
    assert!(process.store.discard(&id("orders/4")).await.unwrap());
    process.finish(&claimed[4]).await.unwrap();
    let waiting = process.store.message(&id("orders/2")).await.unwrap().unwrap();
    assert_eq!(
        (waiting.state, waiting.attempts, waiting.error.as_deref()),
        (MessageState::Waiting, 2, Some("not yet"))
    );
    assert!(waiting.due_at > waiting.parked_at && waiting.parked_at.is_some(), "{waiting:?}");
    let failed = process.store.message(&id("orders/3")).await.unwrap().unwrap();
    assert_eq!(
        (failed.state, failed.attempts, failed.due_at, failed.history.len()),
        (MessageState::Failed, 3, None, 1)
    );
    assert_eq!(state(&process, "orders/4").await, Some(MessageState::Discarded));
    assert_eq!(state(&process, "orders/5").await, Some(MessageState::Done), "the table still has it");
    assert_eq!(state(&process, "orders/6").await, Some(MessageState::Ready));
    assert_eq!(state(&process, "orders/7").await, None);
    fixture.sql("update received_order set status = '9' where id = 6").await;
    assert_eq!(state(&process, "orders/6").await, Some(MessageState::Other));
    fixture.sql("delete from ichido_parked where state = 'waiting'").await;
    assert_eq!(state(&process, "orders/2").await, Some(MessageState::Orphan));
}

pub async fn a_managed_message_that_is_done_is_gone<F: Fixture>() {
    let fixture = F::fresh().await;
    let ids = send(&fixture, "mail", &["1", "2"]).await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("mail").await;
    process.finish(&delivery).await.unwrap();
    assert_eq!(state(&process, &ids[0]).await, None);
    let ready = process.store.message(&id(&ids[1])).await.unwrap().unwrap();
    assert!(ready.age_seconds.is_some_and(|age| age < 600), "{ready:?}");
    assert_eq!(process.store.payload(&id(&ids[1])).await.unwrap().as_deref(), Some("2"));
    let elsewhere = Player::<F>::join_with(fixture.store_with(vec![Queue::managed("post")]), &["post"]).await;
    let key = id(&ids[1]).key;
    assert_eq!(state(&elsewhere, &format!("post/{key}")).await, None, "it is in another queue");
}

pub async fn who_has_a_message_is_told_and_since_when_it_runs<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    fixture.sql(OWNER_INDEX).await;
    let process = Player::join(&fixture).await;
    let claimed = process.claim("orders", 2).await;
    let running = [Running::new(&claimed[1].message.id(), Duration::from_millis(61_500))];
    assert!(process.store.heartbeat(process.registration.id, &running).await.unwrap());
    for (key, seconds) in [("orders/1", None), ("orders/2", Some(61))] {
        let owner = process.store.message(&id(key)).await.unwrap().unwrap().owner.unwrap();
        assert_eq!((owner.process, owner.running_seconds), (process.registration.id.to_string(), seconds));
        assert_eq!((owner.request_id.as_deref(), owner.alive), (Some("conformance"), true));
    }
    let me = process.registration.id.to_string();
    let others = Player::join(&fixture).await;
    process.die(&fixture).await;
    is_listed(&others.store, "orders", Listed::Claimed, &["orders/1", "orders/2"]).await;
    let owner = others.store.message(&id("orders/1")).await.unwrap().unwrap().owner.unwrap();
    assert!(owner.process == me && !owner.alive, "{owner:?}");
}

pub async fn failed_messages_are_read_page_by_page_over_all_queues<F: Fixture>() {
    let fixture = F::fresh().await;
    send_orders(&fixture, 3).await;
    send(&fixture, "mail", &["1", "2", "3"]).await;
    let process = Player::join(&fixture).await;
    let (orders, mail) = (process.claim("orders", 3).await, process.claim("mail", 3).await);
    for (order, mail) in orders.iter().zip(&mail) {
        park(&process, mail, &Failure::dead("never", 1)).await;
        park(&process, order, &Failure::waiting("not yet", 1, HOUR)).await;
    }
    // All at the same moment: only queue and key tell them apart.
    fixture
        .sql("update ichido_parked set parked_at = (select t from (select min(parked_at) as t from ichido_parked) m)")
        .await;
    let mut expected: Vec<_> = mail.iter().chain(&orders).map(|delivery| delivery.message.id()).collect();
    expected.sort_unstable();
    let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
    for size in [1, 2, 4, 6, 7] {
        let mut filter = ParkedFilter::default();
        (filter.waiting, filter.limit) = (true, size);
        let mut found: Vec<String> = Vec::new();
        loop {
            let page = process.store.parked(&filter).await.unwrap();
            let Some(last) = page.last().cloned() else { break };
            found.extend(page.into_iter().map(|parked| parked.id));
            filter.after = Some(last);
            assert!(found.len() <= 6, "{found:?}");
        }
        assert_eq!(found, expected, "pages of {size}");
    }
}

pub async fn a_table_without_an_owner_index_is_not_read_from_end_to_end<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let process = Player::join(&fixture).await;
    let claimed = process.claim("orders", 2).await;
    let running = [Running::new(&claimed[1].message.id(), HOUR)];
    assert!(process.store.heartbeat(process.registration.id, &running).await.unwrap());
    let page = process.store.messages(&MessageFilter::new("orders", Listed::Claimed, 10)).await.unwrap();
    let ids: Vec<_> = page.messages.iter().map(|message| message.id.as_str()).collect();
    // Where the claim index has the owner in it, nothing is missing.
    match page.notes.as_slice() {
        [] => assert_eq!(ids, ["orders/1", "orders/2"]),
        [note] => {
            assert!(note.contains("no index on") && note.contains("process_id"), "{note}");
            assert_eq!(ids, ["orders/2"], "only what runs is known without an index");
        }
        notes => panic!("{notes:?}"),
    }
    fixture.sql(OWNER_INDEX).await;
    // PostgreSQL uses an index on rows that were updated before only once all transactions that are older than it have ended,
    // those of other tests on the same server among them.
    let claimed = MessageFilter::new("orders", Listed::Claimed, 10);
    eventually("the index is used", async || process.store.messages(&claimed).await.unwrap().notes.is_empty()).await;
    is_listed(&process.store, "orders", Listed::Claimed, &["orders/1", "orders/2"]).await;
}

pub async fn a_client_looks_at_one_message<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let client = Client::new(fixture.store());
    let info = client.message(&id("orders/1")).state().await.unwrap().unwrap();
    assert_eq!((info.state, info.queue.as_str()), (MessageState::Ready, "orders"));
    let nowhere = MessageId { queue: "nowhere".into(), key: Key::new(["1"]) };
    assert!(client.message(&nowhere).state().await.is_err());
}
