//! Few and many small processes, in turns: how much they get through, and what each message costs. Beside them what as many processes of
//! pgbench do with the same statements, and no ichido at all: that is the bound which the server and the machine set.

use std::time::Duration;

use crate::{
    Result,
    arguments::Arguments,
    measured::{head, measure},
    world::{World, median},
};

/// What the others are compared with, if it is among them; else the first.
const COMPARED: usize = 4;

pub async fn run(arguments: &Arguments) -> Result<()> {
    let sizes = arguments.list("sizes", &[1, COMPARED, 16, 64])?;
    let (rounds, seconds): (u32, u64) = (arguments.get("rounds", 9)?, arguments.get("seconds", 5)?);
    let mut world = World::new().await?;
    head();
    let mut all = vec![(Vec::new(), Vec::new()); sizes.len()];
    for _ in 0..rounds {
        for (processes, (ours, raw)) in sizes.iter().zip(&mut all) {
            ours.push(round(&mut world, *processes, seconds).await?);
            raw.push(self::raw(&mut world, *processes, seconds).await?);
        }
    }
    let medians: Vec<_> = all.into_iter().map(|(ours, raw)| (median(ours), median(raw))).collect();
    let at = sizes.iter().position(|size| *size == COMPARED).unwrap_or(0);
    println!("\nmedian of {rounds}, beside the same statements by as many processes of pgbench:");
    for (processes, (ours, raw)) in sizes.iter().zip(&medians) {
        let percent = |rate: &f64, of: f64| 100.0 * rate / of;
        println!(
            "{processes:>4} processes {ours:>6.0}/s ({:.0} % of {}), pgbench {raw:>6.0}/s ({:.0} %)",
            percent(ours, medians[at].0),
            sizes[at],
            percent(raw, medians[at].1)
        );
    }
    Ok(())
}

async fn round(world: &mut World, processes: usize, seconds: u64) -> Result<f64> {
    world.run("truncate effect; truncate ichido_message").await?;
    let fleet = world.fleet("Bench", processes).await?;
    world.send(seconds + 2).await?;
    world.until("select count(*) from effect", |count| count > 1000).await?;
    let rate = measure(world, &fleet, &format!("{processes} processes"), Duration::from_secs(seconds)).await?;
    fleet.stop().await?;
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
