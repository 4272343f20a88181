//! The built-in action `sql`: statements from the configuration, run in the business transaction. `:name` (or `:"name"`) is a column of the
//! row or a field of the message; the store binds it, typed by the server. Nothing from a message ever becomes SQL text.

use std::sync::Arc;

mod fields;
mod syntax;
mod template;

pub use fields::{Fields, Value};
pub use syntax::{Syntax, placeholder};
pub use template::{Part, Template};

use crate::{Action, Context, Outcome, Store, error::Result};

/// What a store does for the built-in action.
pub trait RunSql: Store {
    /// Whose SQL its statements are written in.
    const SYNTAX: Syntax;

    /// Runs one statement with the fields of a message, in the caller's transaction.
    fn run_sql(
        &self,
        connection: &mut Self::Connection,
        statement: &Template,
        fields: &Fields,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Says at start what the server would say later about a statement for the messages of a queue.
    fn check_sql(&self, statement: &Template, queue: &str) -> impl Future<Output = Result<()>> + Send;
}

/// Statements to run for each message.
#[derive(Debug, Clone)]
pub struct SqlAction {
    statements: Arc<[Template]>,
}

impl SqlAction {
    /// An action that runs these statements, in order; in a store's [`SYNTAX`](RunSql::SYNTAX).
    ///
    /// # Errors
    /// [`crate::Error::Setup`] if a string, a comment or a quoted name in one of them does not end.
    pub fn new<T: AsRef<str>>(syntax: Syntax, statements: impl IntoIterator<Item = T>) -> Result<Self> {
        let parse = |text: T| Template::parse(syntax, text.as_ref());
        let statements = statements.into_iter().map(parse).collect::<Result<_>>()?;
        Ok(SqlAction { statements })
    }

    /// The statements.
    #[must_use]
    pub fn statements(&self) -> &[Template] {
        &self.statements
    }
}

impl<S: RunSql> Action<S> for SqlAction {
    type Message = Fields;

    async fn handle(&self, cx: &mut Context<S>, fields: Fields) -> crate::Result<Outcome> {
        let store = cx.store().clone();
        for statement in &*self.statements {
            let watched = cx.watched.clone();
            let tx = cx.tx().await?;
            let _waits = watched.wait();
            store.run_sql(tx, statement, &fields).await?;
        }
        Ok(Outcome::Done)
    }
}
