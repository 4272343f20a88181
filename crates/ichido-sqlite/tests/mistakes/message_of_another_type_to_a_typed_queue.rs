//! A message of one type is sent to a queue of another.

use ichido::{Client, QueueOf, Result};
use ichido_sqlite::Sqlite;

const NAMES: QueueOf<String> = QueueOf::named("names");

pub async fn send(client: Client<Sqlite>, tx: &mut <Sqlite as ichido::store::Database>::Connection) -> Result<()> {
    client.to(&NAMES).send(tx, &42).await?;
    Ok(())
}
