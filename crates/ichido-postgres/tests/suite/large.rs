//! Large and dirty tables: what a claim reads does not grow with the rows that are done, parked or dead, nor with those that
//! a snapshot keeps. Counted in pages by the server, not in time.

use std::time::Duration;

use ichido::{
    Inspect, Operate, Queue, Status, Table,
    store::{ProcessId, Processes, Queues, Registration},
};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::eventually;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

/// More than the pages that sixteen claimed rows need, and far fewer than the table has.
const FEW_PAGES: i64 = 600;

struct World {
    url: String,
    sql: PgConnection,
    store: Postgres,
    process: Registration,
}

impl World {
    /// A table of orders with these columns besides, filled by these statements.
    async fn new(columns: &str, fill: &[&str], change: impl FnOnce(Table) -> Table) -> Self {
        let url = servers::Postgres::shared().fresh_database();
        let mut sql = PgConnection::connect(&url).await.unwrap();
        let create = format!(
            "create table big_order ({columns}, status char(1) default '0' not null, process_id char(36), name text default 'an order like any other')"
        );
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut sql).await.unwrap();
        for statement in fill {
            sqlx::raw_sql(AssertSqlSafe(*statement)).execute(&mut sql).await.unwrap();
        }
        let table = Table::new("big_order", "process_id", Status::new("status", "0", "1").failed("2"));
        World::with(url, sql, Queue::table("orders", change(table))).await
    }

    async fn with(url: String, sql: PgConnection, queue: Queue) -> Self {
        let process = Registration::new("large", Duration::from_mins(10), [(queue.name.clone(), 3)].into());
        let store = Postgres::new(&url, None, 6, vec![queue]).unwrap();
        store.migrate().await.unwrap();
        store.register(&process).await.unwrap();
        World { url, sql, store, process }
    }

    async fn run(&mut self, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.sql).await.unwrap();
    }

    async fn statement(&self, verb: &str) -> String {
        self.store.statements().await.unwrap().into_iter().find(|found| found.verb == verb).unwrap().sql
    }

    /// The pages that a claim touches, and its plan; nothing is claimed.
    async fn pages(&mut self, statement: &str, rest: &[Option<&str>]) -> (i64, String) {
        let mut tx = self.sql.begin().await.unwrap();
        let explain = format!("explain (analyze, buffers) {statement}");
        let mut explain = sqlx::query(AssertSqlSafe(explain)).bind(self.process.id.to_string()).bind(16_i64);
        for value in rest {
            explain = match value.map(str::parse::<i64>) {
                Some(Ok(number)) if rest.len() == 2 => explain.bind(number),
                _ => explain.bind(*value),
            };
        }
        let plan: Vec<String> = explain.fetch_all(&mut *tx).await.unwrap().iter().map(|row| row.get(0)).collect();
        tx.rollback().await.unwrap();
        (buffers(&plan), plan.join("\n"))
    }

    async fn claim(&self, count: usize) -> Vec<String> {
        let claimed = self.store.claim(self.process.id, "orders", count).await.unwrap();
        claimed.iter().map(|delivery| delivery.message.key.to_string()).collect()
    }
}

/// The pages that a plan touched; the first line about buffers is that of the whole statement.
fn buffers(plan: &[String]) -> i64 {
    let line = plan.iter().find(|line| line.contains("Buffers: shared")).unwrap();
    let count =
        |sign: &str| line.split(sign).nth(1).and_then(|rest| rest.split([' ', ',']).next()?.parse::<i64>().ok());
    count("hit=").unwrap_or_default() + count("read=").unwrap_or_default()
}

const INDEX: &str = "create index big_order_claim on big_order (id) where status = '0' and process_id is null";

/// Done, failed, parked, done again, and new rows only at the end; strewn over the pages as old tables are.
fn dirty() -> String {
    format!(
        "insert into big_order (id, status, process_id) select n, case when n <= 200000 then '1' when n <= 240000 then '2' when n <= 270000 then '0' \
         when n <= 299000 then '1' else '0' end, case when n > 240000 and n <= 270000 then '{}' end from generate_series(1, 300000) n order by md5(n::text)",
        ProcessId::NOBODY
    )
}

#[tokio::test]
async fn a_claim_reads_few_pages_of_a_large_and_dirty_table() {
    let mut world = World::new("id bigint primary key", &[&dirty(), INDEX, "analyze big_order"], |table| table).await;
    let all: i64 =
        sqlx::query("select pg_relation_size('big_order') / 8192").fetch_one(&mut world.sql).await.unwrap().get(0);
    let claim = world.statement("claim").await;
    let (pages, plan) = world.pages(&claim, &[]).await;
    assert!(pages < FEW_PAGES && all > FEW_PAGES * 4, "{pages} of {all} pages:\n{plan}");
    assert!(plan.contains("big_order_claim") && !plan.contains("Seq Scan on big_order"), "{plan}");
    // Again and again, as a prepared statement: its plan must not change for the worse.
    for _ in 0..20 {
        assert_eq!(world.claim(4).await.len(), 4);
    }
    assert_eq!(world.claim(1).await, ["299081"]);
}

/// Claimed messages are many in a large fleet, and those of other queues may be any number. Most of what is there can be claimed: that is
/// when another index looks as good.
#[tokio::test]
async fn a_claim_of_own_messages_walks_over_nothing_that_is_claimed_or_in_another_queue() {
    let url = servers::Postgres::shared().fresh_database();
    let sql = PgConnection::connect(&url).await.unwrap();
    let mut world = World::with(url, sql, Queue::managed("mail")).await;
    let fill = "insert into ichido_message (queue, owner, payload) select case when n % 10 = 0 then 'another' else 'mail' end, \
                case when n <= 20000 then $1::text::uuid end, repeat('x', 200) from generate_series(1, 200000) n";
    sqlx::query(fill).bind(world.process.id.to_string()).execute(&mut world.sql).await.unwrap();
    world.run("vacuum analyze ichido_message").await;
    for (verb, rest) in [("claim", vec![]), ("claim from a row on", vec![Some("1")])] {
        let claim = world.statement(verb).await;
        let (pages, plan) = world.pages(&claim, &rest).await;
        assert!(pages < FEW_PAGES && plan.contains("ichido_message_claim"), "{verb}: {pages} pages:\n{plan}");
    }
    let claimed = world.store.claim(world.process.id, "mail", 2).await.unwrap();
    let keys: Vec<_> = claimed.iter().map(|delivery| delivery.message.key.to_string()).collect();
    assert_eq!(keys, ["20001", "20002"], "in the order of sending");
}

/// Many have waited for the same moment: where they stood, the table is empty now.
#[tokio::test]
async fn a_claim_reads_nothing_of_what_has_been_parked() {
    let url = servers::Postgres::shared().fresh_database();
    let sql = PgConnection::connect(&url).await.unwrap();
    let mut world = World::with(url, sql, Queue::managed("mail")).await;
    world.run("insert into ichido_message (queue, payload) select 'mail', '1' from generate_series(1, 100)").await;
    let parked = "insert into ichido_parked (queue, key, state, attempts, due_at) \
                  select 'mail', n::text, 'waiting', 1, now() + interval '1 day' from generate_series(1, 200000) n";
    world.run(parked).await;
    world.run("delete from ichido_parked where key::int <= 150000").await;
    world.run("vacuum analyze ichido_parked").await;
    let claim = world.statement("claim").await;
    let (pages, plan) = world.pages(&claim, &[]).await;
    assert!(pages < FEW_PAGES && !plan.contains("Seq Scan on ichido_parked"), "{pages} pages:\n{plan}");
}

#[tokio::test]
async fn a_snapshot_that_is_held_open_does_not_make_claims_walk_over_what_is_done() {
    let mut world =
        World::new("id bigint primary key", &[&dirty(), INDEX, "vacuum analyze big_order"], |table| table).await;
    let mut reader = PgConnection::connect(&world.url).await.unwrap();
    let mut snapshot = reader.begin_with("begin isolation level repeatable read").await.unwrap();
    sqlx::query("select count(*) from big_order").execute(&mut *snapshot).await.unwrap();
    // What was claimable long ago is done; nobody can clean up behind it while the snapshot is open.
    world.run("update big_order set process_id = null where id between 240001 and 270000").await;
    world.run("update big_order set status = '1' where id between 240001 and 270000").await;
    world.run("vacuum big_order").await;
    assert_eq!(world.claim(16).await[0], "299001");
    let (whole, from) = (world.statement("claim").await, world.statement("claim from a row on").await);
    let (walked, _) = world.pages(&whole, &[]).await;
    let (pages, plan) = world.pages(&from, &[Some("299016")]).await;
    assert!(walked > FEW_PAGES * 4, "the snapshot holds nothing up, {walked} pages");
    assert!(pages < FEW_PAGES && plan.contains("big_order_claim"), "{pages} pages:\n{plan}");
    // The store itself claims from the last row on, unless its last look at the whole queue was long ago.
    let last = "select query from pg_stat_activity where datname = current_database() and application_name = 'ichido' and query like '%claimed as%' order by query_start desc limit 1";
    let mut seen = Vec::new();
    // The server shows the beginning of a statement, which is where these two differ.
    while !seen.last().is_some_and(|seen: &String| from.starts_with(seen)) {
        assert!(seen.len() < 5, "{seen:?}");
        world.claim(1).await;
        world.claim(16).await;
        seen.push(sqlx::query(last).fetch_one(&mut world.sql).await.unwrap().get::<String, _>(0));
    }
    snapshot.rollback().await.unwrap();
}

#[tokio::test]
async fn rows_that_are_committed_late_are_not_missed() {
    let world = World::new(
        "id bigint primary key",
        &["insert into big_order (id) select n from generate_series(10, 30000) n", INDEX],
        |table| table,
    )
    .await;
    let mut sender = PgConnection::connect(&world.url).await.unwrap();
    let mut late = sender.begin().await.unwrap();
    sqlx::query("insert into big_order (id) values (5)").execute(&mut *late).await.unwrap();
    for _ in 0..20 {
        assert!(!world.claim(10).await.contains(&"5".to_owned()));
    }
    late.commit().await.unwrap();
    // How soon the queue is looked at from its beginning depends on what such a look costs; it does not run empty before.
    eventually("the late row is claimed from a busy queue", async || world.claim(5).await.contains(&"5".to_owned()))
        .await;
}

#[tokio::test]
async fn rows_with_random_keys_are_all_found() {
    let world = World::new("id uuid primary key default gen_random_uuid()", &[INDEX], |table| table).await;
    let mut sender = PgConnection::connect(&world.url).await.unwrap();
    let mut found = Vec::new();
    for _ in 0..40 {
        sqlx::query("insert into big_order (name) select 'x' from generate_series(1, 50)")
            .execute(&mut sender)
            .await
            .unwrap();
        found.extend(world.claim(16).await);
        found.extend(world.claim(16).await);
    }
    loop {
        let more = world.claim(64).await;
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 2000);
}

/// A table of orders with teams, and the claim of those that are the first of theirs.
async fn grouped(fill: &str, tidy: &str) -> (World, String) {
    let index = "create index big_order_group on big_order (team, id) where status = '0'";
    let columns = "id bigint primary key, team text not null";
    let world = World::new(columns, &[fill, index, tidy], |table| table.group_by("team")).await;
    let claim = world.statement("claim of a group's first").await;
    (world, claim)
}

#[tokio::test]
async fn a_claim_of_groups_reads_few_pages_however_long_the_groups_are() {
    let fill = "insert into big_order (id, team) select n, 'team ' || n % 200 from generate_series(1, 300000) n";
    let (mut world, claim) = grouped(fill, "analyze big_order").await;
    let (pages, plan) = world.pages(&claim, &[None, Some("256")]).await;
    // Two looks into the index and one into the table for each of two hundred groups.
    assert!(pages < 4000, "{pages} pages:\n{plan}");
    assert!(!plan.contains("Seq Scan on big_order"), "{plan}");
    assert_eq!(world.claim(3).await, ["1", "2", "3"]);
}

/// The plan that the server makes once for all runs must begin at the group where the last walk ended, too.
#[tokio::test]
async fn a_walk_over_many_groups_goes_on_where_the_last_one_ended() {
    let fill = "insert into big_order (id, team) select n, 'team ' || lpad((n % 3000)::text, 4, '0') from generate_series(1, 300000) n";
    let (mut world, claim) = grouped(fill, "vacuum analyze big_order").await;
    world.run(&format!("prepare walk(text, bigint, text, bigint) as {claim}")).await;
    let me = world.process.id;
    for mode in ["auto", "force_generic_plan"] {
        world.run(&format!("set plan_cache_mode = {mode}")).await;
        for after in ["null", "'team 1500'", "'team 2900'"] {
            let explain = format!("explain (analyze, buffers) execute walk('{me}', 0, {after}, 8)");
            let plan = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut world.sql).await.unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            let pages = buffers(&plan);
            assert!(pages < 400, "{mode}, after {after}: {pages} pages:\n{}", plan.join("\n"));
        }
    }
}
