//! What a fleet of small processes does and costs, on a private PostgreSQL with fsync on. Each scenario is one command that prints a short
//! table; compare the figures of one run only. `bench/fleet.sh` builds and calls it.
//!
//!   fleet processes [--sizes 1,4,16,64] [--rounds 9] [--seconds 5]     throughput of few and many processes, in turns
//!   fleet idle      [--processes 64] [--seconds 40]                    what they cost when there is nothing to do
//!   fleet rows      [--rows 10000000] [--rounds 3] [--seconds 6]       a large table, and a snapshot that is held, beside 100,000 rows
//!   fleet due       [--messages 1000000] [--seconds 30]                as many delayed messages that are due at the same moment
//!   fleet pickup    [--rate 100] [--seconds 10] [--rounds 3] [--notify true]   from COMMIT to the action in another process, beside raw NOTIFY;
//!                 with `--notify true` as on another host, by NOTIFY alone; with `--delay 0`, or more milliseconds, from the moment when a delayed
//!                 message is due
//!
//! `ICHIDO` names the binary of ichido; without it the release build is used.

mod arguments;
mod counters;
mod due;
mod idle;
mod measured;
mod pickup;
mod processes;
mod rows;
mod server;
mod world;

use arguments::Arguments;

/// Whatever went wrong.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::read()?;
    println!("load average at the start: {}", counters::load_average());
    match &*arguments.scenario {
        "processes" => processes::run(&arguments).await,
        "idle" => idle::run(&arguments).await,
        "rows" => rows::run(&arguments).await,
        "due" => due::run(&arguments).await,
        "pickup" => pickup::run(&arguments).await,
        "raw-listener" => pickup::listen_raw(&arguments).await,
        other => Err(format!("`{other}` is no scenario: processes, idle, rows, due or pickup").into()),
    }
}
