//! Waking other hosts by NOTIFY, and what a process costs that has nothing to do.

use std::time::Duration;

use ichido::{
    CancellationToken, Client, Context, Operate, Outcome, Pool, Process, Queue, Result,
    store::{Database, Transactions},
};
use ichido_postgres::Postgres;
use ichido_test_servers::{
    self as servers,
    proxy::{Proxy, Silence, Whom},
};
use ichido_testkit::{eventually, in_time};
use sqlx::{
    ConnectOptions, Connection, Executor, PgConnection, Row,
    postgres::{PgConnectOptions, PgListener},
};
use tokio::sync::mpsc;

fn store(url: &str) -> Postgres {
    Postgres::new(url, None, 6, vec![Queue::managed("mail")]).unwrap()
}

async fn migrated() -> String {
    migrated_at(servers::Postgres::shared()).await
}

async fn migrated_at(server: &servers::Postgres) -> String {
    let url = server.fresh_database();
    store(&url).migrate().await.unwrap();
    url
}

async fn send(store: &Postgres, number: u32) {
    let mut tx = store.begin().await.unwrap();
    Client::new(store.clone()).queue("mail").send(Postgres::connection(&mut tx), &number).await.unwrap();
    store.commit(tx).await.unwrap();
}

struct Tell(mpsc::UnboundedSender<u32>);

impl ichido::Action<Postgres> for Tell {
    type Message = u32;

    async fn handle(&self, _: &mut Context<Postgres>, number: u32) -> Result<Outcome> {
        let _ = self.0.send(number);
        Ok(Outcome::Done)
    }
}

/// A process that polls once an hour; what it has seen is told.
fn start(
    store: Postgres,
) -> (CancellationToken, tokio::task::JoinHandle<Result<i32, ichido::Error>>, mpsc::UnboundedReceiver<u32>) {
    let (tell, seen) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let process = Process::new(store).poll(Duration::from_hours(1)).stop_on(stop.clone());
    (stop, tokio::spawn(process.action(Pool::new("mail"), Tell(tell)).run()), seen)
}

async fn listeners(connection: &mut PgConnection) -> i64 {
    let listening = sqlx::query(
        "select count(*) from pg_stat_activity where datname = current_database() \
         and (query like 'LISTEN%' or query = 'select ''listening''')",
    );
    listening.fetch_one(connection).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_on_another_host_wakes_an_idle_process() {
    let url = migrated().await;
    let (stop, ended, mut seen) = start(store(&url));
    let mut outside = PgConnection::connect(&url).await.unwrap();
    eventually("it listens", async || listeners(&mut outside).await > 0).await;
    // By another name of the server: no signal on this host leads from one to the other.
    let elsewhere = url.replace("127.0.0.1", "localhost");
    assert_ne!(elsewhere, url);
    let elsewhere = store(&elsewhere);
    for number in 1..=3 {
        send(&elsewhere, number).await;
        assert_eq!(in_time("it hears of what was sent", seen.recv()).await, Some(number));
    }
    stop.cancel();
    assert_eq!(ended.await.unwrap().unwrap(), 0);
}

/// Sends in a transaction of its own.
async fn send_alone(store: &Postgres, number: u32) {
    Client::new(store.clone()).queue("mail").send_and_commit(&number).await.unwrap();
}

/// The server's process for a session that is open and committed last.
async fn committed_last(connection: &mut PgConnection) -> Option<i32> {
    let pid = "select pid from pg_stat_activity where datname = current_database() and query like 'commit;%'";
    connection.fetch_optional(pid).await.unwrap().map(|row| row.get(0))
}

async fn listener(url: &str) -> PgListener {
    let mut listener = PgListener::connect(url).await.unwrap();
    listener.listen("ichido").await.unwrap();
    listener
}

/// On a server of its own: a send does not wait long for others that notify at the same time, and all databases of a server share that lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_commits_itself_tells_once_and_when_it_is_there() {
    let server = servers::Postgres::start(&[]);
    let url = migrated_at(&server).await;
    let (mut listener, mut outside) = (listener(&url).await, PgConnection::connect(&url).await.unwrap());
    let store = store(&url);
    for number in 1..=3 {
        send_alone(&store, number).await;
        let told = in_time("others are told", listener.recv()).await.unwrap();
        assert_eq!(told.payload(), "mail");
        let there = outside.fetch_one("select count(*) from ichido_message").await.unwrap();
        assert_eq!(there.get::<i64, _>(0), i64::from(number));
    }
    outside.execute("notify ichido, 'end'").await.unwrap();
    assert_eq!(in_time("the end", listener.recv()).await.unwrap().payload(), "end", "each send tells once");
}

/// The COMMIT has succeeded, and the NOTIFY behind it is refused. The next send has the same session.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_cannot_tell_is_sent_all_the_same() {
    let url = migrated().await;
    let mut outside = PgConnection::connect(&url).await.unwrap();
    let refuses =
        "create function public.pg_notify(text, text) returns void language plpgsql as $$ begin raise 'no'; end $$";
    outside.execute(refuses).await.unwrap();
    let store = store(&format!("{url}&options[search_path]=public,pg_catalog"));
    send_alone(&store, 1).await;
    let first = committed_last(&mut outside).await;
    for number in 2..=3 {
        send_alone(&store, number).await;
    }
    assert!(first.is_some() && committed_last(&mut outside).await == first, "{first:?}");
    let there = outside.fetch_one("select count(*) from ichido_message").await.unwrap();
    assert_eq!(there.get::<i64, _>(0), 3);
}

/// Neither LISTEN nor the question whether the connection still is one is answered; it listens again through another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_falls_silent_listens_again() {
    for pattern in ["listen%", "select 'listening'%"] {
        let url = migrated().await;
        let proxy = Proxy::start(servers::Postgres::shared().address());
        proxy.silence_at(Silence::Both, Whom::Speaker, pattern, 1);
        let (stop, ended, mut seen) = start(store(&proxy.url(&url)).timeout(Duration::from_secs(2)));
        in_time("the listener falls silent", proxy.silenced()).await;
        let elsewhere = store(&url);
        eventually("it hears of what is sent", async || {
            send(&elsewhere, 1).await;
            seen.try_recv().is_ok()
        })
        .await;
        stop.cancel();
        assert_eq!(ended.await.unwrap().unwrap(), 0, "{pattern}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sends_are_few_notifications_and_none_if_switched_off() {
    let url = migrated().await;
    let mut listener = listener(&url).await;
    let quiet = store(&url).without_notify();
    let (stop, ended, _) = start(quiet.clone());
    send(&quiet, 0).await;
    let loud = store(&url);
    let began = std::time::Instant::now();
    for number in 1..=300 {
        send(&loud, number).await;
    }
    // A few at once, and then one every 8 ms; the last send is rung again a few times.
    let most = 35 + began.elapsed().as_millis() / 8;
    let mut heard = 0;
    // The last wake-up of a send comes well before a second has passed.
    while let Ok(told) = tokio::time::timeout(Duration::from_secs(2), listener.recv()).await {
        assert_eq!(told.unwrap().payload(), "mail");
        heard += 1;
    }
    assert!(heard > 0 && heard <= most, "{heard} notifications, at most {most} are due");
    let mut outside = PgConnection::connect(&url).await.unwrap();
    assert_eq!(listeners(&mut outside).await, 1, "only ours: a process that is switched off does not listen");
    stop.cancel();
    assert_eq!(ended.await.unwrap().unwrap(), 0);
}

/// On a server of its own, without autovacuum: what that does in a database counts as the database's queries and writes too.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_process_costs_few_queries_and_hardly_writes() {
    let server = servers::Postgres::start(&[("autovacuum", "off")]);
    let url = migrated_at(&server).await;
    let options: PgConnectOptions = url.parse().unwrap();
    let database = options.get_database().unwrap().to_owned();
    let mut elsewhere = options.clone().database("postgres").connect().await.unwrap();
    let mut beside = options.database("postgres").connect().await.unwrap();
    let stop = CancellationToken::new();
    let (tell, _seen) = mpsc::unbounded_channel();
    let process = Process::new(store(&url)).stop_on(stop.clone()).action(Pool::new("mail"), Tell(tell));
    let ended = tokio::spawn(process.run());
    let mut look = async || {
        let look = "select xact_commit + xact_rollback, tup_inserted + tup_updated + tup_deleted from pg_stat_database where datname = $1";
        let row = sqlx::query(look).bind(&database).fetch_one(&mut elsewhere).await.unwrap();
        (row.get::<i64, _>(0), row.get::<i64, _>(1))
    };
    let mut inside = PgConnection::connect(&url).await.unwrap();
    let registered = "select count(*) from ichido_process";
    eventually("it is registered", async || {
        sqlx::query(registered).fetch_one(&mut inside).await.unwrap().get::<i64, _>(0) > 0
    })
    .await;
    inside.close().await.unwrap();
    // Time itself is tested here: queries in a stretch of it. The server's counts come late and in lumps, on a busy machine by many
    // seconds: a stretch may have the start of the process in it, or what was counted before. So any stretch between two looks
    // counts; a process that costs more has it in all of them.
    let mut looks = vec![(std::time::Instant::now(), look().await)];
    eventually("a stretch of time in which it only looks at its queue", async || {
        tokio::time::sleep(Duration::from_secs(6)).await;
        let (now, after) = (std::time::Instant::now(), look().await);
        let costs =
            looks.iter().map(|(began, before)| ((now - *began).as_secs(), after.0 - before.0, after.1 - before.1));
        let mut seen = String::new();
        for (seconds, queries, writes) in costs {
            let most = i64::try_from(seconds).unwrap();
            // Each second it polls, looks into its queue, and asks what is due; with what comes once per lease these are 3.7. In ten seconds it
            // writes its heartbeat and keeps two chore leases. A claim in each poll would be three more queries and a write. None at all were
            // not counted yet.
            if ((most / 3)..=(most * 5 + 10)).contains(&queries) && writes <= 2 + most / 2 {
                return Ok(());
            }
            seen = format!("{queries} queries and {writes} writes in {seconds} s");
        }
        let last = "select string_agg(left(query, 60), ' | ' order by state_change desc) from pg_stat_activity where datname = $1";
        let last = sqlx::query(last).bind(&database).fetch_one(&mut beside).await.unwrap();
        seen = format!("{seen}; its sessions ran last: {}", last.get::<Option<String>, _>(0).unwrap_or_default());
        looks.push((now, after));
        Err(seen)
    })
    .await;
    stop.cancel();
    assert_eq!(ended.await.unwrap().unwrap(), 0);
}
