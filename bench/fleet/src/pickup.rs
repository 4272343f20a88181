//! From a sender's COMMIT to the action in another process: by ichido's wake-ups, and by NOTIFY in the sending transaction with a listener that
//! claims at once, in turns. Both write the time when the action's statement began. How long a send takes is shown beside it: what it does for
//! the wake-up before it returns must not be hidden there. With a delay, from the moment when the message is due.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ichido::{Client, Queue};
use ichido_postgres::Postgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, postgres::PgListener};
use tokio::process::Command;

use crate::{
    Result,
    arguments::Arguments,
    counters::load_average,
    world::{World, median},
};

pub async fn run(arguments: &Arguments) -> Result<()> {
    let (rate, seconds): (u64, u64) = (arguments.get("rate", 100)?, arguments.get("seconds", 10)?);
    let rounds: u32 = arguments.get("rounds", 3)?;
    let delay = match arguments.get("delay", -1)? {
        milliseconds @ 0.. => Some(Duration::from_millis(i64::cast_unsigned(milliseconds))),
        _ => None,
    };
    let mut world = World::new().await?;
    world.elsewhere = arguments.get("notify", false)?;
    world.run("create table raw_message (id bigint generated always as identity primary key, n bigint, taken boolean not null default false)").await?;
    world.run("create index on raw_message (id) where not taken").await?;
    println!("{:>7} {:>9} {:>9} {:>9} {:>7}", "", "p50 ms", "p99 ms", "send ms", "load");
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        raw.push(round(&mut world, rate, seconds, Way::Raw).await?);
        ours.push(round(&mut world, rate, seconds, Way::Ichido(delay)).await?);
    }
    let (ours, raw) = (median(ours), median(raw));
    if let Some(delay) = delay {
        println!("delayed by {delay:?}: median p50 from when it is due {ours:.2} ms, at {rate}/s");
        return Ok(());
    }
    let by = if world.elsewhere { "NOTIFY alone" } else { "the host's sockets, and NOTIFY" };
    println!("median p50 at {rate}/s by {by}: ichido {ours:.2} ms, raw {raw:.2} ms: {:.2} times", ours / raw);
    Ok(())
}

/// How a message is sent.
#[derive(Clone, Copy)]
enum Way {
    /// With a NOTIFY in its transaction.
    Raw,
    /// By ichido, perhaps with a delay.
    Ichido(Option<Duration>),
}

async fn round(world: &mut World, rate: u64, seconds: u64, way: Way) -> Result<f64> {
    let raw = matches!(way, Way::Raw);
    world.run("truncate effect").await?;
    let (mut listener, mut fleet) = (None, None);
    if raw {
        let program = std::env::current_exe()?;
        listener = Some(Command::new(program).args(["raw-listener", "--url", &world.url]).kill_on_drop(true).spawn()?);
        world.until("select count(*) from pg_stat_activity where query ilike 'listen%'", |count| count > 0).await?;
    } else {
        fleet = Some(world.fleet("Bench", 1).await?);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (committed, sends) = send_all(world, rate, rate * seconds, way).await?;
    world.until("select count(*) from effect", |count| count.cast_unsigned() >= rate * seconds).await?;
    if let Some(mut listener) = listener {
        listener.kill().await?;
    }
    if let Some(fleet) = fleet {
        fleet.stop().await?;
    }
    let seen = sqlx::query("select n, extract(epoch from at)::float8 from effect").fetch_all(&mut world.sql).await?;
    let mut waits = Vec::new();
    for row in seen {
        let (n, at): (i64, f64) = (row.try_get(0)?, row.try_get(1)?);
        waits.push((at - committed[usize::try_from(n)?]) * 1000.0);
    }
    waits.sort_by(f64::total_cmp);
    let of = |part: usize| waits.get(waits.len() * part / 100).copied().unwrap_or(f64::NAN);
    println!(
        "{:>7} {:>9.2} {:>9.2} {:>9.2} {:>7}",
        if raw { "raw" } else { "ichido" },
        of(50),
        of(99),
        median(sends),
        load_average().split(' ').next().unwrap_or_default()
    );
    Ok(of(50))
}

/// Sends so many, evenly; when each COMMIT had returned, or the message is due, and how many milliseconds each send took.
async fn send_all(world: &mut World, rate: u64, messages: u64, way: Way) -> Result<(Vec<f64>, Vec<f64>)> {
    let client = Client::new(Postgres::new(&world.url, None, 4, vec![Queue::managed("bench")])?);
    let mut sender = PgConnection::connect(&world.url).await?;
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / rate));
    let (mut committed, mut sends) = (Vec::new(), Vec::new());
    for n in 0..messages {
        tick.tick().await;
        let begun = Instant::now();
        let mut delay = None;
        if let Way::Ichido(later) = way {
            delay = later;
            let send = client.queue("bench");
            let send = if let Some(delay) = delay { send.delay(delay) } else { send };
            send.send_and_commit(&serde_json::json!({ "n": n })).await?;
        } else {
            let send = "begin; insert into raw_message (n) values (%); notify raw; commit".replace('%', &n.to_string());
            sqlx::raw_sql(AssertSqlSafe(send)).execute(&mut sender).await?;
        }
        committed.push((SystemTime::now() + delay.unwrap_or_default()).duration_since(UNIX_EPOCH)?.as_secs_f64());
        sends.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    Ok((committed, sends))
}

/// The other side of the raw comparison, in a process of its own: hears, claims, and runs each in a transaction.
pub async fn listen_raw(arguments: &Arguments) -> Result<()> {
    let url: String = arguments.get("url", String::new())?;
    let (mut listener, mut sql) = (PgListener::connect(&url).await?, PgConnection::connect(&url).await?);
    listener.listen("raw").await?;
    loop {
        listener.recv().await?;
        let claim = "update raw_message set taken = true where id in (select id from raw_message where not taken order by id limit 10 for update skip locked) returning n";
        for row in sqlx::query(claim).fetch_all(&mut sql).await? {
            let mut tx = sql.begin().await?;
            sqlx::query("insert into effect (n) values ($1)").bind(row.try_get::<i64, _>(0)?).execute(&mut *tx).await?;
            tx.commit().await?;
        }
    }
}
