//! Large and dirty tables: what a claim reads does not grow with the rows that are done, parked or dead, nor with those that
//! a snapshot keeps. Counted in pages by the server, not in time.

use std::time::Duration;

use ichido::{
    Inspect, Operate, Queue, Status, Table,
    store::{ProcessId, Processes, Queues, Registration},
};
use ichido_mysql::MySql;
use ichido_test_servers as servers;
use ichido_testkit::eventually;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};

/// More than the pages that sixteen claimed rows need, and far fewer than the table has.
const FEW_PAGES: i64 = 120;

/// On a server of its own: pages are counted for all who use it.
struct World {
    _server: servers::MariaDb,
    url: String,
    sql: MySqlConnection,
    store: MySql,
    process: Registration,
}

impl World {
    /// Done, failed, parked, done again, and new rows only at the end.
    async fn new() -> Self {
        let server = servers::MariaDb::start(&[]);
        let url = server.fresh_database();
        let mut sql = MySqlConnection::connect(&url).await.unwrap();
        let fill = format!(
            "create table big_order (id bigint primary key, status char(1) default '0' not null, process_id char(36), \
             name varchar(100) default 'an order like any other', key big_order_claim (status, process_id, id));
             insert into big_order (id, status, process_id) select seq, case when seq <= 200000 then '1' when seq <= 240000 then '2' \
             when seq <= 270000 then '0' when seq <= 299000 then '1' else '0' end, case when seq > 240000 and seq <= 270000 then '{}' end \
             from seq_1_to_300000;
             analyze table big_order",
            ProcessId::NOBODY
        );
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut sql).await.unwrap();
        let table = Table::new("big_order", "process_id", Status::new("status", "0", "1").failed("2"));
        let store = MySql::new(&url, None, 6, false, vec![Queue::table("orders", table)]).unwrap();
        store.migrate().await.unwrap();
        let process = Registration::new("large", Duration::from_mins(10), [("orders".into(), 3)].into());
        store.register(&process).await.unwrap();
        World { _server: server, url, sql, store, process }
    }

    async fn run(&mut self, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.sql).await.unwrap();
    }

    /// The pages that the server has asked for so far.
    async fn asked(&mut self) -> i64 {
        let asked = "select cast(variable_value as signed) from information_schema.global_status where variable_name = 'innodb_buffer_pool_read_requests'";
        sqlx::query(asked).fetch_one(&mut self.sql).await.unwrap().get(0)
    }

    /// The pages that a claim's look touches; nothing is claimed.
    async fn pages(&mut self, verb: &str, from: Option<&str>) -> i64 {
        let look = self.store.statements().await.unwrap().into_iter().find(|found| found.verb == verb).unwrap().sql;
        let mut least = i64::MAX;
        // The server has work of its own; the quietest of some looks is the claim's own.
        for _ in 0..5 {
            let before = self.asked().await;
            let mut tx = self.sql.begin().await.unwrap();
            let mut query = sqlx::query(AssertSqlSafe(look.clone())).bind(self.process.id.to_string());
            if let Some(from) = from {
                query = query.bind(from.to_owned());
            }
            assert_eq!(query.bind(16_i64).fetch_all(&mut *tx).await.unwrap().len(), 16);
            tx.rollback().await.unwrap();
            least = least.min(self.asked().await - before);
        }
        least
    }

    async fn claim(&self, count: usize) -> Vec<String> {
        let claimed = self.store.claim(self.process.id, "orders", count).await.unwrap();
        claimed.iter().map(|delivery| delivery.message.key.to_string()).collect()
    }
}

#[tokio::test]
async fn a_claim_reads_few_pages_of_a_large_and_dirty_table_and_of_what_a_snapshot_keeps() {
    let mut world = World::new().await;
    let pages = world.pages("claim, look", None).await;
    assert!(pages < FEW_PAGES, "{pages} pages");
    let mut reader = MySqlConnection::connect(&world.url).await.unwrap();
    let mut snapshot = reader.begin_with("start transaction with consistent snapshot").await.unwrap();
    sqlx::query("select count(*) from big_order").execute(&mut *snapshot).await.unwrap();
    // What was claimable long ago is done; nobody can clean up behind it while the snapshot is open.
    world.run("update big_order set process_id = null where id between 240001 and 270000").await;
    world.run("update big_order set status = '1' where id between 240001 and 270000").await;
    assert_eq!(world.claim(16).await[0], "299001");
    let walked = world.pages("claim, look", None).await;
    let pages = world.pages("claim, look from a row on", Some("299016")).await;
    println!("{walked} pages from the first row on, {pages} from the last that was claimed");
    assert!(walked > pages * 2, "the snapshot holds nothing up: {walked} pages, then {pages}");
    assert!(pages < FEW_PAGES, "{pages} pages");
    snapshot.rollback().await.unwrap();
    rows_that_are_committed_late_are_not_missed(&world).await;
}

async fn rows_that_are_committed_late_are_not_missed(world: &World) {
    let mut sender = MySqlConnection::connect(&world.url).await.unwrap();
    let mut late = sender.begin().await.unwrap();
    sqlx::query("insert into big_order (id) values (-5)").execute(&mut *late).await.unwrap();
    for _ in 0..20 {
        assert!(!world.claim(1).await.contains(&"-5".to_owned()));
    }
    late.commit().await.unwrap();
    let mut claims = 0;
    // The whole queue is looked at now and then, and less often the longer that takes.
    eventually("the row that was committed late", async || {
        claims += 1;
        assert!(claims < 940, "it was not found before the queue was empty");
        world.claim(1).await.contains(&"-5".to_owned())
    })
    .await;
}
