//! The type of an application's own where the store belongs.

use ichido::{Context, Outcome, Result};

pub struct Database;

pub async fn greet(_: &mut Context<Database>, _: String) -> Result<Outcome> {
    Ok(Outcome::Done)
}
