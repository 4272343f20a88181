//! A statement about ichido's own tables as all stores write it, and what comes back. Parameters are `?1`, `?2`, …; [`Dialect`] makes the
//! database's own out of them. Stores bind [`Bind`]s and read [`Row`]s, so that what is written here needs no driver.

use ichido::{Error, Key, error::Result, store::ProcessId};

use crate::Dialect;

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub struct Query {
    text: String,
    binds: Vec<Bind>,
    written: bool,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Bind {
    /// A text.
    Text(Option<String>),
    /// A text that is compared byte by byte: a key, a group, a request id.
    Exact(Option<String>),
    /// A number.
    Int(Option<i64>),
    /// A flag.
    Bool(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A process.
    Id(ProcessId),
    /// Texts, for `in`.
    Texts(Vec<String>),
    /// Texts that are compared byte by byte, for `in`.
    Exacts(Vec<String>),
}

impl Query {
    /// A statement with `?1`, `?2`, … as parameters, each of which may stand in several places.
    pub fn new(text: impl Into<String>) -> Self {
        Query { text: text.into(), binds: Vec::new(), written: false }
    }

    /// A statement that is written in the store's own dialect already. Its parameters are bound in their order.
    pub fn written(text: impl Into<String>) -> Self {
        Query { written: true, ..Query::new(text) }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn bind(mut self, value: impl Into<Bind>) -> Self {
        self.binds.push(value.into());
        self
    }

    /// Adds a text that is compared byte by byte.
    #[must_use]
    pub fn exact(self, text: impl Into<String>) -> Self {
        self.bind(Bind::Exact(Some(text.into())))
    }

    /// Adds the columns of a key, each as a text.
    #[must_use]
    pub fn key(mut self, key: &Key) -> Self {
        self.binds.extend(key.columns().iter().map(|column| column.as_str().into()));
        self
    }

    /// The statement in a dialect, and its parameters in their order.
    #[must_use]
    pub fn write<D: Dialect>(self) -> (String, Vec<Bind>) {
        if self.written {
            return (self.text, self.binds);
        }
        let (mut text, mut bound, mut last) = (String::with_capacity(self.text.len()), Vec::new(), 0);
        let mut parts = self.text.split('?');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let at = part[..digits].parse::<usize>().unwrap_or_default();
            if let Some(bind) = at.checked_sub(1).and_then(|at| self.binds.get(at)) {
                write_parameter::<D>(&mut text, &mut bound, at, bind);
                last = last.max(at);
            }
            text.push_str(&part[digits..]);
        }
        if D::NUMBERED {
            bound = self.binds;
            bound.truncate(last);
        }
        (text, bound)
    }
}

/// These, and the last of them again until they are a power of two: where each element of a list is a parameter, the statement's text
/// depends on how many there are, and the server keeps every text that was prepared.
pub fn padded<T>(list: &[T]) -> impl Iterator<Item = &T> {
    let missing = padded_len(list.len()) - list.len();
    list.iter().chain(list.last().into_iter().cycle().take(missing))
}

/// How many [`padded`] gives.
#[must_use]
pub fn padded_len(len: usize) -> usize {
    if len == 0 { 0 } else { len.next_power_of_two() }
}

/// Writes one parameter; where parameters have no numbers, it is bound once more for each place.
fn write_parameter<D: Dialect>(text: &mut String, bound: &mut Vec<Bind>, at: usize, bind: &Bind) {
    if let Bind::Texts(texts) | Bind::Exacts(texts) = bind {
        text.truncate(text.trim_end_matches("in ").len());
        text.push_str(&D::is_in(at, if D::NUMBERED { texts.len() } else { padded_len(texts.len()) }));
    } else {
        text.push_str(&D::parameter(at, bind));
    }
    match bind {
        _ if D::NUMBERED => {}
        Bind::Texts(texts) => bound.extend(padded(texts).map(|text| Bind::Text(Some(text.clone())))),
        Bind::Exacts(texts) => bound.extend(padded(texts).map(|text| Bind::Exact(Some(text.clone())))),
        bind => bound.push(bind.clone()),
    }
}

impl From<&str> for Bind {
    fn from(text: &str) -> Self {
        Bind::Text(Some(text.to_owned()))
    }
}

impl From<String> for Bind {
    fn from(text: String) -> Self {
        Bind::Text(Some(text))
    }
}

impl From<Option<String>> for Bind {
    fn from(text: Option<String>) -> Self {
        Bind::Text(text)
    }
}

impl From<i64> for Bind {
    fn from(number: i64) -> Self {
        Bind::Int(Some(number))
    }
}

impl From<Option<i64>> for Bind {
    fn from(number: Option<i64>) -> Self {
        Bind::Int(number)
    }
}

impl From<u32> for Bind {
    fn from(number: u32) -> Self {
        Bind::Int(Some(number.into()))
    }
}

impl From<usize> for Bind {
    fn from(number: usize) -> Self {
        Bind::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<bool> for Bind {
    fn from(flag: bool) -> Self {
        Bind::Bool(flag)
    }
}

impl From<Vec<u8>> for Bind {
    fn from(bytes: Vec<u8>) -> Self {
        Bind::Bytes(bytes)
    }
}

impl From<ProcessId> for Bind {
    fn from(process: ProcessId) -> Self {
        Bind::Id(process)
    }
}

/// A row that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<Cell>);

/// A value in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number, or a flag as 0 or 1.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes; a text where the database keeps texts so.
    Bytes(Vec<u8>),
}

impl Row {
    /// A row of these values.
    #[must_use]
    pub fn new(cells: Vec<Cell>) -> Self {
        Row(cells)
    }

    /// The value in a column, counted from 0.
    ///
    /// # Errors
    /// There is no such column, or something else is in it.
    pub fn get<T: FromCell>(&self, at: usize) -> Result<T> {
        let cell = self.0.get(at).unwrap_or(&Cell::Null);
        T::from_cell(cell)
            .ok_or_else(|| Error::Failed(format!("unexpected {cell:?} in column {at} of ichido's own tables").into()))
    }

    /// The key in the first columns.
    ///
    /// # Errors
    /// There are not so many columns.
    pub fn key(&self, columns: usize) -> Result<Key> {
        Ok(Key::new((0..columns).map(|at| self.get::<String>(at)).collect::<Result<Vec<_>>>()?))
    }
}

/// What can be read from a column.
pub trait FromCell: Sized {
    /// The value, if the column has one of this kind.
    fn from_cell(cell: &Cell) -> Option<Self>;
}

impl FromCell for String {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text.clone()),
            Cell::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
            Cell::Null | Cell::Int(_) => None,
        }
    }
}

impl FromCell for i64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        if let Cell::Int(number) = cell { Some(*number) } else { None }
    }
}

impl FromCell for u32 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).and_then(|number| number.try_into().ok())
    }
}

impl FromCell for u64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).and_then(|number| number.try_into().ok())
    }
}

impl FromCell for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes.clone()),
            Cell::Text(text) => Some(text.clone().into_bytes()),
            Cell::Null | Cell::Int(_) => None,
        }
    }
}

impl FromCell for ProcessId {
    fn from_cell(cell: &Cell) -> Option<Self> {
        String::from_cell(cell)?.parse().ok()
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        if *cell == Cell::Null { Some(None) } else { T::from_cell(cell).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::tests::{Counting, Plain};

    #[test]
    fn a_parameter_may_stand_in_several_places() {
        let query = || Query::new("a = ?1 or b = ?2 or ?1").bind("x").bind(5_i64);
        assert_eq!(query().write::<Counting>().0, "a = $1 or b = $2 or $1");
        assert_eq!(query().write::<Counting>().1.len(), 2);
        let (text, binds) = query().write::<Plain>();
        assert_eq!(text, "a = ? or b = ? or ?");
        assert_eq!(binds, ["x".into(), 5_i64.into(), "x".into()]);
    }

    #[test]
    fn a_list_is_written_as_the_dialect_writes_it() {
        let query = || Query::new("q = ?1 and k in ?2 and z").bind("x").bind(Bind::Texts(vec!["a".into(), "b".into()]));
        assert_eq!(query().write::<Counting>().0, "q = $1 and k = any($2) and z");
        let (text, binds) = query().write::<Plain>();
        assert_eq!(text, "q = ? and k in (?, ?) and z");
        assert_eq!(binds, ["x".into(), "a".into(), "b".into()]);
    }

    #[test]
    fn lists_of_similar_lengths_share_a_text() {
        let letters = |count: usize| {
            Bind::Exacts(vec!["a".into(), "b".into(), "c".into(), "d".into(), "e".into()][..count].into())
        };
        let query = |count| Query::new("k in ?1").bind(letters(count)).write::<Plain>();
        assert_eq!(query(3).0, query(4).0);
        assert_eq!(query(3).1, [Bind::Exact(Some("a".into())), "b".into(), "c".into(), "c".into()].map(exact));
        assert_eq!((query(5).0, query(5).1.len()), ("k in (?, ?, ?, ?, ?, ?, ?, ?)".to_owned(), 8));
        assert_eq!((query(0).1, padded_len(0), padded_len(1), padded_len(500)), (Vec::new(), 0, 1, 512));
    }

    fn exact(bind: Bind) -> Bind {
        if let Bind::Text(text) = bind { Bind::Exact(text) } else { bind }
    }

    #[test]
    fn what_is_written_in_a_dialect_stays_as_it_is() {
        let (text, binds) = Query::written("x = '?1' and ?").bind(true).write::<Plain>();
        assert_eq!((text.as_str(), binds), ("x = '?1' and ?", vec![Bind::Bool(true)]));
    }

    #[test]
    fn a_cell_of_another_kind_is_an_error_and_not_a_default() {
        let row = Row::new(vec![Cell::Null, Cell::Text("a".into()), Cell::Bytes(b"k".to_vec()), Cell::Int(-1)]);
        assert!(row.get::<i64>(1).is_err() && row.get::<String>(0).is_err() && row.get::<u32>(3).is_err());
        assert_eq!(row.get::<Option<String>>(0).unwrap(), None);
        assert_eq!(row.get::<String>(2).unwrap(), "k");
        assert!(row.get::<bool>(3).unwrap() && row.get::<String>(9).is_err());
    }
}
