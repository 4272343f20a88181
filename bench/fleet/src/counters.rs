//! What the server and the machine have counted: WAL, transaction ids, statements, connections, processor time.

use std::{fs, time::Instant};

use crate::{Result, world::World};

/// A state of the counters; the difference of two is what happened in between.
pub struct Counters {
    pub at: Instant,
    wal: i64,
    transactions: i64,
    statements: i64,
    /// Processor time of the fleet, and of the server, in nanoseconds.
    fleet: u64,
    server: u64,
}

/// What happened, per second.
pub struct Rates {
    pub seconds: f64,
    pub wal: f64,
    pub transactions: f64,
    pub statements: f64,
    /// Cores.
    pub fleet: f64,
    pub server: f64,
}

impl Counters {
    pub async fn read(world: &mut World, fleet: &[u32]) -> Result<Self> {
        let wal = world.number("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").await?;
        let transactions = world.number("select txid_snapshot_xmax(txid_current_snapshot())").await?;
        let statements = world.number("select coalesce(sum(calls), 0)::bigint from pg_stat_statements").await?;
        let fleet = fleet.iter().map(|id| used(*id)).sum();
        Ok(Counters { at: Instant::now(), wal, transactions, statements, fleet, server: server_used(world).await? })
    }

    #[allow(clippy::cast_precision_loss, reason = "counts of a minute")]
    pub fn since(&self, before: &Counters) -> Rates {
        let seconds = (self.at - before.at).as_secs_f64();
        let per = |after: i64, before: i64| (after - before) as f64 / seconds;
        let cores = |after: u64, before: u64| after.saturating_sub(before) as f64 / 1e9 / seconds;
        Rates {
            seconds,
            wal: per(self.wal, before.wal),
            transactions: per(self.transactions, before.transactions),
            statements: per(self.statements, before.statements),
            fleet: cores(self.fleet, before.fleet),
            server: cores(self.server, before.server),
        }
    }
}

/// Of all processes of the server: the children of the one that listens.
async fn server_used(world: &mut World) -> Result<u64> {
    let own = u32::try_from(world.number("select pg_backend_pid()::bigint").await?)?;
    let listens = parent(own).ok_or("the server's process is not here")?;
    let all = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(all.filter(|id| parent(*id) == Some(listens)).map(used).sum())
}

/// A process's name may have spaces, and ends with the last parenthesis.
fn parent(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What all threads of a process have used. Exactly: what is counted in ticks is nothing for who works a moment at a time.
fn used(id: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let of = |thread: fs::DirEntry| {
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.filter_map(of).sum()
}

pub fn load_average() -> String {
    let all = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    all.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
