//! The same work from a table of 100,000 rows and from a large one, and from the large one while a snapshot is held, in turns: most rows are done,
//! some wait, some have failed, and as many can be claimed in both. With the snapshot, work goes on for a minute before anything is measured, so that
//! the dead rows of a minute are in the way.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use crate::{
    Result,
    arguments::Arguments,
    counters::load_average,
    measured::{head, measure},
    world::{World, median},
};

const SMALL: u64 = 100_000;

/// Rows that can be claimed, so many for each second.
const CLAIMABLE: u64 = 8_000;

pub async fn run(arguments: &Arguments) -> Result<()> {
    let rows: u64 = arguments.get("rows", 10_000_000)?;
    let (rounds, seconds): (u32, u64) = (arguments.get("rounds", 3)?, arguments.get("seconds", 6)?);
    let hold: u64 = arguments.get("hold", 60)?;
    let mut world = World::new().await?;
    for (name, rows) in [("small", SMALL), ("large", rows)] {
        fill(&mut world, name, rows).await?;
    }
    println!("filled: {SMALL} and {rows} rows, load {}", load_average());
    head();
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (at, name) in ["small", "large"].into_iter().enumerate() {
            rates[at].push(round(&mut world, name, 0, seconds).await?);
        }
        let mut holder = PgConnection::connect(&world.url).await?;
        sqlx::raw_sql("begin isolation level repeatable read; select count(*) from effect")
            .execute(&mut holder)
            .await?;
        println!("a snapshot is held, and work goes on for {hold} s");
        rates[2].push(round(&mut world, "large", hold, seconds).await?);
        holder.close().await?;
    }
    let [small, large, held] = rates.map(median);
    println!(
        "median msg/s: {SMALL} rows {small:.0}, {rows} rows {large:.0} ({:.0} %), the same under a snapshot held for {hold} s and more {held:.0} ({:.0} %)",
        100.0 * large / small,
        100.0 * held / small
    );
    Ok(())
}

async fn fill(world: &mut World, name: &str, rows: u64) -> Result<()> {
    world.run(&format!(
        "insert into job_{name} (id, n, status, owner) select n, n, case n % 20 when 0 then '2' when 1 then '0' else '1' end, \
         case when n % 20 = 1 then '00000000-0000-0000-0000-000000000000'::uuid end from generate_series(1, {rows}) n; \
         insert into ichido_parked (queue, key, state, attempts, due_at) \
         select '{name}', n::text, case n % 20 when 0 then 'dead' else 'waiting' end, 1, case when n % 20 = 1 then now() + interval '1 day' end \
         from generate_series(1, {rows}) n where n % 20 < 2"
    ))
    .await?;
    world.run(&format!("vacuum analyze job_{name}")).await?;
    world.run("vacuum analyze ichido_parked").await
}

/// Messages per second, in these seconds after so many others.
async fn round(world: &mut World, name: &str, after: u64, seconds: u64) -> Result<f64> {
    let more = CLAIMABLE * (after + seconds + 2);
    world
        .run(&format!(
            "insert into job_{name} (id, n) select m + n, n from generate_series(1, {more}) n, (select max(id) as m from job_{name}) last"
        ))
        .await?;
    let action = if name == "small" { "Small" } else { "Large" };
    let before = world.effects().await?;
    let fleet = world.fleet(action, 4).await?;
    world.until("select count(*) from effect", |count| count > before + 500).await?;
    tokio::time::sleep(Duration::from_secs(after)).await;
    let what = if after > 0 { "large, held" } else { name };
    let rate = measure(world, &fleet, what, Duration::from_secs(seconds)).await?;
    fleet.stop().await?;
    // What is left is done, so that the next round begins alike.
    world.run(&format!("update job_{name} set status = '1' where status = '0' and owner is null")).await?;
    Ok(rate)
}
