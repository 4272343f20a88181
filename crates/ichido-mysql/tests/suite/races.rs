//! Races on real locks. Each test plays one side by hand, statement by statement, and says who waits and who loses.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    Context, Error, NewMessage, Operate, Outcome, Pool, Process, Queue, Status, Table,
    store::{Database, Failure, ProcessId, Processes, Queues, Registration, Rescued, Transactions},
};
use ichido_mysql::MySql;
use ichido_testkit::{eventually, fixture::TABLES, in_time};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};
use {
    ichido_test_servers as servers,
    ichido_test_servers::proxy::{Cut, Proxy},
};

struct Scene {
    url: String,
    store: MySql,
}

fn store(url: &str) -> MySql {
    let status = Status::new("status", "0", "1").failed("2");
    let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
    MySql::new(url, None, 6, false, vec![queue]).unwrap()
}

impl Scene {
    async fn new(orders: u32) -> Self {
        let url = servers::MariaDb::shared().fresh_database();
        let scene = Scene { store: store(&url), url };
        sqlx::raw_sql(TABLES).execute(&mut scene.connection().await).await.unwrap();
        scene.store.migrate().await.unwrap();
        let mut tx = scene.store.begin().await.unwrap();
        let orders: Vec<_> = (1..=orders).map(|id| NewMessage::new(format!(r#"{{"id":{id}}}"#))).collect();
        scene.store.send(MySql::connection(&mut tx), "orders", &orders).await.unwrap();
        scene.store.commit(tx).await.unwrap();
        scene
    }

    async fn connection(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url).await.unwrap()
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
        self.sql(format!(
            "update ichido_process set heartbeat_at = utc_timestamp(6) - interval 1 hour where id = '{process}'"
        ))
        .await;
    }

    async fn owned_by(&self, process: ProcessId) -> i64 {
        let owned = format!("select count(*) from received_order where process_id = '{process}' and status = '0'");
        sqlx::query(AssertSqlSafe(owned)).fetch_one(&mut self.connection().await).await.unwrap().get(0)
    }

    /// A claim of this process that the server is still working on.
    async fn claim_on_its_way(&self, process: ProcessId) -> MySqlConnection {
        let mut connection = self.connection().await;
        let claim = format!(
            "begin; select 1 from ichido_process where id = '{process}' lock in share mode; \
             update received_order set process_id = '{process}' where id = 1"
        );
        sqlx::raw_sql(AssertSqlSafe(claim)).execute(&mut connection).await.unwrap();
        connection
    }

    /// The URL of a user for whose sessions it is an hour ago. The server sets up only sessions of users without privileges.
    async fn an_hour_ago(&self) -> String {
        let (_, place) = self.url.split_once('@').unwrap();
        self.sql(
            "create user late@'%' identified by 'late'; grant all on `ichido\\_%`.* to late@'%'; \
             set global init_connect = concat('set timestamp = ', unix_timestamp() - 3600)"
                .into(),
        )
        .await;
        format!("mysql://late:late@{place}")
    }

    /// Resolves when a session of the database waits for a lock. The server renews what it tells about that only when nobody
    /// has asked for a tenth of a second, so one test asks at a time, and not too often.
    async fn somebody_waits(&self) {
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let mut connection = self.connection().await;
        let waiting = "select count(*) from information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = database() and t.trx_state = 'LOCK WAIT'";
        let look = async || {
            let _turn = TURN.lock().await;
            // Not a wait for anything: the tenth of a second in which nobody asks.
            tokio::time::sleep(Duration::from_millis(120)).await;
            sqlx::query(waiting).fetch_one(&mut connection).await.unwrap().get::<i64, _>(0) > 0
        };
        eventually("a session waits for a lock", look).await;
    }
}

async fn commit(mut connection: MySqlConnection) {
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
    let text = format!("update ichido_process set heartbeat_at = '1000-01-01' where id = '{}'; commit", zombie.id);
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut lock).await.unwrap();
    let claimed = claiming.await.unwrap();
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
    assert_eq!(scene.owned_by(zombie.id).await, 0);
    assert_eq!(scene.store.rescue(&medic).await.unwrap().processes, 1);
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
    // Processes are looked at in the order of their ids, which is that of their birth.
    scene.sql(format!("update ichido_process set heartbeat_at = utc_timestamp(6) where id = '{}'", other.id)).await;
    commit(lock).await;
    assert_eq!(rescuing.await.unwrap().unwrap(), Rescued { processes: 1, messages: 1, parked: 0 });
    assert_eq!(scene.owned_by(other.id).await, 1);
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
    let lock = "begin; select 1 from ichido_parked where queue = 'orders' and `key` = '1' for update";
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

/// A claim compares with the time at which it began, and is slow to arrive at its process row: an hour ago it was alive. Since
/// then it was rescued, but not forgotten, because one of its rows is in a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_overtaken_by_a_rescue_gets_nothing() {
    let scene = Scene::new(2).await;
    let (zombie, medic) = (scene.process().await, scene.process().await);
    let claimed = scene.store.claim(zombie.id, "orders", 1).await.unwrap();
    let mut tx = scene.store.begin().await.unwrap();
    scene.store.complete(&mut tx, &claimed).await.unwrap();
    scene.expire(zombie.id).await;
    assert_eq!(scene.store.rescue(&medic).await.unwrap(), Rescued::default(), "its row is in a transaction");
    let late = store(&scene.an_hour_ago().await).claim(zombie.id, "orders", 1).await;
    assert!(matches!(late, Err(Error::LostClaim)), "{late:?}");
    scene.store.rollback(tx).await.unwrap();
    assert_eq!(scene.store.rescue(&medic).await.unwrap(), Rescued { processes: 1, messages: 1, parked: 0 });
}

/// At REPEATABLE READ a claim that has come to the end of the table would lock what comes after it, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_holds_up_no_insert() {
    let scene = Scene::new(3).await;
    let process = scene.process().await;
    // The claim stops in its UPDATE, with all its locks, until the other side lets it go on.
    let trigger =
        "create trigger halt before update on received_order for each row set @halted = get_lock(database(), 30)";
    scene.sql(trigger.into()).await;
    let mut other = scene.connection().await;
    sqlx::query("select get_lock(database(), 0)").execute(&mut other).await.unwrap();
    let (store, id) = (scene.store.clone(), process.id);
    let claiming = tokio::spawn(async move { store.claim(id, "orders", 10).await });
    let halted = "select 1 from information_schema.processlist where db = database() and state = 'User lock'";
    while sqlx::query(halted).fetch_optional(&mut other).await.unwrap().is_none() {
        assert!(!claiming.is_finished(), "the claim did not stop");
    }
    sqlx::query("set innodb_lock_wait_timeout = 1").execute(&mut other).await.unwrap();
    let inserted = sqlx::query("insert into received_order (id) values (1000)").execute(&mut other).await;
    sqlx::query("select release_lock(database())").execute(&mut other).await.unwrap();
    assert_eq!(claiming.await.unwrap().unwrap().len(), 3);
    inserted.expect("nobody waits for a claim");
}

/// Here a claim ends with a COMMIT, whose reply can be lost. The lease is long, so that only the doubt can find the rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_reply_was_lost_is_found_long_before_the_lease() {
    let scene = Scene::new(3).await;
    let proxy = Proxy::start_mysql(servers::MariaDb::shared().address());
    let process = Process::new(store(&proxy.url(&scene.url)))
        .poll(Duration::from_millis(20))
        .lease(Duration::from_hours(1))
        .drain();
    let process = process.action_fn(Pool::new("Found").from("orders"), nothing_to_write);
    // The first COMMIT is the registration's, the second the claim's.
    proxy.cut_commits(Cut::AfterCommit, 2, 1);
    assert_eq!(in_time("it ends long before the lease", process.run()).await.unwrap(), 0);
    assert_eq!(proxy.cuts(), 1);
    let done = "select count(*) from received_order where status = '1'";
    let done: i64 = sqlx::query(done).fetch_one(&mut scene.connection().await).await.unwrap().get(0);
    assert_eq!(done, 3);
}

/// An operator ends whatever runs for long, or a limit of the server does: the process goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_killed_is_a_fault_and_not_the_end() {
    let scene = Scene::new(3).await;
    let trigger = "create trigger halt before update on received_order for each row set @halted = if(new.status = '0', get_lock(database(), 30) + release_lock(database()), 0)";
    scene.sql(trigger.into()).await;
    let mut other = scene.connection().await;
    sqlx::query("select get_lock(database(), 0)").execute(&mut other).await.unwrap();
    let process = Process::new(scene.store.clone()).poll(Duration::from_millis(20)).drain();
    let process = process.action_fn(Pool::new("Killed").from("orders"), nothing_to_write);
    let running = tokio::spawn(process.run());
    let halted =
        "select cast(id as signed) from information_schema.processlist where db = database() and state = 'User lock'";
    for _ in 0..2 {
        let claim = eventually("a claim that halts", async || {
            let found = sqlx::query(halted).fetch_optional(&mut other).await.unwrap();
            found.map(|row| row.get::<i64, _>(0))
        });
        let kill = format!("kill query {}", claim.await);
        sqlx::raw_sql(AssertSqlSafe(kill)).execute(&mut other).await.unwrap();
    }
    sqlx::query("select release_lock(database())").execute(&mut other).await.unwrap();
    assert_eq!(in_time("it drains", running).await.unwrap().unwrap(), 0);
    let done = "select count(*) from received_order where status = '1'";
    assert_eq!(sqlx::query(done).fetch_one(&mut other).await.unwrap().get::<i64, _>(0), 3);
    let parked = "select count(*) from ichido_parked";
    assert_eq!(sqlx::query(parked).fetch_one(&mut other).await.unwrap().get::<i64, _>(0), 0);
}

async fn nothing_to_write(_: &mut Context<MySql>, _: serde_json::Value) -> ichido::Result<Outcome> {
    Ok(Outcome::Done)
}
