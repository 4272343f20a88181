//! Processes that have nothing to do: processor time, statements, transaction ids and WAL.

use std::time::Duration;

use crate::{
    Result,
    arguments::Arguments,
    counters::{Counters, load_average},
    measured::connections,
    world::World,
};

/// Until everybody has settled.
const SETTLE: Duration = Duration::from_secs(12);

pub async fn run(arguments: &Arguments) -> Result<()> {
    let processes: usize = arguments.get("processes", 64)?;
    let seconds: u64 = arguments.get("seconds", 40)?;
    let mut world = World::new().await?;
    let nothing = measure(&mut world, &[], seconds / 4).await?;
    let fleet = world.fleet("Bench", processes).await?;
    tokio::time::sleep(SETTLE).await;
    world.run("select pg_stat_statements_reset()").await?;
    let rates = measure(&mut world, &fleet.ids(), seconds).await?;
    println!(
        "{processes} idle processes for {:.0} s (a heartbeat every 10 s each: {:.1}/s), load {}",
        rates.seconds,
        f64::from(u32::try_from(processes)?) / 10.0,
        load_average()
    );
    println!(
        "cores:           {:.3} in the processes, {:.3} in the server (which uses {:.3} alone)",
        rates.fleet, rates.server, nothing.server
    );
    println!("connections:     {}", connections(&mut world).await?);
    println!("statements/s:    {:.1}", rates.statements);
    println!("transactions/s:  {:.2} that wrote", rates.transactions);
    println!("WAL bytes/s:     {:.0}", rates.wal);
    println!("what wrote:");
    let wrote = "select calls, wal_bytes::bigint, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) from pg_stat_statements where wal_records > 0 order by 2 desc limit 8";
    for row in sqlx::query(wrote).fetch_all(&mut world.sql).await? {
        use sqlx::Row;
        println!(
            "{:>8} calls {:>9} bytes  {}",
            row.try_get::<i64, _>(0)?,
            row.try_get::<i64, _>(1)?,
            row.try_get::<String, _>(2)?
        );
    }
    fleet.stop().await
}

async fn measure(world: &mut World, fleet: &[u32], seconds: u64) -> Result<crate::counters::Rates> {
    let before = Counters::read(world, fleet).await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok(Counters::read(world, fleet).await?.since(&before))
}
