//! Tables as people have them, in this folder, one file each; and worlds with such a table that nobody has adopted yet. A line
//! that begins with the name of a database is for that one only.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use crate::testenv::{Env, Kind};

/// What the action writes down. A row that is poison is there already, and refused a second time.
const EFFECT: &str = "create table effect (what varchar(200) not null); insert into effect values ('poison'); create unique index poison on effect (what);";

/// The text for this database: lines of other databases left out, types and quotes as it wants them.
pub fn dialect(kind: Kind, sql: &str) -> String {
    let own = match kind {
        Kind::Sqlite => "[sqlite] ",
        Kind::Postgres => "[postgres] ",
        Kind::MariaDb => "[mariadb] ",
    };
    let mine = |line: &&str| !line.starts_with("--") && (!line.starts_with('[') || line.starts_with(own));
    let lines = sql.lines().filter(mine).map(|line| line.strip_prefix(own).unwrap_or(line));
    let sql = lines.collect::<Vec<_>>().join("\n");
    match kind {
        Kind::MariaDb => sql.replace('"', "`"),
        _ => sql,
    }
}

fn config(env: &Env, queue: &str, column: &str) -> String {
    format!(
        "# mine\n[database]\nurl = \"{}\" # keep me\n\n[process]\npoll = \"50ms\"\n\n[actions.Book]\nfrom = \"{queue}\"\nretry = {{ attempts = 1 }}\nsql = [\"insert into effect (what) values (:{column})\"]",
        env.url
    )
}

impl Env {
    /// How many columns and indexes there are.
    pub async fn shape(&self) -> i64 {
        match self.kind {
            Kind::Sqlite => self.number("select sum(length(sql)) from sqlite_schema").await,
            Kind::Postgres => {
                self.number(
                    "select (select count(*) from information_schema.columns) * 1000 + (select count(*) from pg_class)",
                )
                .await
            }
            Kind::MariaDb => {
                let shape = "select (select count(*) from information_schema.columns where table_schema like concat(database(), '%')) * 1000 \
                     + (select count(*) from information_schema.statistics where table_schema like concat(database(), '%'))";
                self.number(shape).await
            }
        }
    }

    /// What must not change by looking: the shape of the database and every file.
    pub async fn everything(&self) -> String {
        let mut files: Vec<_> = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read =
            |path: &std::path::PathBuf| format!("{} {:?}", path.display(), std::fs::read(path).unwrap_or_default());
        format!("{} {:?}", self.shape().await, files.iter().map(read).collect::<Vec<_>>())
    }

    pub fn file(&self) -> String {
        std::fs::read_to_string(self.folder().join("ichido.toml")).unwrap()
    }

    pub async fn heal(&self) {
        let table = if self.kind == Kind::MariaDb { " on effect" } else { "" };
        self.sql(&format!("delete from effect where what = 'poison'; drop index poison{table}")).await;
    }
}

/// A world with a schema and a configuration whose action waits for the queue.
pub async fn world(kind: Kind, sql: &str, queue: &str, column: &str) -> Env {
    let env = Env::bare(kind).await;
    env.sql(&format!("{EFFECT}{}", dialect(kind, sql))).await;
    let config = config(&env, queue, column);
    env.configure(|_| config);
    env
}
