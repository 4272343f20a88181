//! Few and many small processes, in turns: how much they get through, over how many connections, with how many statements and how much WAL for
//! each message.

use std::time::Duration;

use crate::{
    Result,
    arguments::Arguments,
    counters::{Counters, load_average},
    world::{World, median},
};

pub async fn run(arguments: &Arguments) -> Result<()> {
    let (few, many): (usize, usize) = (arguments.get("few", 4)?, arguments.get("many", 64)?);
    let (rounds, seconds): (u32, u64) = (arguments.get("rounds", 9)?, arguments.get("seconds", 5)?);
    let mut world = World::new().await?;
    println!(
        "{:>9} {:>9} {:>11} {:>11} {:>13} {:>7}",
        "processes", "msg/s", "connections", "stmts/msg", "WAL bytes/msg", "load"
    );
    let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (processes, all) in [(few, &mut of_few), (many, &mut of_many)] {
            all.push(round(&mut world, processes, seconds).await?);
        }
    }
    let (few_median, many_median) = (median(of_few), median(of_many));
    println!(
        "\nmedian of {rounds}: {few} processes {few_median:.0}/s, {many} processes {many_median:.0}/s: {:.0} %",
        100.0 * many_median / few_median
    );
    Ok(())
}

async fn round(world: &mut World, processes: usize, seconds: u64) -> Result<f64> {
    world.run("truncate effect; truncate ichido_message").await?;
    let fleet = world.fleet("Bench", processes).await?;
    world.send(seconds + 2).await?;
    world.until("select count(*) from effect", |count| count > 1000).await?;
    let connections =
        world.number("select count(*) from pg_stat_activity where backend_type = 'client backend'").await?;
    let before = Counters::read(world, &fleet.ids()).await?;
    let rate = world.throughput(Duration::from_secs(seconds)).await?;
    let rates = Counters::read(world, &fleet.ids()).await?.since(&before);
    fleet.stop().await?;
    let load = load_average();
    let load = load.split(' ').next().unwrap_or_default();
    println!(
        "{processes:>9} {rate:>9.0} {:>11} {:>11.2} {:>13.0} {load:>7}",
        connections - 1,
        rates.statements / rate,
        rates.wal / rate
    );
    Ok(rate)
}
