//! What databases write differently about ichido's own tables. A dialect says nothing about queues' tables: those are the stores'.

use crate::Bind;

/// How a database writes SQL.
pub trait Dialect: 'static {
    /// The column `key`, quoted where it must be.
    const KEY: &'static str = "key";
    /// This moment, as ichido's columns have times. The same throughout a statement.
    const NOW: &'static str;
    /// This moment, also within a statement that has waited.
    const CLOCK: &'static str = Self::NOW;
    /// A moment before all others.
    const LONG_AGO: &'static str;
    /// Seconds since 1970.
    const EPOCH: &'static str;
    /// Minutes since 1970.
    const MINUTE: &'static str;
    /// Has the process `p` sent a heartbeat within its lease?
    const ALIVE: &'static str;
    /// Its last heartbeat as text, if that is in its row.
    const HEARTBEAT: &'static str = "null";
    /// What it ran then, and how many milliseconds ago that was, if that is in its row; with a comma between them.
    const RUNS: &'static str = "null, null";
    /// The columns of a process about its life, with a comma before each, and their values; `?6` is the lease in milliseconds.
    const LIFE: (&'static str, &'static str) = ("", "");
    /// After a SELECT: its rows are locked until the transaction ends, and whoever has one of them is waited for.
    const LOCK: &'static str = "for update";
    /// The same; rows that somebody has locked are left out.
    const LOCK_FREE: &'static str = "for update skip locked";
    /// The same after a SELECT about rows of a queue, which are called `t`.
    const LOCK_ROWS: &'static str = " for update skip locked";
    /// Do parameters have numbers?
    const NUMBERED: bool;
    /// In an ascending order, do rows without a value come before all others?
    const NULLS_FIRST: bool;

    /// A parameter.
    fn parameter(at: usize, bind: &Bind) -> String;

    /// `is one of`, with a parameter of so many texts.
    fn is_in(at: usize, count: usize) -> String;

    /// So many milliseconds after this moment; before it, if there is a minus. No moment if there is no number.
    fn after(sign: char, parameter: &str) -> String;

    /// How many milliseconds ago a moment was.
    fn age_ms(moment: &str) -> String;

    /// A moment as operators read it.
    fn utc(moment: &str) -> String;

    /// The moment that [`Dialect::stamp`] has written.
    fn moment(parameter: &str) -> String;

    /// The moment that is so many milliseconds after 1970, or else after this one; one of the two is a number.
    fn due(since_1970: &str, from_now: &str) -> String;

    /// A process's id, as text.
    #[must_use]
    fn id(column: &str) -> String {
        column.to_owned()
    }

    /// After a table: its rows are found by this index, so that no other row is read, or locked, even for a moment.
    #[must_use]
    fn by_index(index: &str) -> String {
        let _ = index;
        String::new()
    }

    /// Deletes from a table rows that are found by this index.
    #[must_use]
    fn delete_by_index(table: &str, index: &str) -> String {
        let _ = index;
        format!("delete from {table}")
    }

    /// A moment as text that is the same for the same moment only; such texts are in the order of time.
    #[must_use]
    fn stamp(moment: &str) -> String {
        moment.to_owned()
    }

    /// Inserts a row unless one with its key is there.
    #[must_use]
    fn insert_new(table: &str, columns: &str, values: &str) -> String {
        format!("insert into {table} ({columns}) values ({values}) on conflict do nothing")
    }

    /// After an INSERT: these columns of a row with the same key get the new values.
    #[must_use]
    fn or_replace(key: &str, columns: &[&str]) -> String {
        let set: Vec<_> = columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        format!("on conflict ({key}) do update set {}", set.join(", "))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Parameters have numbers.
    pub(crate) struct Counting;

    /// Parameters have none.
    pub(crate) struct Plain;

    macro_rules! dialect {
        ($name:ident, $numbered:literal, $parameter:expr, $is_in:expr) => {
            impl Dialect for $name {
                const NOW: &'static str = "now";
                const LONG_AGO: &'static str = "long ago";
                const EPOCH: &'static str = "epoch";
                const MINUTE: &'static str = "minute";
                const ALIVE: &'static str = "alive";
                const NUMBERED: bool = $numbered;
                const NULLS_FIRST: bool = $numbered;

                fn parameter(at: usize, _: &Bind) -> String {
                    $parameter(at)
                }

                fn is_in(at: usize, count: usize) -> String {
                    $is_in(at, count)
                }

                fn after(sign: char, parameter: &str) -> String {
                    format!("now {sign} {parameter}")
                }

                fn age_ms(moment: &str) -> String {
                    moment.into()
                }

                fn utc(moment: &str) -> String {
                    moment.into()
                }

                fn moment(parameter: &str) -> String {
                    parameter.into()
                }

                fn due(since_1970: &str, _: &str) -> String {
                    since_1970.into()
                }
            }
        };
    }

    dialect!(Counting, true, |at| format!("${at}"), |at, _| format!("= any(${at})"));
    dialect!(Plain, false, |_| "?".to_owned(), |_, count| format!("in ({})", vec!["?"; count].join(", ")));
}
