//! A handler that holds the others up: no message begins sooner than a fixed time after the one before it, in all workers
//! together. It stands before `read`, so that no message is in hand while a worker waits. (`rate limit` comes with ichido, for
//! `ichido.toml`; this is how to write one.)

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use ichido::{
    Context, Handler, Next, Outcome, Result, Store,
    handlers::{About, Scope},
};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;
use tokio::sync::Mutex;

struct Apart {
    time: Duration,
    next: Mutex<Instant>,
}

impl<S: Store> Handler<S> for Apart {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let moment = {
            let mut free = self.next.lock().await;
            let moment = (*free).max(Instant::now());
            *free = moment + self.time;
            moment
        };
        // False when the process is asked to stop, which does not wait.
        if !cx.pause(moment.saturating_duration_since(Instant::now())).await {
            return Ok(Outcome::Stop);
        }
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        About::new("apart", "wait for the next moment", "", "").only(Scope::Worker)
    }
}

async fn greet(_: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    println!("hello {name}");
    Ok(Outcome::Done)
}

pub(crate) fn program() -> Program<Sqlite> {
    let apart = Apart { time: Duration::from_millis(20), next: Mutex::new(Instant::now()) };
    Program::new().action_fn("Greet", greet).handlers(|queue| queue.before(Scope::Worker, "read", apart))
}

fn main() -> ExitCode {
    program().main()
}
