//! How a table gets a status column without anything being processed that is done already: the rows that are there are marked,
//! and which of them are done is left open. Nobody runs these statements but the user, who fills the gap.

/// A status column that a table lacks; names come quoted.
#[derive(Debug)]
pub struct StatusColumn<'a> {
    /// The table.
    pub table: &'a str,
    /// The column.
    pub column: &'a str,
    /// Its type.
    pub kind: &'a str,
    /// A column that may have a value in the rows that are done.
    pub done: Option<&'a str>,
    /// Can a column get its default later? Then the rows that are there stay without a status until they are marked.
    pub default_later: bool,
}

impl StatusColumn<'_> {
    /// The statements, in order.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        let StatusColumn { table, column, kind, .. } = self;
        let perhaps = self.done.map(|done| format!(" Perhaps those where {done} is not null?")).unwrap_or_default();
        let done = format!("update {table} set {column} = 'done' where …; -- which rows are done already?{perhaps}");
        if !self.default_later {
            let add = format!("alter table {table} add column {column} {kind} default 'new';");
            return vec!["begin immediate;".into(), add, done, "commit;".into()];
        }
        vec![
            format!("alter table {table} add column {column} {kind};"),
            format!("alter table {table} alter column {column} set default 'new';"),
            done,
            format!("update {table} set {column} = 'new' where {column} is null;"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_rows_are_done_is_asked() {
        let mut status =
            StatusColumn { table: "t", column: "s", kind: "text", done: Some("sent_at"), default_later: true };
        for later in [true, false] {
            status.default_later = later;
            let all = status.statements().join("\n");
            assert!(
                all.contains("set s = 'done' where …; -- which rows are done already? Perhaps those where sent_at")
            );
        }
    }
}
