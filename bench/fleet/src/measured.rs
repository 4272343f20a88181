//! One line of a table: what a fleet gets through in a time, and over how many connections, with how many statements, how much WAL and how much
//! processor time for each message.

use std::time::Duration;

use crate::{
    Result,
    counters::{Counters, load_average},
    world::{Fleet, World},
};

/// What the columns are.
pub fn head() {
    println!(
        "{:>12} {:>9} {:>11} {:>9} {:>13} {:>12} {:>13} {:>6}",
        "", "msg/s", "connections", "stmts/msg", "WAL bytes/msg", "their us/msg", "server us/msg", "load"
    );
}

/// Messages per second.
pub async fn measure(world: &mut World, fleet: &Fleet, what: &str, time: Duration) -> Result<f64> {
    let connections = connections(world).await?;
    let before = Counters::read(world, &fleet.ids()).await?;
    let rate = world.throughput(time).await?;
    let rates = Counters::read(world, &fleet.ids()).await?.since(&before);
    println!(
        "{what:>12} {rate:>9.0} {connections:>11} {:>9.2} {:>13.0} {:>12.0} {:>13.0} {:>6}",
        rates.statements / rate,
        rates.wal / rate,
        rates.fleet * 1e6 / rate,
        rates.server * 1e6 / rate,
        load_average().split(' ').next().unwrap_or_default()
    );
    Ok(rate)
}

/// Those of everybody but us.
pub async fn connections(world: &mut World) -> Result<i64> {
    let all = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    world.number(all).await
}
