//! Many messages in one transaction, time limits and isolation, from outside.

use ichido_testkit::size;

use crate::testenv::{Env, Kind};

on_all!(
    every_250th_message_fails_alone_and_the_others_are_exact,
    a_process_that_is_killed_in_the_middle_of_its_batches_costs_nothing,
    a_message_that_takes_too_long_is_rolled_back_and_the_worker_goes_on,
    an_isolation_is_the_one_of_the_transaction_or_refused,
);

const RUN: &[&str] = &["run", "ProjectCreation/R1", "--drain"];

impl Env {
    /// Adds lines to the action of the test.
    fn set(&self, lines: &str) {
        self.reconfigure(|config| config.replace("concurrency = 4\n", &format!("concurrency = 4\n{lines}\n")));
    }

    /// Puts these statements in the place of the action's own.
    fn act(&self, statements: &[&str]) {
        self.reconfigure(|config| {
            let (before, _) = config.split_once("sql         =").unwrap();
            format!("{before}sql = {statements:?}\n")
        });
    }
}

async fn every_250th_message_fails_alone_and_the_others_are_exact(kind: Kind) {
    let orders = size(750, 10_000);
    let env = Env::new(kind).await;
    env.set("commit_interval = 100");
    env.send_orders(1..=orders).await;
    env.sql("update received_order set name = 'poison' where id % 250 = 0").await;
    env.sql("insert into project values (0, 'poison', 'x'); create unique index poison on project (name)").await;
    env.ok(RUN).await;
    env.sql("delete from project where id = 0").await;
    let bad = i64::from(orders / 250);
    let failed = "select count(*) from received_order where status = '2' and process_id is null and id % 250 = 0";
    assert_eq!((env.number(failed).await, env.done().await), (bad, i64::from(orders) - bad));
    assert_eq!(env.number("select count(*) from project").await, i64::from(orders) - bad);
    assert_eq!(env.number("select count(distinct id) from project").await, i64::from(orders) - bad);
    let parked = "select count(*) from ichido_parked where state = 'dead' and attempts = 3";
    assert_eq!(env.number(parked).await, bad, "each after its own three attempts");
    assert_eq!(env.number("select count(*) from ichido_parked").await, bad, "and nobody else's");
}

async fn a_process_that_is_killed_in_the_middle_of_its_batches_costs_nothing(kind: Kind) {
    let orders = size(400, 5000);
    let env = Env::new(kind).await;
    env.slow_down(if kind == Kind::Sqlite { size(3, 1) } else { size(30, 15) });
    env.set(&format!("commit_interval = {}", size(25, 100)));
    env.send_orders(1..=orders).await;
    let (one, two) = (env.start("one", RUN), env.start("two", RUN));
    // On a busy machine one of them may have claimed everything before the other has started.
    let busy = "select coalesce(max(p.pid), 0) from ichido_process p join received_order o \
                on o.process_id = cast(p.id as char(36)) where o.status = '0'";
    env.until(busy, 1).await;
    let pid = env.number(busy).await;
    let (victim, mut other) = if i64::from(one.pid()) == pid { (one, two) } else { (two, one) };
    env.until("select count(*) from project", 1).await;
    victim.kill().await;
    assert_eq!(other.exit_code().await, 0, "{}", other.log());
    env.assert_exact(orders.into()).await;
    assert_eq!(env.number("select count(*) from ichido_parked").await, 0, "nothing failed, and suspects are forgotten");
}

/// Something that order 3 waits for, far longer than it may.
fn too_long(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "select pg_sleep(case when :id = 3 then 600 else 0 end)",
        Kind::MariaDb => "select sleep(if(:id = 3, 600, 0))",
        Kind::Sqlite => {
            "insert into burnt with recursive c(n) as (select 1 union all select n + 1 from c where n < 1 + (:id = 3) * 100000000000) select max(n) from c where n < 0"
        }
    }
}

async fn a_message_that_takes_too_long_is_rolled_back_and_the_worker_goes_on(kind: Kind) {
    let env = Env::new(kind).await;
    env.act(&["insert into project (id, name, made_by) values (:id, :name, :process_id)", too_long(kind)]);
    env.set("timeout = \"1s\"");
    env.reconfigure(|config| config.replace("concurrency = 4", "concurrency = 1"));
    env.send_orders(1..=10).await;
    let mut process = env.start("process", &["run", "ProjectCreation/R1"]);
    env.until("select count(*) from received_order where status = '2' and id = 3", 1).await;
    let shown = env.ok(&["failed", "show", "orders/3"]).await;
    assert!(shown.contains("timed out after 1s") && shown.contains("attempts  3"), "{shown}");
    env.send_orders(11..=20).await;
    env.until("select count(*) from received_order where status = '1'", 19).await;
    if kind == Kind::Postgres {
        let at_rest = "select cast(count(*) = 0 as integer)::bigint from pg_stat_activity where datname = current_database() \
             and pid <> pg_backend_pid() and (state like 'idle in transaction%' or query like '%pg_sleep%' and state = 'active')";
        env.until(at_rest, 1).await;
    }
    assert_eq!(env.number("select count(*) from project where id = 3").await, 0);
    assert_eq!(env.number("select count(*) from project").await, 19);
    process.stop().await;
}

async fn an_isolation_is_the_one_of_the_transaction_or_refused(kind: Kind) {
    let seen = match kind {
        Kind::Sqlite => return refused_on_sqlite().await,
        Kind::Postgres => "select current_setting('transaction_isolation')",
        Kind::MariaDb => {
            "select lower(trx_isolation_level) from information_schema.innodb_trx where trx_mysql_thread_id = connection_id()"
        }
    };
    let env = Env::new(kind).await;
    let note = format!("insert into project (id, name, made_by) values (:id, ({seen}), :process_id)");
    // MariaDB lists a transaction when it has written, and its list may be a tenth of a second old.
    let pause = if kind == Kind::MariaDb { "select sleep(0.3)" } else { "select 1" };
    env.act(&["insert into burnt values (:id)", pause, &note]);
    for (at, isolation) in ["read committed", "repeatable read", "serializable"].into_iter().enumerate() {
        env.reconfigure(|config| {
            let lines = config.lines().filter(|line| !line.starts_with("isolation"));
            lines.collect::<Vec<_>>().join("\n")
        });
        env.set(&format!("isolation = \"{isolation}\""));
        let id = u32::try_from(at).unwrap() + 1;
        env.send_orders([id]).await;
        env.ok(RUN).await;
        let found = format!("select count(*) from project where id = {id} and lower(name) = '{isolation}'");
        assert_eq!(env.number(&found).await, 1, "{isolation} on {kind:?}");
    }
}

async fn refused_on_sqlite() {
    let env = Env::new(Kind::Sqlite).await;
    env.set("isolation = \"repeatable read\"");
    for command in [RUN, &["check"]] {
        env.run(command).await.assert_refused(127, &["actions.ProjectCreation.isolation", "serializable"]);
    }
    env.reconfigure(|config| config.replace("repeatable read", "serializable"));
    env.ok(RUN).await;
}
