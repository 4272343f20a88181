//! The message of an action that is a type cannot be read.

use ichido::{Action, Context, Outcome, Result};
use ichido_sqlite::Sqlite;

pub struct Order {
    pub name: String,
}

pub struct CreateProject;

impl Action<Sqlite> for CreateProject {
    type Message = Order;

    async fn handle(&self, _: &mut Context<Sqlite>, _: Order) -> Result<Outcome> {
        Ok(Outcome::Done)
    }
}
