//! How a table is looked at that may be large: all rows, or as many at both ends of its key as can be read in a moment.

use ichido::adopt::{MOST_ROWS, TableLook};

/// A look at a table. Its statements are the same in every dialect; names come quoted.
#[derive(Debug)]
pub struct Sample<'a> {
    table: &'a str,
    key: Vec<String>,
}

impl<'a> Sample<'a> {
    /// A look at this table, which has this full name.
    ///
    /// # Errors
    /// What `quoted` said about a name.
    pub fn new<E>(table: &'a str, look: &TableLook, quoted: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        let key = look.keys.iter().find(|key| key.primary).or(look.keys.first());
        let key = key.iter().flat_map(|key| &key.columns).map(|name| quoted(name));
        Ok(Sample { table, key: key.collect::<Result<_, _>>()? })
    }

    /// The statement that counts the rows, as far as it matters.
    #[must_use]
    pub fn size(&self) -> String {
        format!("select count(*) from (select 1 from {} limit {}) s", self.table, MOST_ROWS + 1)
    }

    /// Does a size mean that all rows are looked at?
    #[must_use]
    pub fn is_all(size: i64) -> bool {
        size.unsigned_abs() <= MOST_ROWS
    }

    /// The query for these columns of the rows that are looked at.
    #[must_use]
    pub fn rows(&self, columns: &str, all: bool) -> String {
        let table = self.table;
        if all {
            return format!("select {columns} from {table}");
        }
        let end = |name: &str, direction: &str| {
            let key: Vec<_> = self.key.iter().map(|column| format!("{column}{direction}")).collect();
            let (key, most) = (key.join(", "), MOST_ROWS / 2);
            format!("select * from (select {columns} from {table} order by {key} limit {most}) {name}")
        };
        format!("{} union all {}", end("a", ""), end("b", " desc"))
    }
}
