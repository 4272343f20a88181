//! Races on real locks. Each test plays one side by hand, statement by statement, and says who waits and who loses.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    Error, NewMessage, Operate, Queue, Status, Table,
    store::{Database, Failure, ProcessId, Processes, Queues, Registration, Rescued, Transactions},
};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::{eventually, fixture::TABLES};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

struct Scene {
    url: String,
    store: Postgres,
}

impl Scene {
    async fn new(orders: u32) -> Self {
        let url = servers::Postgres::shared().fresh_database();
        let status = Status::new("status", "0", "1").failed("2");
        let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
        let store = Postgres::new(&url, None, 6, vec![queue]).unwrap();
        let scene = Scene { url, store };
        sqlx::raw_sql(TABLES).execute(&mut scene.connection().await).await.unwrap();
        scene.store.migrate().await.unwrap();
        let mut tx = scene.store.begin().await.unwrap();
        let orders: Vec<_> = (1..=orders).map(|id| NewMessage::new(format!(r#"{{"id":{id}}}"#))).collect();
        scene.store.send(Postgres::connection(&mut tx), "orders", &orders).await.unwrap();
        scene.store.commit(tx).await.unwrap();
        scene
    }

    async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    async fn process(&self) -> Registration {
        let process = Registration::new("race", Duration::from_mins(20), BTreeMap::from([("orders".into(), 3)]));
        self.store.register(&process).await.unwrap();
        process
    }

    async fn sql(&self, text: String) {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut self.connection().await).await.unwrap();
    }

    async fn expire(&self, process: ProcessId) {
        self.sql(format!("update ichido_process set heartbeat_at = now() - interval '1 hour' where id = '{process}'"))
            .await;
    }

    async fn owned_by(&self, process: ProcessId) -> i64 {
        let owned = format!("select count(*) from received_order where process_id = '{process}' and status = '0'");
        sqlx::query(AssertSqlSafe(owned)).fetch_one(&mut self.connection().await).await.unwrap().get(0)
    }

    /// A claim of this process that the server is still working on.
    async fn claim_on_its_way(&self, process: ProcessId) -> PgConnection {
        let mut connection = self.connection().await;
        let claim = format!(
            "begin; select 1 from ichido_process where id = '{process}' for key share; \
             update received_order set process_id = '{process}' where id = 1"
        );
        sqlx::raw_sql(AssertSqlSafe(claim)).execute(&mut connection).await.unwrap();
        connection
    }

    /// Resolves when a session of the database waits for a lock, with its pid.
    async fn somebody_waits(&self) -> i32 {
        let waiting =
            "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        self.until(waiting).await.get(0)
    }

    /// The first row that a query finds, as soon as it finds one.
    async fn until(&self, query: &str) -> sqlx::postgres::PgRow {
        let mut connection = self.connection().await;
        let look = async || sqlx::query(AssertSqlSafe(query)).fetch_optional(&mut connection).await.unwrap();
        eventually(query, look).await
    }
}

async fn commit(mut connection: PgConnection) {
    sqlx::raw_sql("commit").execute(&mut connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_leaves_waits_for_its_claim_and_frees_it_too() {
    let scene = Scene::new(2).await;
    let process = scene.process().await;
    let claim = scene.claim_on_its_way(process.id).await;
    let (store, id) = (scene.store.clone(), process.id);
    let leaving = tokio::spawn(async move { store.deregister(id).await });
    scene.somebody_waits().await;
    commit(claim).await;
    leaving.await.unwrap().unwrap();
    assert_eq!(scene.owned_by(process.id).await, 0, "a row is owned by nobody");
    let late = scene.store.claim(process.id, "orders", 1).await;
    assert!(matches!(late, Err(Error::LostClaim)), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rescuer_leaves_a_process_alone_while_its_claim_is_on_its_way() {
    let scene = Scene::new(2).await;
    let (zombie, medic) = (scene.process().await, scene.process().await);
    scene.expire(zombie.id).await;
    let claim = scene.claim_on_its_way(zombie.id).await;
    assert_eq!(scene.store.rescue(&medic).await.unwrap(), Rescued::default());
    commit(claim).await;
    let rescued = scene.store.rescue(&medic).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 1, messages: 1, parked: 0 });
    assert_eq!(scene.owned_by(zombie.id).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_claim_that_waits_for_its_rescuer_gets_nothing() {
    let scene = Scene::new(2).await;
    let (zombie, medic) = (scene.process().await, scene.process().await);
    // The rescuer has locked the process row; the zombie was alive when its claim looked at it.
    let mut lock = scene.connection().await;
    let text = format!("begin; select 1 from ichido_process where id = '{}' for update", zombie.id);
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut lock).await.unwrap();
    let (store, id) = (scene.store.clone(), zombie.id);
    let claiming = tokio::spawn(async move { store.claim(id, "orders", 1).await });
    scene.somebody_waits().await;
    let text = format!("update ichido_process set heartbeat_at = '-infinity' where id = '{}'; commit", zombie.id);
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut lock).await.unwrap();
    let claimed = claiming.await.unwrap();
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
    assert_eq!(scene.owned_by(zombie.id).await, 0);
    assert_eq!(scene.store.rescue(&medic).await.unwrap().processes, 1);
}

/// A session of the server that stands still until this is dropped: what it does next, it does late.
struct Halted(i32);

impl Halted {
    fn at(session: i32) -> Self {
        signal("-STOP", session);
        Halted(session)
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(signal: &str, session: i32) {
    let sent = std::process::Command::new("kill").args([signal, &session.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "no signal for session {session}");
}

/// The claim has seen its process alive and is slow to lock the row; meanwhile the lease ends and the process is rescued,
/// but not forgotten, because one of its rows is in a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_overtaken_by_a_rescue_gets_nothing() {
    let scene = Scene::new(2).await;
    let (zombie, medic) = (scene.process().await, scene.process().await);
    let claimed = scene.store.claim(zombie.id, "orders", 1).await.unwrap();
    let mut tx = scene.store.begin().await.unwrap();
    scene.store.complete(&mut tx, &claimed).await.unwrap();
    let (store, id, mut lock) = (scene.store.clone(), zombie.id, scene.connection().await);
    let soon = "heartbeat_at = clock_timestamp(), lease = interval '3 seconds'";
    scene.sql(format!("update ichido_process set {soon} where id = '{id}'")).await;
    let text = format!("begin; select 1 from ichido_process where id = '{id}' for update");
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut lock).await.unwrap();
    let mut claiming = tokio::spawn(async move { store.claim(id, "orders", 1).await });
    let halted = tokio::select! {
        session = scene.somebody_waits() => Halted::at(session),
        early = &mut claiming => panic!("the lease was over before the claim began: {early:?}"),
    };
    let dead = format!("select 1 from ichido_process where id = '{id}' and heartbeat_at <= clock_timestamp() - lease");
    scene.until(&dead).await;
    commit(lock).await;
    assert_eq!(scene.store.rescue(&medic).await.unwrap(), Rescued::default(), "its row is in a transaction");
    drop(halted);
    let late = claiming.await.unwrap();
    assert!(matches!(late, Err(Error::LostClaim)), "{late:?}");
    scene.store.rollback(tx).await.unwrap();
    assert_eq!(scene.store.rescue(&medic).await.unwrap(), Rescued { processes: 1, messages: 1, parked: 0 });
}

/// While the rescuer is busy with the first of two, the other's heartbeat arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_sends_its_heartbeat_just_before_its_rescue_is_left_alone() {
    let scene = Scene::new(2).await;
    let (one, other, medic) = (scene.process().await, scene.process().await, scene.process().await);
    for process in [&one, &other] {
        assert_eq!(scene.store.claim(process.id, "orders", 1).await.unwrap().len(), 1);
        scene.expire(process.id).await;
    }
    let mut lock = scene.connection().await;
    sqlx::raw_sql("begin; select 1 from ichido_process_queue for update").execute(&mut lock).await.unwrap();
    let store = scene.store.clone();
    let rescuing = tokio::spawn(async move { store.rescue(&medic).await });
    scene.somebody_waits().await;
    scene
        .sql(
            "update ichido_process set heartbeat_at = clock_timestamp() where id in \
             (select id from ichido_process where heartbeat_at < now() - interval '1 minute' for update skip locked)"
                .into(),
        )
        .await;
    commit(lock).await;
    assert_eq!(rescuing.await.unwrap().unwrap(), Rescued { processes: 1, messages: 1, parked: 0 });
    assert_eq!(scene.owned_by(one.id).await + scene.owned_by(other.id).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_in_a_stopped_processs_transaction_is_skipped_and_rescued_later() {
    let scene = Scene::new(3).await;
    let (stopped, medic) = (scene.process().await, scene.process().await);
    let claimed = scene.store.claim(stopped.id, "orders", 3).await.unwrap();
    let mut tx = scene.store.begin().await.unwrap();
    scene.store.complete(&mut tx, &claimed[..1]).await.unwrap();
    scene.expire(stopped.id).await;
    let rescued = scene.store.rescue(&medic).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 0, messages: 2, parked: 0 }, "the others are not held up");
    scene.store.rollback(tx).await.unwrap();
    let rescued = scene.store.rescue(&medic).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 1, messages: 1, parked: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_past_its_lease_cannot_come_back_to_life() {
    let scene = Scene::new(1).await;
    let process = scene.process().await;
    scene.expire(process.id).await;
    assert!(!scene.store.heartbeat(process.id, &[]).await.unwrap());
    let claimed = scene.store.claim(process.id, "orders", 1).await;
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_after_an_unknown_commit_waits_for_the_row() {
    let scene = Scene::new(1).await;
    let process = scene.process().await;
    let delivery = scene.store.claim(process.id, "orders", 1).await.unwrap().remove(0);
    let mut tx = scene.store.begin().await.unwrap();
    scene.store.complete(&mut tx, std::slice::from_ref(&delivery)).await.unwrap();
    let (store, copy) = (scene.store.clone(), delivery.copy());
    let probe = tokio::spawn(async move { store.is_claimed(&copy).await });
    scene.somebody_waits().await;
    scene.store.commit(tx).await.unwrap();
    assert!(!probe.await.unwrap().unwrap(), "a plain read would have said that it is not done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_has_locked_does_not_hold_up_what_is_due() {
    let scene = Scene::new(2).await;
    let process = scene.process().await;
    for delivery in scene.store.claim(process.id, "orders", 2).await.unwrap() {
        let failure = Failure::waiting("later", 1, Duration::ZERO);
        assert!(scene.store.park(&delivery, &failure).await.unwrap());
    }
    let mut editor = scene.connection().await;
    sqlx::raw_sql("begin; update received_order set name = 'by hand' where id = 1").execute(&mut editor).await.unwrap();
    assert_eq!(scene.store.return_due(&process).await.unwrap(), 1);
    commit(editor).await;
    assert_eq!(scene.store.return_due(&process).await.unwrap(), 1, "it was neither forgotten nor stuck");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_a_row_that_somebody_has_locked() {
    let scene = Scene::new(3).await;
    let process = scene.process().await;
    let mut editor = scene.connection().await;
    sqlx::raw_sql("begin; update received_order set name = 'by hand' where id = 1").execute(&mut editor).await.unwrap();
    let claimed = scene.store.claim(process.id, "orders", 2).await.unwrap();
    assert_eq!(claimed.iter().map(|found| found.message.key.to_string()).collect::<Vec<_>>(), ["2", "3"]);
    commit(editor).await;
    // After a claim that took long the next ones begin where it ended, for half a second.
    eventually("the row that was locked", async || {
        scene.store.claim(process.id, "orders", 2).await.unwrap().len() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_row_that_somebody_has_locked_does_not_hold_up_what_is_due() {
    let scene = Scene::new(2).await;
    let process = scene.process().await;
    for delivery in scene.store.claim(process.id, "orders", 2).await.unwrap() {
        assert!(scene.store.park(&delivery, &Failure::waiting("later", 1, Duration::ZERO)).await.unwrap());
    }
    let mut operator = scene.connection().await;
    let lock = "begin; select 1 from ichido_parked where queue = 'orders' and key = '1' for update";
    sqlx::raw_sql(lock).execute(&mut operator).await.unwrap();
    assert_eq!(scene.store.return_due(&process).await.unwrap(), 1);
    commit(operator).await;
    assert_eq!(scene.store.return_due(&process).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_left_something_behind_claims_nothing_any_more() {
    let scene = Scene::new(3).await;
    let (leaver, medic) = (scene.process().await, scene.process().await);
    let claimed = scene.store.claim(leaver.id, "orders", 2).await.unwrap();
    let mut tx = scene.store.begin().await.unwrap();
    scene.store.complete(&mut tx, &claimed[..1]).await.unwrap();
    scene.store.deregister(leaver.id).await.unwrap();
    assert_eq!(scene.owned_by(leaver.id).await, 1, "only what is being completed right now");
    let late = scene.store.claim(leaver.id, "orders", 1).await;
    assert!(matches!(late, Err(Error::LostClaim)), "{late:?}");
    assert!(!scene.store.heartbeat(leaver.id, &[]).await.unwrap());
    scene.store.rollback(tx).await.unwrap();
    let rescued = scene.store.rescue(&medic).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 1, messages: 1, parked: 0 });
}
