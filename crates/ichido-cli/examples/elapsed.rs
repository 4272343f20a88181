//! A handler of your own in nine lines: how long each message takes. It is put in by the program, before the handler
//! `transaction` of every worker, and sees each message with its completion.

use std::{process::ExitCode, time::Instant};

use ichido::{Context, Handler, Next, Outcome, Result, Store, handlers::Scope};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;

struct Elapsed;

impl<S: Store> Handler<S> for Elapsed {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let started = Instant::now();
        let outcome = next.run(cx).await;
        eprintln!("{} took {:?}", cx.message_id()?, started.elapsed());
        outcome
    }
}

async fn greet(_: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    println!("hello {name}");
    Ok(Outcome::Done)
}

pub(crate) fn program() -> Program<Sqlite> {
    Program::new().action_fn("Greet", greet).handlers(|queue| queue.before(Scope::Worker, "transaction", Elapsed))
}

fn main() -> ExitCode {
    program().main()
}
