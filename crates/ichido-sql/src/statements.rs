//! The statements about a queue's rows that all stores write alike, but for a few expressions: what is read, in which order, and of which rows
//! stands here once, for the verbs that read the cells.

use crate::{Conditions, Dialect, SqlQueue, Tables, counts, drained, headers_of, owners};

/// The expressions of a store's dialect in these statements; the rows are called `t`.
pub struct Spelling<'a> {
    /// The queue's name, as a literal.
    pub name: &'a str,
    /// The columns of the key, as text.
    pub key: &'a str,
    /// The owner, as text.
    pub owner: &'a str,
    /// The group, as text.
    pub group: &'a str,
    /// For how many milliseconds a message has waited.
    pub waited: &'a str,
    /// Is this condition true? It is not where it is unknown.
    pub is: fn(&str) -> String,
    /// The row with the key in the parameters: what stands after `from`, and the condition.
    pub one: (&'a str, &'a str),
    /// The rows with one of many keys: all that stands after `from`.
    pub many: &'a str,
    /// When rows were sent, how old the oldest is, and how many are recent, for [`counts`].
    pub ages: &'a [String; 3],
}

impl SqlQueue {
    /// The queue with the statements that all stores write alike.
    #[must_use]
    pub fn spelled<D: Dialect>(self, tables: &Tables, conditions: &Conditions, said: &Spelling<'_>) -> Self {
        let Spelling { name, key, owner, group, waited, is, one: (by_key, is_key), many, ages } = said;
        let Conditions { new, failed, nobody, .. } = conditions;
        let (table, column) = (&self.mapping.table, &self.mapping.owner);
        let (is_new, has_failed) = (is(new), is(failed));
        let is_done = is(conditions.done.as_deref().unwrap_or("1 = 0"));
        SqlQueue {
            dead_or_new: format!("select {key}, {has_failed}, {is_new} from {many}").into(),
            described: format!(
                "select {key}, {has_failed}, {is_new}, {is_done}, {owner}, {group}, {waited} from {many}"
            )
            .into(),
            state: format!("select {owner}, {group}, {is_new}, {has_failed}, {is_done} from {by_key} where {is_key}")
                .into(),
            headers: headers_of(&self.mapping, tables, is_key).into(),
            ready_in_order: format!(
                "select {key} from {table} t where {new} and t.{column} is null order by {}",
                conditions.order_by()
            )
            .into(),
            held: format!("select {key} from {table} t where {new} and t.{column} <> {nobody}").into(),
            drained: drained::<D>(tables, name, &self.mapping, conditions).into(),
            counts: counts(&self.mapping, conditions, ages).into(),
            owners: owners(&self.mapping, conditions, key, owner),
            conditions: conditions.clone(),
            ..self
        }
    }
}
