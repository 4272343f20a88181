//! A column of a queue's table: what the catalog says of it, and how its value is read, compared, written and told in JSON.

use super::{FieldKind, MySqlRow, Result, Row, quote};

/// What the catalog says about a column whose values the server counts.
const AUTO_INCREMENT: &str = "auto_increment";

/// Does the server compute a column about which the catalog says this, in small letters? MySQL also says so of defaults.
pub(crate) fn is_generated(extra: &str) -> bool {
    extra.contains("generated") && !extra.contains("default_generated")
}

/// A column of a queue's table.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) quoted: String,
    /// Its type, in small letters, without a length.
    pub(crate) kind: String,
    /// Its whole type, as it was declared.
    pub(crate) declared: String,
    pub(crate) nullable: bool,
    /// In characters; -1 if it has none.
    pub(crate) width: i64,
    collation: Option<String>,
    /// What else the catalog says about it, in small letters.
    extra: String,
    /// MariaDB's JSON is a text with a constraint.
    pub(crate) is_json: bool,
}

impl Column {
    pub(crate) fn read(row: &MySqlRow) -> Result<Self> {
        let name: String = row.try_get(0)?;
        Ok(Column {
            quoted: quote::name(&name)?,
            name,
            kind: row.try_get(1)?,
            declared: row.try_get(2)?,
            nullable: row.try_get::<i64, _>(3)? == 1,
            width: row.try_get(4)?,
            collation: row.try_get(5)?,
            extra: row.try_get(6)?,
            is_json: row.try_get::<String, _>(1)? == "json",
        })
    }

    /// An owner column that is not there yet.
    pub(crate) fn owner(name: &str) -> Result<Self> {
        Ok(Column { nullable: true, width: 36, ..Column::plain(name, "char")? })
    }

    pub(super) fn plain(name: &str, kind: &str) -> Result<Self> {
        Ok(Column {
            quoted: quote::name(name)?,
            name: name.into(),
            kind: kind.into(),
            declared: kind.into(),
            nullable: false,
            width: -1,
            collation: None,
            extra: if kind == "bigint" { AUTO_INCREMENT.into() } else { String::new() },
            is_json: false,
        })
    }

    /// Does the server number the rows itself?
    pub(crate) fn counts_itself(&self) -> bool {
        self.extra.contains(AUTO_INCREMENT)
    }

    /// Does the server compute it?
    pub(crate) fn is_generated(&self) -> bool {
        is_generated(&self.extra)
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self.kind.as_str(), "tinyint" | "smallint" | "mediumint" | "int" | "bigint")
    }

    pub(crate) fn is_bytes(&self) -> bool {
        self.kind.contains("blob") || self.kind.contains("binary")
    }

    /// The column as text that can be read back exactly.
    pub(crate) fn out(&self) -> String {
        let name = format!("t.{}", self.quoted);
        match self.kind.as_str() {
            _ if self.is_bytes() => format!("hex({name})"),
            "datetime" | "timestamp" => format!("date_format({name}, '%Y-%m-%d %H:%i:%s.%f')"),
            "float" | "double" => format!("cast(cast({name} as double) as char)"),
            _ => format!("cast({name} as char)"),
        }
    }

    /// The column as a text that is the same for values that are equal by its collation.
    pub(super) fn out_as_compared(&self) -> String {
        let Some(collation) = self.collation.as_deref().filter(|_| !self.is_bytes()) else { return self.out() };
        let pads = !collation.contains("nopad") && !collation.contains("_0900_");
        let name = format!("t.{}", self.quoted);
        let value = if pads { format!("trim(trailing ' ' from {name})") } else { name };
        let cast = if collation.ends_with("_bin") { ("cast(", " as char)") } else { ("hex(weight_string(", "))") };
        format!("{}{value}{}", cast.0, cast.1)
    }

    /// The value of the column's type whose text this expression is. Text is compared by the column's own collation.
    pub(crate) fn value_of(&self, text: &str) -> String {
        let unsigned = self.declared.contains("unsigned");
        match self.kind.as_str() {
            _ if self.is_bytes() => format!("unhex({text})"),
            "decimal" => format!("cast({text} as {})", self.declared.replace(" unsigned", "").replace(" zerofill", "")),
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" if unsigned => format!("cast({text} as unsigned)"),
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => format!("cast({text} as signed)"),
            "datetime" | "timestamp" => format!("cast({text} as datetime(6))"),
            _ => match &self.collation {
                Some(collation) => {
                    let charset = collation.split('_').next().unwrap_or("utf8mb4");
                    format!("convert({text} using {charset}) collate {collation}")
                }
                None => text.to_owned(),
            },
        }
    }

    /// The column in a JSON object; `FLOAT` with all the digits that it has as a `DOUBLE`.
    pub(super) fn in_json(&self) -> String {
        let name = format!("t.{}", self.quoted);
        match self.kind.as_str() {
            _ if self.is_binary() => format!("replace(to_base64({name}), char(10), '')"),
            "datetime" => format!("date_format({name}, '%Y-%m-%dT%H:%i:%s.%f')"),
            "timestamp" => format!("date_format({name}, '%Y-%m-%dT%H:%i:%s.%fZ')"),
            "date" | "time" | "year" | "uuid" | "inet4" | "inet6" => format!("cast({name} as char)"),
            "bit" => format!("cast({name} as unsigned)"),
            "float" => format!("cast({name} as double)"),
            // JSON has no number that begins with zeros.
            _ if self.declared.contains("zerofill") => format!("{name} + 0"),
            _ => name,
        }
    }

    /// Is it base64 in JSON? A geometry is its bytes, as the server keeps them.
    fn is_binary(&self) -> bool {
        self.is_bytes() || GEOMETRIES.contains(&self.kind.as_str())
    }

    /// What its JSON does not say.
    pub(super) fn field_kind(&self) -> Option<FieldKind> {
        match self.kind.as_str() {
            _ if self.is_binary() => Some(FieldKind::Bytes),
            _ if self.is_json => Some(FieldKind::Json),
            "timestamp" => Some(FieldKind::Moment),
            _ => None,
        }
    }
}

const GEOMETRIES: [&str; 9] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
];
