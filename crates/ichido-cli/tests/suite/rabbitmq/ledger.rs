//! Who sends in a storm: orders in transactions of the test's own, some of which are rolled back, through a database that comes
//! and goes; and copies of every tenth, past the code under test. The orders' rows are the ledger: an order that was
//! committed, whether or not anybody learned it, is there, and no other one.

use std::{sync::Arc, time::Duration};

use ichido::{CancellationToken, Client, MessageId, Result, Store};
use ichido_rabbitmq::{Publisher, PublisherSettings, Server};
use sqlx::{AssertSqlSafe, MySqlConnection, PgConnection, SqliteConnection};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::{
    rabbitmq::world::{World, published},
    testenv::{Env, Kind},
};

/// Orders without an effect, with several, and effects without an order.
pub(crate) const LOST: &str = "received_order o where not exists (select 1 from project p where p.id = o.id)";
const DOUBLE: &str = "(select 1 from project group by id having count(*) > 1) d";
const GHOST: &str = "project p where not exists (select 1 from received_order o where o.id = p.id)";

/// How many there are of each; nothing went wrong if it is this.
pub(crate) const EXACT: &str = "LOST 0, DOUBLE 0, GHOST 0";

pub(crate) async fn verdict(env: &Env) -> String {
    let mut counts = Vec::new();
    for (name, rows) in [("LOST", LOST), ("DOUBLE", DOUBLE), ("GHOST", GHOST)] {
        counts.push(format!("{name} {}", env.number(&format!("select count(*) from {rows}")).await));
    }
    counts.join(", ")
}

/// A store through whose transactions a test can write.
pub(crate) trait Written: Store {
    fn write(connection: &mut Self::Connection, sql: String) -> impl Future<Output = Result<()>> + Send;
}

macro_rules! written {
    ($($store:ty, $connection:ty;)*) => {
        $(impl Written for $store {
            async fn write(connection: &mut $connection, sql: String) -> Result<()> {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
                Ok(())
            }
        })*
    };
}

written! {
    ichido_sqlite::Sqlite, SqliteConnection;
    ichido_postgres::Postgres, PgConnection;
    ichido_mysql::MySql, MySqlConnection;
}

/// The same numbers for the same seed.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// From the environment, or another one each time; printed, so that a run can be had again.
    pub(crate) fn seeded(kind: Kind) -> Self {
        let given = std::env::var("ICHIDO_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1 % 1_000_000);
        println!("{kind:?}: ICHIDO_SEED={seed}");
        Random(seed)
    }

    /// A number from 0, below this one.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(limit)).expect("below a small number")
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in 1..all.len() {
            let other = self.below(u32::try_from(at).expect("few") + 1);
            all.swap(at, other as usize);
        }
    }
}

/// Sends orders and counts them.
pub(crate) struct Orders<S: Store> {
    pub(crate) store: S,
    pub(crate) random: Random,
    /// Where every tenth goes, to be published a second time.
    pub(crate) copies: UnboundedSender<(MessageId, u32)>,
    pub(crate) last: u32,
    pub(crate) committed: u32,
    pub(crate) rolled_back: u32,
    /// The database went away: it alone knows.
    pub(crate) unknown: u32,
}

impl<S: Written> Orders<S> {
    /// Sends until so many more are known to be committed.
    /// Sends so many, and a few more at a time until something has happened that needs messages to happen.
    pub(crate) async fn send_until(mut self, count: u32, happened: CancellationToken) -> Self {
        self = self.send(count).await;
        while !happened.is_cancelled() {
            let _ = tokio::time::timeout(Duration::from_millis(200), happened.cancelled()).await;
            self = self.send(5).await;
        }
        self
    }

    pub(crate) async fn send(mut self, count: u32) -> Self {
        let goal = self.committed + count;
        while self.committed < goal {
            let orders = self.last + 1..=self.last + 1 + self.random.below(20).min(goal - self.committed - 1);
            self.last = *orders.end();
            let (amount, commit) = (u32::try_from(orders.clone().count()).expect("few"), self.random.below(5) > 0);
            match self.transaction(orders.clone(), commit).await {
                Ok(_) if !commit => self.rolled_back += amount,
                Ok(ids) => {
                    self.committed += amount;
                    let tenth = ids.into_iter().zip(orders).filter(|(_, order)| order % 10 == 0);
                    tenth.for_each(|copy| self.copies.send(copy).expect("somebody publishes it"));
                }
                Err(_) => {
                    self.unknown += amount;
                    // The database is away or cuts us off; it tells nobody when it is back.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        self
    }

    async fn transaction(&self, orders: std::ops::RangeInclusive<u32>, commit: bool) -> Result<Vec<MessageId>> {
        let mut tx = self.store.begin().await?;
        let connection = S::connection(&mut tx);
        let rows: Vec<_> = orders.clone().map(|id| format!("({id}, 'order {id}')")).collect();
        S::write(connection, format!("insert into received_order (id, name) values {}", rows.join(", "))).await?;
        let messages: Vec<_> = orders.map(order).collect();
        let ids = Client::new(self.store.clone()).queue("orders").send_all(connection, &messages).await?;
        if commit {
            self.store.commit(tx).await?;
        } else {
            self.store.rollback(tx).await?;
        }
        Ok(ids)
    }
}

fn order(id: u32) -> serde_json::Value {
    serde_json::from_str(&World::order(id)).expect("an order")
}

/// Publishes copies, each until the broker has it, and returns how many there were.
pub(crate) async fn copy(url: String, origin: Arc<str>, mut copies: UnboundedReceiver<(MessageId, u32)>) -> u32 {
    let publisher = Publisher::new(Server::new([&url]).expect("a URL"), PublisherSettings::default());
    let mut arrived = 0;
    while let Some((id, order)) = copies.recv().await {
        let id = id.to_string();
        let copy = [published(id.rsplit('/').next().expect("a key"), origin.clone(), order)];
        // The broker is away or cuts us off; it tells nobody when it is back. How long that may take is the storm's to say.
        while publisher.publish(&copy).await.iter().any(Result::is_err) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        arrived += 1;
    }
    arrived
}
