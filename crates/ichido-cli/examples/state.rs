//! What the application gives to its actions: the program has it once, and every action asks for it by its type. `needs` says so at
//! start: without it, this program would end with 127 and claim nothing. The other action is a closure that captures what it needs.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use ichido::{Context, Outcome, Result};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;

/// The application's own.
pub(crate) struct Greeter {
    word: String,
}

pub(crate) async fn greet(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    let greeter = cx.state::<Greeter>()?;
    println!("{} {name}", greeter.word);
    cx.send("greeted", &name).await?;
    Ok(Outcome::Done)
}

pub(crate) fn program() -> Program<Sqlite> {
    let count = Arc::new(AtomicU32::new(0));
    let program = Program::new().state(Greeter { word: "ahoy".into() });
    program.needs::<Greeter>("Greet").action_fn("Greet", greet).action_closure("Count", move |_, name: String| {
        let count = count.clone();
        Box::pin(async move {
            println!("{name} is number {}", count.fetch_add(1, Ordering::SeqCst) + 1);
            Ok(Outcome::Done)
        })
    })
}

fn main() -> ExitCode {
    program().main()
}
