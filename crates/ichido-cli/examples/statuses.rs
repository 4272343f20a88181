//! A program that ends with the status it is asked for, `run Greet -- --status 404`, and so shows which exit code each status
//! becomes. A handler says `Outcome::Ended`; with `--error` it fails with `Error::Ended` and the global error handler says it;
//! with `--abort` it is the action that ends the process.

use std::process::ExitCode;

use ichido::{Context, Error, Handler, Next, Outcome, Result, Store, handlers::Scope};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;

struct Ends;

impl<S: Store> Handler<S> for Ends {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        if let Some(status) = cx.argument("status") {
            return Ok(Outcome::Ended(status.parse()?));
        }
        if let Some(status) = cx.argument("error") {
            return Err(Error::Ended { status: status.parse()?, reason: "as asked for".into() }.into());
        }
        next.run(cx).await
    }
}

async fn greet(cx: &mut Context<Sqlite>, _: serde_json::Value) -> Result<Outcome> {
    match cx.argument("abort") {
        Some(code) => Ok(Outcome::Abort(code.parse()?)),
        None => Ok(Outcome::Done),
    }
}

pub(crate) fn program() -> Program<Sqlite> {
    Program::new().action_fn("Greet", greet).handlers(|queue| queue.after(Scope::Process, "context", Ends))
}

fn main() -> ExitCode {
    program().main()
}
