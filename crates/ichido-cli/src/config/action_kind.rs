//! What an action does with a message: SQL statements, an HTTP call, a program, or Rust code that
//! is registered under the action's name.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::broker::http;
use super::error::ConfigError;
use super::field::Field;
use super::section::Section;
use super::url::Url;

pub(super) const KEYS: [&str; 4] = ["sql", "http", "exec", "env"];
const KINDS: [&str; 3] = ["sql", "http", "exec"];
const OWN_HEADERS: [&str; 4] = ["connection", "content-length", "idempotency-key", "transfer-encoding"];
const OWN_VARIABLES: &str = "ICHIDO_";
const HTTP_KEYS: [&str; 3] = ["url", "headers", "timeout"];

/// What is done with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionKind {
    /// Statements run in the business transaction.
    Sql(Vec<String>),
    /// A POST of the message.
    Http(HttpAction),
    /// A program.
    Exec(ExecAction),
    /// Code that the Rust program registers.
    Rust,
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecAction {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The variables of ichido's environment that it gets.
    pub env: Vec<String>,
}

/// Where a message is posted.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpAction {
    /// The address.
    pub url: Url,
    /// Headers beside those of ichido.
    pub headers: BTreeMap<String, String>,
    /// How long the answer may take.
    pub timeout: Duration,
}

/// Header values are often secrets, so only their names are shown.
impl fmt::Debug for HttpAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpAction")
            .field("url", &self.url)
            .field("headers", &self.headers.keys())
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl ActionKind {
    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        if section.field("env").is_some() && section.field("exec").is_none() {
            return Err(section.invalid("env", "only an action with `exec` has an environment"));
        }
        let written: Vec<_> = KINDS.into_iter().filter(|key| section.field(key).is_some()).collect();
        match written[..] {
            [] => Ok(Self::Rust),
            ["sql"] => section.required("sql", statements).map(Self::Sql),
            ["http"] => section.required("http", HttpAction::read).map(Self::Http),
            ["exec"] => Ok(Self::Exec(ExecAction {
                argv: section.required("exec", program)?,
                env: section.or("env", vec![], |f| f.list(variable))?,
            })),
            _ => {
                let text = "an action can have only one of `sql`, `http` and `exec`";
                Err(section.invalid(written.last().copied().unwrap_or_default(), text))
            }
        }
    }
}

fn statements(field: &Field) -> Result<Vec<String>, ConfigError> {
    field.filled_list(Field::filled)
}

fn program(field: &Field) -> Result<Vec<String>, ConfigError> {
    let argv = field.filled_list(|f| Ok(f.text()?.to_owned()))?;
    match argv.first() {
        Some(program) if program.trim().is_empty() => Err(field.invalid("the first element, the program, is empty")),
        _ => Ok(argv),
    }
}

/// The name of a variable that a program may see.
fn variable(field: &Field) -> Result<String, ConfigError> {
    match field.filled()? {
        name if name.contains('=') => {
            Err(field.invalid("a name without `=`: the value is that of ichido's environment"))
        }
        name if name.starts_with(OWN_VARIABLES) => Err(field.invalid("ichido sets the variables of this name itself")),
        name => Ok(name),
    }
}

impl HttpAction {
    fn read(field: &Field) -> Result<Self, ConfigError> {
        let section = field.section()?.allow(&HTTP_KEYS)?;
        let timeout = |f: &Field| f.duration(Duration::from_millis(1));
        Ok(Self {
            url: section.required("url", http)?,
            headers: section.or("headers", BTreeMap::new(), headers)?,
            timeout: section.or("timeout", Duration::from_secs(30), timeout)?,
        })
    }
}

fn headers(field: &Field) -> Result<BTreeMap<String, String>, ConfigError> {
    let one = |(name, field): (&str, Field)| {
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            return Err(field.invalid("invalid header name"));
        }
        if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(field.invalid("ichido sets this header itself"));
        }
        let value = field.text()?;
        // A line break in a variable would smuggle in another header.
        if value.chars().any(char::is_control) {
            return Err(field.invalid("the value contains a control character"));
        }
        Ok((name.to_owned(), value.to_owned()))
    };
    field.entries()?.into_iter().map(one).collect()
}
