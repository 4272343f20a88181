//! The way from one version of ichido's own tables to another, as steps. Processes are at work meanwhile, so a step locks one
//! table that they use and no other: whoever holds one lock at a time is in no deadlock. And a migration can be cut off after any
//! statement, so each step can be repeated. How a step is run is the store's matter.

use ichido::store::{MigrateOptions, Migration, Version};

/// A step of this name is skipped if the column is there already, where the dialect cannot say so itself.
const UNLESS: &str = "-- Skipped if this column is there: ";

/// The newest version of ichido's own tables: what this binary was written for.
pub const VERSION: u32 = 9;

/// Each version with the oldest binary that still works with it, from `migrations` beside the file that this is written in.
#[macro_export]
macro_rules! versions {
    () => {
        [
            ichido::store::Version::new(1, 1, include_str!("migrations/0001.sql")),
            ichido::store::Version::new(2, 2, include_str!("migrations/0002.sql")),
            ichido::store::Version::new(3, 2, include_str!("migrations/0003.sql")),
            ichido::store::Version::new(4, 3, include_str!("migrations/0004.sql")),
            ichido::store::Version::new(5, 4, include_str!("migrations/0005.sql")),
            ichido::store::Version::new(6, 5, include_str!("migrations/0006.sql")),
            ichido::store::Version::new(7, 6, include_str!("migrations/0007.sql")),
            ichido::store::Version::new(8, 7, include_str!("migrations/0008.sql")),
            ichido::store::Version::new(9, 8, include_str!("migrations/0009.sql")),
        ]
    };
}

/// All versions of a store.
pub struct Migrations {
    /// What a session that runs the steps by hand sets first.
    pub session: Vec<String>,
    /// Makes the table of versions, and the place where it is, if they are not there.
    pub table: Vec<String>,
    /// The name of that table.
    pub name: String,
    /// Each version, oldest first.
    pub versions: &'static [Version],
}

/// A part of a migration, about one table.
#[derive(Debug, Clone)]
pub struct Step {
    /// The version that it is a part of: where that is reached, there is nothing to do.
    pub version: u32,
    /// One or more statements.
    pub sql: String,
}

impl Migrations {
    /// The steps from this version to the newest one; none if it is as new or newer.
    #[must_use]
    pub fn steps(&self, from: u32, options: &MigrateOptions) -> Vec<Step> {
        let mut steps = Vec::new();
        for version in self.versions.iter().chain(&options.next).filter(|version| version.number > from) {
            let number = version.number;
            let mut add = |sql: &str| steps.push(Step { version: number, sql: sql.to_owned() });
            if number == from + 1 {
                self.table.iter().for_each(|sql| add(sql));
            }
            version.sql.split("\n\n").map(str::trim).filter(|sql| !sql.is_empty()).for_each(&mut add);
            add(&format!("insert into {} (version, oldest) values ({number}, {})", self.name, version.oldest));
        }
        steps
    }

    /// Steps that lock more than one table. There must be none: whoever holds the lock on one while it waits for another can be in a
    /// deadlock with processes at work.
    #[must_use]
    pub fn steps_with_several_locks(&self) -> Vec<String> {
        let steps = self.steps(0, &MigrateOptions::default()).into_iter();
        steps.filter(|step| step.locks().len() > 1).map(|step| step.sql).collect()
    }

    /// What these steps do.
    #[must_use]
    pub fn migration(&self, from: u32, steps: &[Step]) -> Migration {
        let to = steps.last().map_or(from, |step| step.version);
        let session = if steps.is_empty() { Vec::new() } else { self.session.clone() };
        Migration::new(from, to, session, steps.iter().map(|step| step.sql.clone()).collect())
    }
}

impl Step {
    /// The table and the column that say that this step is done already.
    #[must_use]
    pub fn unless(&self) -> Option<(&str, &str)> {
        self.sql.lines().find_map(|line| line.strip_prefix(UNLESS))?.trim().split_once('.')
    }

    /// The tables that this step locks and that others may be using: all that it names, except those that it creates.
    #[must_use]
    pub fn locks(&self) -> Vec<&str> {
        let code = self.sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        let words = code.flat_map(|line| line.split([' ', ',', ';', '(', ')']));
        let words: Vec<_> = words.filter(|word| !matches!(*word, "" | "if" | "not" | "exists")).collect();
        let before = |at: usize, back: usize| at.checked_sub(back).map_or("", |at| words[at]);
        let named = words.iter().enumerate().filter(|(_, word)| word.starts_with("ichido_"));
        let (mut tables, mut created) = (Vec::new(), Vec::new());
        for (at, name) in named {
            match (before(at, 2), before(at, 1)) {
                (_, "index" | "key") => {}
                ("create", "table") => created.push(*name),
                _ => tables.push(*name),
            }
        }
        tables.retain(|table| !created.contains(table));
        tables.sort_unstable();
        tables.dedup();
        tables
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    static VERSIONS: [Version; 2] = [
        Version::new(1, 1, "-- One; it's new.\ncreate table if not exists ichido_a (\n    id integer\n);\n"),
        Version::new(2, 1, "alter table ichido_a add b integer;\n\n-- Two.\ncreate table ichido_b (id integer);\n"),
    ];

    fn migrations() -> Migrations {
        Migrations {
            session: vec!["set x".into()],
            table: vec!["create table v".into()],
            name: "v".into(),
            versions: &VERSIONS,
        }
    }

    #[test]
    fn each_paragraph_is_a_step_and_the_version_is_the_last() {
        let (migrations, options) = (migrations(), MigrateOptions::default());
        let steps = migrations.steps(0, &options);
        let texts: Vec<_> = steps.iter().map(|step| (step.version, step.sql.lines().next().unwrap())).collect();
        let expected = [
            (1, "create table v"),
            (1, "-- One; it's new."),
            (1, "insert into v (version, oldest) values (1, 1)"),
            (2, "alter table ichido_a add b integer;"),
            (2, "-- Two."),
            (2, "insert into v (version, oldest) values (2, 1)"),
        ];
        assert_eq!(texts, expected);
        assert_eq!(migrations.steps(1, &options).len(), 4);
        let migration = migrations.migration(1, &migrations.steps(1, &options));
        assert_eq!((migration.from, migration.to, migration.session.len()), (1, 2, 1));
        let none = migrations.migration(3, &migrations.steps(3, &options));
        assert_eq!((none.from, none.to, none.session.len(), none.statements.len()), (3, 3, 0, 0));
        let next = options.next(Version::new(3, 2, "drop table ichido_b"));
        assert_eq!(migrations.steps(2, &next).len(), 3, "the table of versions, the step, the version");
    }

    #[test]
    fn a_step_locks_the_tables_that_it_does_not_create() {
        let locks = |sql: &str| {
            let step = Step { version: 1, sql: sql.to_owned() };
            step.locks().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(locks("alter table ichido_a add b integer, drop key ichido_a_b;"), ["ichido_a"]);
        assert_eq!(locks("alter table ichido_a add a int; alter table ichido_b add a int"), ["ichido_a", "ichido_b"]);
        assert_eq!(locks("drop index if exists ichido_x; create index ichido_x on ichido_a (b)"), ["ichido_a"]);
        assert_eq!(locks("create unique index if not exists ichido_x on ichido_a (b)"), ["ichido_a"]);
        let own = "-- As ichido_z.\ncreate table if not exists ichido_a (b text references ichido_b (id));\ncreate index ichido_x on ichido_a (b)";
        assert_eq!(locks(own), ["ichido_b"]);
        assert_eq!(locks("create table ichido_a (b text);\ninsert into ichido_a (b) select 'c'"), [""; 0]);
    }

    #[test]
    fn a_step_may_say_what_makes_it_superfluous() {
        let step = |sql: &str| Step { version: 1, sql: sql.to_owned() };
        assert_eq!(step(&format!("-- Why.\n{UNLESS}ichido_a.b\nalter …")).unless(), Some(("ichido_a", "b")));
        assert_eq!(step("alter table ichido_a add b").unless(), None);
    }

    /// A newer version may add columns that this binary does not know.
    #[test]
    fn stores_name_the_columns_that_they_insert() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut inserts = 0;
        for (name, folder) in
            [("sqlite", "migrations"), ("postgres", "migrations"), ("mysql", "migrations"), ("sql", "verbs")]
        {
            let source = crates.join(format!("ichido-{name}/src"));
            for file in [source.join(folder), source].iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
                let file = file.unwrap().path();
                let text = fs::read_to_string(&file).unwrap_or_default();
                for (at, _) in text.match_indices(" into ") {
                    let after = text[at + " into ".len()..].trim_start_matches(['\\', '\n', ' ']);
                    let Some((table, after)) = after.split_once(|c: char| c == '(' || c.is_whitespace()) else {
                        continue;
                    };
                    inserts += 1;
                    let next = after.trim_start_matches(['\\', '\n', ' ', '(']);
                    let unnamed =
                        ["values", "select", "default values", "with "].iter().any(|word| next.starts_with(word));
                    assert!(!unnamed, "{}: `insert into {table}` without columns", file.display());
                }
            }
        }
        assert!(inserts > 50, "only {inserts} were found");
    }
}
