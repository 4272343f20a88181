//! The `[dispatch]` section: how the action is found from a request path.

use super::error::ConfigError;
use super::field::Field;
use super::section::Section;

pub(super) const KEYS: [&str; 4] = ["base", "prefix", "suffix", "patterns"];
const PATTERN_KEYS: [&str; 2] = ["pattern", "base"];

/// The rules that make an action's name of a request path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// What stands before every name, with a dot.
    pub base: String,
    /// What is put directly before the name in the path.
    pub prefix: String,
    /// What is put directly after the name in the path.
    pub suffix: String,
    /// Other bases; the first whose pattern matches counts.
    pub patterns: Vec<Pattern>,
}

/// A base of its own for the paths that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Which paths; `*` stands for any text without `/` and `.`, `//` at the end for everything below.
    pub pattern: String,
    /// Their base.
    pub base: String,
}

impl Dispatch {
    pub(super) fn read(root: &Section) -> Result<Self, ConfigError> {
        let section = root.section("dispatch", &KEYS)?;
        let text = |key| section.or(key, String::new(), |f| Ok(f.text()?.to_owned()));
        Ok(Self {
            base: text("base")?,
            prefix: text("prefix")?,
            suffix: text("suffix")?,
            patterns: section.or("patterns", vec![], |f| f.list(Pattern::read))?,
        })
    }
}

impl Pattern {
    fn read(field: &Field) -> Result<Self, ConfigError> {
        let section = field.section()?.allow(&PATTERN_KEYS)?;
        Ok(Self {
            pattern: section.required("pattern", Field::filled)?,
            base: section.required("base", |f| Ok(f.text()?.to_owned()))?,
        })
    }
}
