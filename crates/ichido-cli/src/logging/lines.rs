//! How a log line looks: for people the time, the level and the text first, then what belongs to it and the ids; for programs
//! one flat JSON object. Whatever a text contains, it stays on its line and changes no terminal.

use std::{fmt, fmt::Write};

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

use crate::{
    config::LogFormat,
    terminal::{in_json, on_one_line},
};

/// Writes log lines.
pub(super) struct Lines {
    pub(super) format: LogFormat,
    pub(super) colors: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let mut line = Line { time, level, target, text: String::new(), fields: Fields::default() };
        event.record(&mut line);
        let spans = context.event_scope().into_iter().flatten();
        for span in spans.filter(|span| span.metadata().target() != ichido::trace::TARGET) {
            if let Some(written) = span.extensions().get::<FormattedFields<N>>() {
                line.fields.add_all(&written.fields);
            }
        }
        match self.format {
            LogFormat::Json => {
                let json = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
                writeln!(writer, "{}", in_json(&json))
            }
            LogFormat::Text => writeln!(writer, "{}", line.for_people(self.colors)?),
        }
    }
}

struct Line<'a> {
    time: String,
    level: Level,
    target: &'a str,
    text: String,
    fields: Fields,
}

/// What belongs to a line, the innermost first; what is said further out under the same name does not count.
#[derive(Default)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn add(&mut self, name: &str, value: Value) {
        if !self.0.iter().any(|(there, _)| there == name) {
            self.0.push((name.to_owned(), value));
        }
    }

    /// The fields of a span, which are kept as JSON.
    fn add_all(&mut self, written: &str) {
        if let Ok(Value::Object(fields)) = serde_json::from_str(written) {
            for (name, value) in fields {
                self.add(&name, value);
            }
        }
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.text),
            name => self.fields.add(name, value.into()),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.add(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.add(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.add(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.add(field.name(), value.into());
    }
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("timestamp", &self.time)?;
        map.serialize_entry("level", self.level.as_str())?;
        map.serialize_entry("target", self.target)?;
        map.serialize_entry("message", &self.text)?;
        let own = ["timestamp", "level", "target", "message"];
        for (name, value) in self.fields.0.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Line<'_> {
    fn for_people(&self, colors: bool) -> Result<String, fmt::Error> {
        let color = match self.level {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            _ => "34",
        };
        let paint = |text: &str, color: &str| {
            if colors && !text.is_empty() { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
        };
        let mut line = format!("{} {} ", paint(&self.time, "2"), paint(&format!("{:>5}", self.level.as_str()), color));
        // Whose line it is matters where it is not ours, and where somebody looks for it.
        if !self.target.starts_with("ichido")
            || [ichido::observe::MONITOR, ichido::observe::ANALYSIS].contains(&self.target)
        {
            write!(line, "{}: ", self.target)?;
        }
        line.push_str(&on_one_line(&self.text));
        let mut fields = String::new();
        for (name, value) in &self.fields.0 {
            write!(fields, " {name}={}", spelled(value))?;
        }
        line.push_str(&paint(&fields, "2"));
        Ok(line)
    }
}

/// A value as a word, as JSON, or in quotes.
fn spelled(value: &Value) -> String {
    match value {
        Value::String(text) if text.starts_with('{') => on_one_line(text),
        Value::String(text) if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '"') => {
            format!("\"{}\"", on_one_line(&text.replace('"', "\\\"")))
        }
        Value::String(text) => on_one_line(text),
        other => other.to_string(),
    }
}
