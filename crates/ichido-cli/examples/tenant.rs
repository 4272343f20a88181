//! A handler that puts something into the context for those further in: the tenant that a message belongs to. The program
//! registers it by a name, and `ichido.toml` says where it stands and what it is told:
//!
//! ```toml
//! [process]
//! handlers = [{ name = "tenant", before = "worker transaction", options = { default = "nobody" } }]
//! ```

use std::process::ExitCode;

use ichido::{
    Context, Handler, Next, Outcome, Result, Store,
    handlers::{About, Scope},
};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;
use serde::Deserialize;

#[derive(Clone, Deserialize)]
struct Tenant {
    tenant: Option<String>,
}

/// Takes the tenant from the message; without one it is the default.
struct FindTenant {
    default: String,
}

impl<S: Store> Handler<S> for FindTenant {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let found: Tenant = cx.message()?.decode()?;
        cx.insert(Tenant { tenant: found.tenant.or_else(|| Some(self.default.clone())) });
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        let about = About::new("tenant", "the tenant of the message", "", "").only(Scope::Worker);
        about.after(Scope::Worker, "read", "there is no message before it")
    }
}

async fn greet(cx: &mut Context<Sqlite>, _: serde_json::Value) -> Result<Outcome> {
    let tenant = cx.get::<Tenant>().and_then(|found| found.tenant.as_deref());
    println!("{} {}", cx.argument("greeting").unwrap_or("hello"), tenant.unwrap_or("you"));
    Ok(Outcome::Done)
}

pub(crate) fn program() -> Program<Sqlite> {
    Program::new().action_fn("Greet", greet).handler("tenant", |options| {
        let default = options.text("default").unwrap_or_default();
        Ok(FindTenant { default })
    })
}

fn main() -> ExitCode {
    program().main()
}
