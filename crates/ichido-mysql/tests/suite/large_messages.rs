//! Lists of single messages in large tables: what a page reads does not grow with the messages that are there. Counted in rows by the
//! server, not in time.

use std::time::Duration;

use ichido::{
    Guarded, Inspect, Messages, Operate, Queue, Status, Table,
    inspect::{Listed, MessageFilter, ParkedFilter},
    store::{ProcessId, Processes, Queues, Registration},
};
use ichido_mysql::MySql;
use ichido_test_servers as servers;
use ichido_testkit::{
    large::{PAGE, pages},
    size,
};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};

/// More than the rows that a page needs, together with the window of those in groups; far fewer than there are.
const FEW: i64 = 2500;

/// Ten million rows are written in minutes only if their indexes fit into memory. What a page reads is the same.
const ROOM: [(&str, &str); 2] = [("innodb-buffer-pool-size", "3G"), ("innodb-log-file-size", "1G")];

/// On a server of its own: rows are counted for all who use it.
struct World {
    _server: servers::MariaDb,
    sql: MySqlConnection,
    store: MySql,
    rows: u32,
}

impl World {
    /// Messages of each kind: most of them wait or have failed, some are ready, some of those in groups.
    async fn new(rows: u32) -> Self {
        let server = servers::MariaDb::start(&ROOM);
        let url = server.fresh_database();
        let mut sql = MySqlConnection::connect(&url).await.unwrap();
        let table = "create table big_order (id bigint primary key, status char(1) default '0' not null, process_id char(36), \
                     key big_order_claim (status, process_id, id))";
        sqlx::raw_sql(table).execute(&mut sql).await.unwrap();
        let orders = Table::new("big_order", "process_id", Status::new("status", "0", "1").failed("2"));
        let queues = vec![
            Queue::managed("mail"),
            Queue::table("orders", orders),
            Queue::broker("paid", Guarded::new("", "paid").lease()),
        ];
        let store = MySql::new(&url, None, 4, false, queues).unwrap();
        store.migrate().await.unwrap();
        let (nobody, few) = (ProcessId::NOBODY, rows / 4);
        // Without these checks InnoDB fills an empty table in bulk.
        let fill = format!(
            "set unique_checks = 0, foreign_key_checks = 0;
             insert into ichido_message (queue, owner, payload, group_key) select 'mail', case when seq % 10 < 8 then '{nobody}' end, '{{}}', \
             case when seq % 20 in (1, 9) then concat('g', (seq div 20) % 1000) end from seq_1_to_{rows};
             insert into ichido_parked (queue, `key`, state, attempts, due_at, parked_at, history) select 'mail', cast(id as char), \
             case when id % 10 < 5 then 'waiting' else 'dead' end, 1, case when id % 10 < 5 then utc_timestamp(6) + interval id second end, \
             utc_timestamp(6) - interval id second, '[]' from ichido_message where owner is not null;
             insert into ichido_mutex (id, queue, owner) select lpad(seq, 12, '0'), case when seq % 2 = 0 then 'paid' else 'other' end, \
             case when seq % 4 = 0 then '{nobody}' end from seq_1_to_{few};
             insert into big_order (id, status, process_id) select seq, case when seq % 5 = 0 then '0' else '1' end, \
             case when seq % 10 = 0 then '{nobody}' end from seq_1_to_{rows};
             analyze table ichido_message, ichido_parked, ichido_mutex, big_order"
        );
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut sql).await.unwrap();
        World { _server: server, sql, store, rows }
    }

    /// The rows that the server has read so far.
    async fn read(&mut self) -> i64 {
        let read = "select cast(variable_value as signed) from information_schema.global_status where variable_name = 'rows_read'";
        sqlx::query(read).fetch_one(&mut self.sql).await.unwrap().get(0)
    }

    /// The rows that a page reads, which must be full. The server has work of its own; the quietest of some looks is the page's own.
    async fn page(&mut self, filter: &MessageFilter) -> i64 {
        let mut least = i64::MAX;
        for _ in 0..3 {
            let before = self.read().await;
            let page = self.store.messages(filter).await.unwrap();
            assert!(page.messages.len() == PAGE && page.notes.is_empty(), "{filter:?}: {page:?}");
            least = least.min(self.read().await - before);
        }
        least
    }

    /// The place of a parked message in the middle.
    async fn middle(&mut self, state: &str, time: &str) -> [String; 2] {
        let place = format!(
            "select date_format({time}, '%Y-%m-%dT%H:%i:%s.%fZ'), cast(`key` as char) from ichido_parked where state = '{state}' \
             order by {time} limit 1 offset {}",
            self.rows / 8
        );
        let row = sqlx::query(AssertSqlSafe(place)).fetch_one(&mut self.sql).await.unwrap();
        [row.get(0), row.get(1)]
    }
}

#[tokio::test]
async fn a_page_of_messages_reads_few_rows_however_many_there_are() {
    let mut world = World::new(size(100_000, 10_000_000)).await;
    let rows = world.rows;
    let (waiting, failed) = (world.middle("waiting", "due_at").await, world.middle("dead", "parked_at").await);
    for filter in pages(rows, waiting, failed) {
        let read = world.page(&filter).await;
        assert!(read < FEW, "{filter:?}: {read} of {rows}");
    }
    let served = ["mail", "orders"].map(|queue| (queue.into(), 3)).into();
    let process = Registration::new("large", Duration::from_hours(1), served);
    world.store.register(&process).await.unwrap();
    for queue in ["mail", "orders"] {
        assert_eq!(world.store.claim(process.id, queue, PAGE).await.unwrap().len(), PAGE);
        let read = world.page(&MessageFilter::new(queue, Listed::Claimed, PAGE)).await;
        assert!(read < FEW, "{queue}: {read} of {rows}");
    }
    let mut failed = ParkedFilter::default();
    failed.limit = 20;
    let before = world.read().await;
    assert_eq!(world.store.parked(&failed).await.unwrap().len(), 20);
    let read = world.read().await - before;
    assert!(read < FEW, "failed list: {read} of {rows}");
}
