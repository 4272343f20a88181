//! The `[telemetry]` section: where traces go.

use super::error::ConfigError;
use super::field::Field;
use super::section::Section;

pub(super) const KEYS: [&str; 2] = ["otlp", "service"];

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// The address of a collector that speaks OTLP over HTTP; none: no traces.
    pub otlp: Option<String>,
    /// The name of this service in traces.
    pub service: String,
}

impl Telemetry {
    pub(super) fn read(root: &Section) -> Result<Self, ConfigError> {
        let section = root.section("telemetry", &KEYS)?;
        Ok(Self {
            otlp: section.optional("otlp", Field::filled)?,
            service: section.or("service", "ichido".to_owned(), Field::filled)?,
        })
    }
}
