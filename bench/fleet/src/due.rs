//! Very many delayed messages that become due at the same moment, beside as many that were sent to run at once.

use std::time::Duration;

use crate::{
    Result,
    arguments::Arguments,
    counters::load_average,
    measured::{head, measure},
    world::World,
};

const PROCESSES: usize = 4;

/// Until the first of them are returned, and everybody is at work.
const BEGIN: Duration = Duration::from_secs(2);

pub async fn run(arguments: &Arguments) -> Result<()> {
    let messages: u64 = arguments.get("messages", 1_000_000)?;
    let seconds: u64 = arguments.get("seconds", 30)?;
    let (mut world, time) = (World::new().await?, Duration::from_secs(seconds));
    let mut ordinary = Vec::new();
    head();
    ordinary.push(ordinarily(&mut world, seconds, time / 2).await?);
    let due = due(&mut world, messages, time).await?;
    ordinary.push(ordinarily(&mut world, seconds, time / 2).await?);
    let mean = ordinary.iter().sum::<f64>() / 2.0;
    println!(
        "ordinary {:.0} and {:.0} msg/s, {messages} due at once {due:.0} msg/s: {:.0} %, load {}",
        ordinary[0],
        ordinary[1],
        100.0 * due / mean,
        load_average()
    );
    Ok(())
}

async fn ordinarily(world: &mut World, seconds: u64, time: Duration) -> Result<f64> {
    world.run("truncate ichido_message; truncate ichido_parked; truncate effect").await?;
    let fleet = world.fleet("Bench", PROCESSES).await?;
    world.send(seconds).await?;
    tokio::time::sleep(BEGIN).await;
    let rate = measure(world, &fleet, "ordinary", time).await?;
    fleet.stop().await?;
    Ok(rate)
}

async fn due(world: &mut World, messages: u64, time: Duration) -> Result<f64> {
    world.run("truncate ichido_message; truncate ichido_parked; truncate effect").await?;
    let fleet = world.fleet("Bench", PROCESSES).await?;
    world
        .run(&format!(
            "with sent as (insert into ichido_message (queue, owner, payload) \
             select 'bench', '00000000-0000-0000-0000-000000000000', json_build_object('n', n)::text from generate_series(1, {messages}) n returning id) \
             insert into ichido_parked (queue, key, state, attempts, due_at) select 'bench', id::text, 'waiting', 0, now() + interval '1 hour' from sent"
        ))
        .await?;
    world.run("vacuum analyze ichido_message").await?;
    world.run("update ichido_parked set due_at = now()").await?;
    world.run("vacuum analyze ichido_parked").await?;
    tokio::time::sleep(BEGIN).await;
    let rate = measure(world, &fleet, "due at once", time).await?;
    fleet.stop().await?;
    Ok(rate)
}
