//! How a table gets a status column without anything being processed that is done already: the rows that are there are marked,
//! and which of them are done is left open. Nobody runs these statements but the user, who fills the gap.

use ichido::error::Result;

/// A status column that a table lacks.
#[derive(Debug)]
pub struct StatusColumn<'a> {
    /// The table, quoted.
    pub table: &'a str,
    /// The column's type.
    pub kind: &'a str,
    /// Can a column get its default later? Then the rows that are there stay without a status until they are marked.
    pub default_later: bool,
}

impl StatusColumn<'_> {
    /// The statements, in order; `done` is a column that may have a value in the rows that are done.
    ///
    /// # Errors
    /// What `quoted` said about a name.
    pub fn add(
        &self,
        column: &str,
        done: Option<&str>,
        quoted: impl Fn(&str) -> Result<String>,
    ) -> Result<Vec<String>> {
        let (StatusColumn { table, kind, .. }, column) = (self, quoted(column)?);
        let done = done.map(quoted).transpose()?;
        let perhaps = done.map(|done| format!(" Perhaps those where {done} is not null?")).unwrap_or_default();
        let done = format!("update {table} set {column} = 'done' where …; -- which rows are done already?{perhaps}");
        if !self.default_later {
            let add = format!("alter table {table} add column {column} {kind} default 'new';");
            return Ok(vec!["begin immediate;".into(), add, done, "commit;".into()]);
        }
        Ok(vec![
            format!("alter table {table} add column {column} {kind};"),
            format!("alter table {table} alter column {column} set default 'new';"),
            done,
            format!("update {table} set {column} = 'new' where {column} is null;"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_rows_are_done_is_asked() {
        for default_later in [true, false] {
            let status = StatusColumn { table: "t", kind: "text", default_later };
            let all = status.add("s", Some("sent_at"), |name| Ok(name.to_owned())).unwrap().join("\n");
            assert!(
                all.contains("set s = 'done' where …; -- which rows are done already? Perhaps those where sent_at")
            );
        }
    }
}
