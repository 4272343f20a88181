//! What was answered to requests that may come again: who sends over HTTP and hears nothing asks once more with the same key, and gets the first
//! answer. The console calls it.

use crate::{error::Result, store::Database};

/// Answers that are remembered for a day, by the key that came with the request: at most 64 visible ASCII characters, such as a digest.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Answers: Database {
    /// Remembers what is answered, in the transaction whose work it is about; false if this key has an answer that is less than a day old: then
    /// nothing of that transaction may be committed. Waits for another transaction that has remembered the same key and is not at its end.
    fn remember_answer(
        &self,
        tx: &mut Self::Tx,
        key: &str,
        answered: &Answered,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// What was answered to the request with this key; none if nothing, or it was long ago.
    fn recall_answer(&self, key: &str) -> impl Future<Output = Result<Option<Answered>>> + Send;
}

/// A request and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// What tells the request from others with the same key: at most 64 characters.
    pub request: String,
    /// The answer.
    pub answer: String,
}
