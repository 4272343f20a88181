//! Lists of single messages in large tables: what a page reads does not grow with the messages that are there. Counted in rows and index
//! entries by the server, not in time.

use std::time::Duration;

use ichido::{
    Guarded, Messages, Operate, Queue, Status, Table,
    inspect::{Listed, MessageFilter, ParkedFilter},
    store::{ProcessId, Processes, Queues, Registration},
};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::{
    eventually,
    large::{PAGE, pages},
    size,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

/// More than the rows and index entries that a page needs, together with the window of those in groups; far fewer than there are.
const FEW: i64 = 2500;

struct World {
    url: String,
    rows: u32,
}

fn queues() -> Vec<Queue> {
    let orders = Table::new("big_order", "process_id", Status::new("status", "0", "1").failed("2"));
    vec![Queue::managed("mail"), Queue::table("orders", orders), Queue::broker("paid", Guarded::new("", "paid"))]
}

impl World {
    /// Messages of each kind: most of them wait or have failed, some are ready, some of those in groups.
    async fn new(rows: u32) -> Self {
        let url = servers::Postgres::shared().fresh_database();
        let mut sql = PgConnection::connect(&url).await.unwrap();
        let table = "create table big_order (id bigint primary key, status char(1) default '0' not null, process_id char(36), name text)";
        sqlx::raw_sql(table).execute(&mut sql).await.unwrap();
        Postgres::new(&url, None, 2, queues()).unwrap().migrate().await.unwrap();
        let (nobody, few) = (ProcessId::NOBODY, rows / 4);
        let fill = [
            format!(
                "insert into ichido_message (queue, owner, payload, group_key) select 'mail', case when n % 10 < 8 then '{nobody}'::uuid end, '{{}}', \
                 case when n % 20 in (1, 9) then 'g' || (n / 20) % 1000 end from generate_series(1, {rows}) n"
            ),
            "insert into ichido_parked (queue, key, state, attempts, due_at, parked_at) select 'mail', id::text, case when id % 10 < 5 then 'waiting' \
             else 'dead' end, 1, case when id % 10 < 5 then now() + id * interval '1 second' end, now() - id * interval '1 second' \
             from ichido_message where owner is not null"
                .into(),
            format!(
                "insert into ichido_mutex (id, queue, owner) select lpad(n::text, 12, '0'), case when n % 2 = 0 then 'paid' else 'other' end, \
                 case when n % 4 = 0 then '{nobody}'::uuid end from generate_series(1, {few}) n"
            ),
            format!(
                "insert into big_order (id, status, process_id) select n, case when n % 5 = 0 then '0' else '1' end, \
                 case when n % 10 = 0 then '{nobody}' end from generate_series(1, {rows}) n"
            ),
            "create index big_order_claim on big_order (id) where status = '0' and process_id is null".into(),
            "create index big_order_owner on big_order (process_id) where status = '0' and process_id is not null".into(),
            "vacuum analyze".into(),
        ];
        for statement in fill {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut sql).await.unwrap();
        }
        sql.close().await.unwrap();
        World { url, rows }
    }

    /// The rows and index entries that were read so far. A session tells what it has read when it ends at the latest: all others must have.
    async fn read(&self) -> i64 {
        let mut sql = PgConnection::connect(&self.url).await.unwrap();
        let others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() \
                      and backend_type = 'client backend'";
        eventually("all other sessions have ended", async || {
            let left: i64 = sqlx::query(others).fetch_one(&mut sql).await.unwrap().get(0);
            if left == 0 { Ok(()) } else { Err(left) }
        })
        .await;
        let read = "select (select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) + (select sum(idx_tup_read) from pg_stat_user_indexes) \
                    from pg_stat_user_tables)::bigint";
        let read = sqlx::query(read).fetch_one(&mut sql).await.unwrap().get(0);
        sql.close().await.unwrap();
        read
    }

    /// What is read by a store that does this and nothing else.
    async fn cost(&self, work: impl AsyncFnOnce(&Postgres)) -> i64 {
        let before = self.read().await;
        let store = Postgres::new(&self.url, None, 2, queues()).unwrap();
        work(&store).await;
        drop(store);
        self.read().await - before
    }

    /// The place of a parked message in the middle.
    async fn middle(&self, state: &str, time: &str) -> [String; 2] {
        let place = format!(
            "select to_char({time} at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), key from ichido_parked \
             where state = '{state}' order by {time} offset {} limit 1",
            self.rows / 8
        );
        let mut sql = PgConnection::connect(&self.url).await.unwrap();
        let row = sqlx::query(AssertSqlSafe(place)).fetch_one(&mut sql).await.unwrap();
        sql.close().await.unwrap();
        [row.get(0), row.get(1)]
    }

    /// What a page costs, which must be full.
    async fn page(&self, filter: &MessageFilter) -> i64 {
        self.cost(async |store| {
            let page = store.messages(filter).await.unwrap();
            assert!(page.messages.len() == PAGE && page.notes.is_empty(), "{filter:?}: {page:?}");
        })
        .await
    }
}

#[tokio::test]
async fn a_page_of_messages_reads_few_rows_however_many_there_are() {
    let world = World::new(size(200_000, 10_000_000)).await;
    let rows = world.rows;
    let (waiting, failed) = (world.middle("waiting", "due_at").await, world.middle("dead", "parked_at").await);
    for filter in pages(rows, waiting, failed) {
        let read = world.page(&filter).await;
        assert!(read < FEW, "{filter:?}: {read} of {rows}");
    }
    let mut failed = ParkedFilter::default();
    failed.limit = 20;
    let read = world.cost(async |store| drop(ichido::Inspect::parked(store, &failed).await.unwrap())).await;
    assert!(read < FEW, "failed list: {read} of {rows}");
}

#[tokio::test]
async fn messages_of_a_process_are_found_by_their_owner() {
    let world = World::new(size(200_000, 10_000_000)).await;
    let store = Postgres::new(&world.url, None, 2, queues()).unwrap();
    let served = ["mail", "orders"].map(|queue| (queue.into(), 3)).into();
    let process = Registration::new("large", Duration::from_hours(1), served);
    store.register(&process).await.unwrap();
    for queue in ["mail", "orders"] {
        assert_eq!(store.claim(process.id, queue, PAGE).await.unwrap().len(), PAGE);
    }
    drop(store);
    for queue in ["mail", "orders"] {
        let read = world.page(&MessageFilter::new(queue, Listed::Claimed, PAGE)).await;
        assert!(read < FEW, "{queue}: {read} of {}", world.rows);
    }
    let mut sql = PgConnection::connect(&world.url).await.unwrap();
    sqlx::raw_sql("drop index big_order_owner").execute(&mut sql).await.unwrap();
    sql.close().await.unwrap();
    let read = world
        .cost(async |store| {
            let page = store.messages(&MessageFilter::new("orders", Listed::Claimed, PAGE)).await.unwrap();
            assert!(page.messages.is_empty() && page.notes.len() == 1, "{page:?}");
        })
        .await;
    assert!(read < FEW, "without an index: {read} of {}", world.rows);
}
