//! How a list that is ordered by several columns goes on after a row, by an index and without walking over what came before it: in parts,
//! each of which is one range of the index. Columns may descend, and values may be missing.

/// One part of what comes after a row: its first columns have the row's values, and the next one goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// So many columns have the values of the row.
    pub(crate) same: usize,
    /// What is so of the column behind them.
    pub(crate) then: Then,
}

/// What is so of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is greater than the value of the row, or smaller if it descends.
    Beyond,
    /// It has no value.
    Null,
    /// It has one.
    NotNull,
}

/// A column of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderColumn<'a> {
    /// Its name, quoted.
    pub(crate) name: &'a str,
    /// It descends.
    pub(crate) down: bool,
    /// It may be without a value.
    pub(crate) nullable: bool,
}

/// The parts that come after a row with these values (true: there is one), in their order.
pub(crate) fn parts(columns: &[OrderColumn<'_>], has_value: &[bool], nulls_first: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    for (same, (column, has_value)) in columns.iter().zip(has_value).enumerate().rev() {
        let nulls_last = nulls_first == column.down;
        let mut add = |then| parts.push(Part { same, then });
        match has_value {
            true if column.nullable && nulls_last => {
                add(Then::Beyond);
                add(Then::Null);
            }
            true => add(Then::Beyond),
            false if !nulls_last => add(Then::NotNull),
            false => {}
        }
    }
    parts
}

/// A part as a condition; `value` writes the value of a column of the row.
pub(crate) fn condition<E>(
    part: Part,
    columns: &[OrderColumn<'_>],
    has_value: &[bool],
    mut value: impl FnMut(usize) -> Result<String, E>,
) -> Result<String, E> {
    let mut all = Vec::with_capacity(part.same + 1);
    for (at, column) in columns.iter().enumerate().take(part.same) {
        let is = if has_value[at] { format!("= {}", value(at)?) } else { "is null".to_owned() };
        all.push(format!(" and t.{} {is}", column.name));
    }
    let column = &columns[part.same];
    let then = match part.then {
        Then::Beyond => format!("{} {}", if column.down { "<" } else { ">" }, value(part.same)?),
        Then::Null => "is null".to_owned(),
        Then::NotNull => "is not null".to_owned(),
    };
    all.push(format!(" and t.{} {then}", column.name));
    Ok(all.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [OrderColumn<'static>; 3] = [
        OrderColumn { name: "priority", down: true, nullable: true },
        OrderColumn { name: "day", down: false, nullable: true },
        OrderColumn { name: "id", down: false, nullable: false },
    ];

    fn written(has_value: [bool; 3], nulls_first: bool) -> Vec<String> {
        let value = |at: usize| Ok::<_, ()>(format!("?{at}"));
        let parts = parts(&COLUMNS, &has_value, nulls_first).into_iter();
        parts.map(|part| condition(part, &COLUMNS, &has_value, value).unwrap()).collect()
    }

    #[test]
    fn what_comes_after_a_row_is_one_range_for_each_column() {
        let expected = [
            " and t.priority = ?0 and t.day = ?1 and t.id > ?2",
            " and t.priority = ?0 and t.day > ?1",
            " and t.priority < ?0",
            " and t.priority is null",
        ];
        assert_eq!(written([true; 3], true), expected);
    }

    #[test]
    fn a_missing_value_comes_first_or_last_as_the_database_has_it() {
        let first = [
            " and t.priority is null and t.day is null and t.id > ?2",
            " and t.priority is null and t.day is not null",
        ];
        assert_eq!(written([false, false, true], true), first);
        let last = [" and t.priority is null and t.day is null and t.id > ?2", " and t.priority is not null"];
        assert_eq!(written([false, false, true], false), last);
    }
}
