//! A type whose action does not say what becomes of the message.

use ichido::{Action, Context, Result};
use ichido_sqlite::Sqlite;

pub struct CreateProject;

impl Action<Sqlite> for CreateProject {
    type Message = String;

    async fn handle(&self, _: &mut Context<Sqlite>, _: String) -> Result<()> {
        Ok(())
    }
}
