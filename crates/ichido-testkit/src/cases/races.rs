//! Races on real locks, for databases that have row locks. Each case plays one side by hand, statement by statement, and says who
//! waits and who loses.

use std::time::Duration;

use ichido::{
    Delivery, Error,
    store::{Database, Failure, ProcessId, Processes, Queues, Rescued, Transactions},
};

use crate::{
    eventually,
    fixture::{Fixture, Player, with_orders},
};

struct Scene<F: Fixture> {
    fixture: F,
    /// Plays whoever is not a process.
    store: F::Store,
}

type Tx<F> = <<F as Fixture>::Store as Database>::Tx;

impl<F: Fixture> Scene<F> {
    async fn new(orders: i64) -> Self {
        let fixture = with_orders::<F>(orders).await;
        Scene { store: fixture.store(), fixture }
    }

    async fn process(&self) -> Player<F> {
        Player::join(&self.fixture).await
    }

    async fn expire(&self, process: &Player<F>) {
        self.fixture.die(self.fixture.store(), process.registration.id).await;
    }

    async fn owned_by(&self, process: &Player<F>) -> i64 {
        let process = process.registration.id;
        let owned = format!("select count(*) from received_order where process_id = '{process}' and status = '0'");
        self.fixture.number(&owned).await
    }

    /// A transaction that has run these statements and is open.
    async fn open(&self, statements: &[String]) -> Tx<F> {
        let mut tx = self.store.begin().await.unwrap();
        self.run(&mut tx, statements).await;
        tx
    }

    async fn run(&self, tx: &mut Tx<F>, statements: &[String]) {
        for statement in statements {
            F::through(F::Store::connection(tx), statement.clone()).await.unwrap();
        }
    }

    async fn commit(&self, tx: Tx<F>) {
        self.store.commit(tx).await.unwrap();
    }

    /// A claim of this process that the server is still working on.
    async fn claim_on_its_way(&self, process: &Player<F>) -> Tx<F> {
        let (process, share) = (process.registration.id, F::SHARE);
        let own = format!("select 1 from ichido_process where id = '{process}' {share}");
        self.open(&[own, format!("update received_order set process_id = '{process}' where id = 1")]).await
    }

    /// Resolves when a session of the database waits for a lock.
    async fn somebody_waits(&self) {
        eventually("a session waits for a lock", async || self.fixture.lock_waits().await > 0).await;
    }
}

fn lock(process: ProcessId) -> String {
    format!("select 1 from ichido_process where id = '{process}' for update")
}

fn heartbeat(process: ProcessId, at: &str) -> String {
    format!("update ichido_process set heartbeat_at = '{at}' where id = '{process}'")
}

fn edit() -> String {
    "update received_order set name = 'by hand' where id = 1".to_owned()
}

async fn rescue<F: Fixture>(by: &Player<F>) -> Rescued {
    by.store.rescue(&by.registration).await.unwrap()
}

async fn return_due<F: Fixture>(process: &Player<F>) -> u64 {
    process.store.return_due(&process.registration).await.unwrap()
}

async fn claims<F: Fixture>(process: &Player<F>) -> Result<Vec<Delivery>, Error> {
    process.store.claim(process.registration.id, "orders", 1).await
}

#[track_caller]
fn assert_dead(claimed: &Result<Vec<Delivery>, Error>) {
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
}

/// Parks two orders that are due at once.
async fn park_two<F: Fixture>(process: &Player<F>) {
    for delivery in process.claim("orders", 2).await {
        let failure = Failure::waiting("later", 1, Duration::ZERO);
        assert!(process.store.park(&delivery, &failure).await.unwrap());
    }
}

pub async fn a_process_that_leaves_waits_for_its_claim_and_frees_it_too<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let process = scene.process().await;
    let claim = scene.claim_on_its_way(&process).await;
    let (store, id) = (process.store.clone(), process.registration.id);
    let leaving = tokio::spawn(async move { store.deregister(id).await });
    scene.somebody_waits().await;
    scene.commit(claim).await;
    leaving.await.unwrap().unwrap();
    assert_eq!(scene.owned_by(&process).await, 0, "a row is owned by nobody");
    assert_dead(&claims(&process).await);
}

pub async fn a_rescuer_leaves_a_process_alone_while_its_claim_is_on_its_way<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let (dead, rescuer) = (scene.process().await, scene.process().await);
    scene.expire(&dead).await;
    let claim = scene.claim_on_its_way(&dead).await;
    assert_eq!(rescue(&rescuer).await, Rescued::default());
    scene.commit(claim).await;
    assert_eq!(rescue(&rescuer).await, Rescued { processes: 1, messages: 1, parked: 0 });
    assert_eq!(scene.owned_by(&dead).await, 0);
}

pub async fn a_zombies_claim_that_waits_for_its_rescuer_gets_nothing<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let (dead, rescuer) = (scene.process().await, scene.process().await);
    // The rescuer has locked the process row; the process was alive when its claim looked at it.
    let id = dead.registration.id;
    let mut locked = scene.open(&[lock(id)]).await;
    let store = dead.store.clone();
    let claiming = tokio::spawn(async move { store.claim(id, "orders", 1).await });
    scene.somebody_waits().await;
    scene.run(&mut locked, &[heartbeat(id, "1000-01-01")]).await;
    scene.commit(locked).await;
    assert_dead(&claiming.await.unwrap());
    assert_eq!(scene.owned_by(&dead).await, 0);
    assert_eq!(rescue(&rescuer).await.processes, 1);
}

/// While the rescuer is busy with the first of two, the other's heartbeat arrives. Processes are looked at in the order of their
/// ids, which is that of their birth.
pub async fn a_process_that_sends_its_heartbeat_just_before_its_rescue_is_left_alone<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let (one, other, rescuer) = (scene.process().await, scene.process().await, scene.process().await);
    for process in [&one, &other] {
        process.claim_one("orders").await;
        scene.expire(process).await;
    }
    let locked = scene.open(&["select 1 from ichido_process_queue for update".to_owned()]).await;
    let rescuing = tokio::spawn(async move { rescue(&rescuer).await });
    scene.somebody_waits().await;
    scene.fixture.sql(&heartbeat(other.registration.id, "2999-01-01")).await;
    scene.commit(locked).await;
    assert_eq!(rescuing.await.unwrap(), Rescued { processes: 1, messages: 1, parked: 0 });
    assert_eq!((scene.owned_by(&one).await, scene.owned_by(&other).await), (0, 1));
}

pub async fn a_row_in_a_stopped_processs_transaction_is_skipped_and_rescued_later<F: Fixture>() {
    let scene = Scene::<F>::new(3).await;
    let (stopped, rescuer) = (scene.process().await, scene.process().await);
    let claimed = stopped.claim("orders", 3).await;
    let mut tx = stopped.store.begin().await.unwrap();
    stopped.store.complete(&mut tx, &claimed[..1]).await.unwrap();
    scene.expire(&stopped).await;
    let found = rescue(&rescuer).await;
    assert_eq!(found, Rescued { processes: 0, messages: 2, parked: 0 }, "the others are not held up");
    stopped.store.rollback(tx).await.unwrap();
    assert_eq!(rescue(&rescuer).await, Rescued { processes: 1, messages: 1, parked: 0 });
}

pub async fn a_process_past_its_lease_cannot_come_back_to_life<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    let process = scene.process().await;
    scene.expire(&process).await;
    assert!(!process.store.heartbeat(process.registration.id, &[]).await.unwrap());
    assert_dead(&claims(&process).await);
}

pub async fn the_probe_after_an_unknown_commit_waits_for_the_row<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    let process = scene.process().await;
    let delivery = process.claim_one("orders").await;
    let mut tx = process.store.begin().await.unwrap();
    process.store.complete(&mut tx, std::slice::from_ref(&delivery)).await.unwrap();
    let (store, copy) = (process.store.clone(), delivery.copy());
    let probe = tokio::spawn(async move { store.is_claimed(&copy).await });
    scene.somebody_waits().await;
    process.store.commit(tx).await.unwrap();
    assert!(!probe.await.unwrap().unwrap(), "a plain read would have said that it is not done");
}

pub async fn a_row_that_somebody_has_locked_does_not_hold_up_what_is_due<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let process = scene.process().await;
    park_two(&process).await;
    let editor = scene.open(&[edit()]).await;
    assert_eq!(return_due(&process).await, 1);
    scene.commit(editor).await;
    assert_eq!(return_due(&process).await, 1, "it was neither forgotten nor stuck");
}

pub async fn a_parked_row_that_somebody_has_locked_does_not_hold_up_what_is_due<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let process = scene.process().await;
    park_two(&process).await;
    // Behind a period a reserved word needs no quotes.
    let one = "select 1 from ichido_parked p where p.queue = 'orders' and p.key = '1' for update";
    let operator = scene.open(&[one.to_owned()]).await;
    assert_eq!(return_due(&process).await, 1);
    scene.commit(operator).await;
    assert_eq!(return_due(&process).await, 1);
}

pub async fn a_claim_passes_over_a_row_that_somebody_has_locked<F: Fixture>() {
    let scene = Scene::<F>::new(3).await;
    let process = scene.process().await;
    let editor = scene.open(&[edit()]).await;
    let claimed = process.claim("orders", 2).await;
    assert_eq!(claimed.iter().map(|found| found.message.key.to_string()).collect::<Vec<_>>(), ["2", "3"]);
    scene.commit(editor).await;
    // After a claim that took long the next ones begin where it ended, for half a second.
    eventually("the row that was locked", async || process.claim("orders", 2).await.len() == 1).await;
}

pub async fn a_process_that_left_something_behind_claims_nothing_any_more<F: Fixture>() {
    let scene = Scene::<F>::new(3).await;
    let (leaver, rescuer) = (scene.process().await, scene.process().await);
    let id = leaver.registration.id;
    let claimed = leaver.claim("orders", 2).await;
    let mut tx = leaver.store.begin().await.unwrap();
    leaver.store.complete(&mut tx, &claimed[..1]).await.unwrap();
    leaver.store.deregister(id).await.unwrap();
    assert_eq!(scene.owned_by(&leaver).await, 1, "only what is being completed right now");
    assert_dead(&claims(&leaver).await);
    assert!(!leaver.store.heartbeat(id, &[]).await.unwrap());
    leaver.store.rollback(tx).await.unwrap();
    assert_eq!(rescue(&rescuer).await, Rescued { processes: 1, messages: 1, parked: 0 });
}
