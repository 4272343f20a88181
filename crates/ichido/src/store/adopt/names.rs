//! What a name of a table may mean that no table has: the nearest one, in any schema, however it is capitalised. `adopt` says it,
//! and so does every store that is started with such a name.

use crate::handlers::nearest;

/// A table's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The schema that it is in.
    pub schema: String,
    /// Its name there.
    pub name: String,
    /// Does the name alone mean it?
    pub plain: bool,
}

impl TableName {
    /// As the command line and the configuration write it.
    fn written(&self) -> String {
        let part = |name: &str| {
            if name.contains(['.', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
        };
        if self.plain { part(&self.name) } else { format!("{}.{}", part(&self.schema), part(&self.name)) }
    }
}

/// `; did you mean …?` for the end of a message, or nothing.
#[must_use]
pub fn nearest_table(schema: Option<&str>, name: &str, known: &[TableName]) -> String {
    let full = |table: &TableName| format!("{}.{}", table.schema, table.name);
    let all: Vec<String> = known.iter().map(full).collect();
    let typed = schema.map(|schema| format!("{schema}.{name}"));
    let in_schema = typed.and_then(|typed| nearest(&typed, all.iter().map(String::as_str)));
    let in_schema = in_schema.and_then(|near| known.iter().find(|table| full(table) == near));
    let of = |plain: bool| {
        let near = nearest(name, known.iter().filter(|table| table.plain == plain).map(|table| table.name.as_str()))?;
        known.iter().find(|table| table.plain == plain && table.name == near)
    };
    let found = in_schema.or_else(|| of(true)).or_else(|| of(false));
    found.map_or_else(String::new, |table| format!("; did you mean `{}`?", table.written()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_table_is_found_in_any_schema_and_however_it_is_capitalised() {
        let table = |schema: &str, name: &str, plain| TableName { schema: schema.into(), name: name.into(), plain };
        let known = [
            table("public", "invoice", true),
            table("Billing", "InvoiceLine", false),
            table("old", "invoice", false),
            table("x", "a.b", false),
        ];
        let hint = |schema, name| nearest_table(schema, name, &known);
        assert_eq!(hint(Some("billing"), "invoiceline"), "; did you mean `Billing.InvoiceLine`?");
        assert_eq!(hint(None, "INVOICELINE"), "; did you mean `Billing.InvoiceLine`?");
        assert_eq!(hint(Some("Biling"), "InvoiceLines"), "; did you mean `Billing.InvoiceLine`?");
        assert_eq!(hint(None, "invioce"), "; did you mean `invoice`?");
        assert_eq!(hint(Some("elsewhere"), "invoice"), "; did you mean `invoice`?");
        assert_eq!(hint(None, "a.c"), "; did you mean `x.\"a.b\"`?");
        assert_eq!(hint(None, "customer"), "");
    }
}
