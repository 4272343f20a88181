//! Few and many small processes, in turns: how much they get through, over how many connections, with how many statements, how much WAL and how
//! much processor time for each message. Beside them what as many processes of pgbench do with the same statements, and no ichido at all: that
//! is the bound which the server and the machine set.

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
        "{:>9} {:>9} {:>11} {:>11} {:>13} {:>13} {:>13} {:>7}",
        "processes", "msg/s", "connections", "stmts/msg", "WAL bytes/msg", "their us/msg", "server us/msg", "load"
    );
    let mut all = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        for (at, processes) in [few, many].into_iter().enumerate() {
            all[at].push(round(&mut world, processes, seconds).await?);
            all[2 + at].push(raw(&mut world, processes, seconds).await?);
        }
    }
    let [few_median, many_median, few_raw, many_raw] = all.map(median);
    let percent = |many: f64, few: f64| 100.0 * many / few;
    println!(
        "\nmedian of {rounds}: {few} processes {few_median:.0}/s, {many} processes {many_median:.0}/s: {:.0} %",
        percent(many_median, few_median)
    );
    println!(
        "the same statements by pgbench: {few} processes {few_raw:.0}/s, {many} processes {many_raw:.0}/s: {:.0} %",
        percent(many_raw, few_raw)
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
        "{processes:>9} {rate:>9.0} {:>11} {:>11.2} {:>13.0} {:>13.0} {:>13.0} {load:>7}",
        connections - 1,
        rates.statements / rate,
        rates.wal / rate,
        rates.fleet * 1e6 / rate,
        rates.server * 1e6 / rate
    );
    Ok(rate)
}

/// What as many processes of pgbench do with as many clients: one transaction with the statements of one message, without claims, from a program that
/// costs next to nothing.
async fn raw(world: &mut World, processes: usize, seconds: u64) -> Result<f64> {
    world.run("truncate effect; truncate ichido_message").await?;
    world.send(seconds + 2).await?;
    let first = world.number("select min(id) from ichido_message").await?;
    let last = world.number("select max(id) from ichido_message").await?;
    let script = format!(
        "\\set id random({first}, {last})\nbegin;\ninsert into effect (n) values (:id);\n\
         delete from ichido_message where id = :id and owner is null and queue = 'bench';\ncommit;\n"
    );
    world.pgbench(&script, processes, seconds).await
}
