//! The `[dispatch]` section: how the action is found from a request path.

use ichido::process::{Paths, Pattern};

use super::error::ConfigError;
use super::field::Field;
use super::section::Section;

pub(super) const KEYS: [&str; 4] = ["base", "prefix", "suffix", "patterns"];
const PATTERN_KEYS: [&str; 2] = ["pattern", "base"];

pub(super) fn read(root: &Section) -> Result<Paths, ConfigError> {
    let section = root.section("dispatch", &KEYS)?;
    let text = |key| section.or(key, String::new(), |f| Ok(f.text()?.to_owned()));
    Ok(Paths {
        base: text("base")?,
        prefix: text("prefix")?,
        suffix: text("suffix")?,
        patterns: section.or("patterns", vec![], |f| f.list(pattern))?,
    })
}

fn pattern(field: &Field) -> Result<Pattern, ConfigError> {
    let section = field.section()?.allow(&PATTERN_KEYS)?;
    Ok(Pattern {
        pattern: section.required("pattern", Field::filled)?,
        base: section.required("base", |f| Ok(f.text()?.to_owned()))?,
    })
}
