//! A table of your own becomes a queue: `ichido adopt` looks at it, finds the status column and its values, adds what is missing and
//! writes the configuration. From then on plain INSERTs are messages, and your columns are the fields of what the action gets.

use ichido::{Context, Outcome, Result};
use ichido_cli::Program;
use ichido_sqlite::Sqlite;
use serde::Deserialize;

/// As it might have been there for ten years.
const TABLE: &str = "
create table received_order (id integer primary key, name text not null, status text not null default 'new');
insert into received_order (name, status) values ('Aki', 'done'), ('Haru', 'done'), ('Fuyu', 'error'), ('Kai', 'new'), ('Umi', 'new');
";

#[derive(Deserialize)]
struct Order {
    id: i64,
    name: String,
}

async fn create_project(_: &mut Context<Sqlite>, order: Order) -> Result<Outcome> {
    println!("order {} became the project {}", order.id, order.name);
    Ok(Outcome::Done)
}

/// What one would type.
fn ichido(line: &str) {
    let program = Program::<Sqlite>::new().action_fn("ProjectCreation", create_project);
    let code = program.run(line.split(' ').map(Into::into));
    assert_eq!(code, 0, "{line}");
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::env::set_current_dir(folder.path())?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let pool = sqlx::SqlitePool::connect("sqlite://shop.db?mode=rwc").await?;
        sqlx::raw_sql(TABLE).execute(&pool).await
    })?;

    ichido("ichido --database-url sqlite://shop.db adopt --table received_order --queue orders --apply");
    let action = "\n[actions.ProjectCreation]\nfrom = \"orders\"\nconcurrency = 1\n";
    std::fs::write("ichido.toml", std::fs::read_to_string("ichido.toml")? + action)?;
    ichido("ichido migrate");
    ichido("ichido -q run ProjectCreation --drain");
    Ok(())
}
