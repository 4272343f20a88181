//! How a command fails: one message for people, one exit code for scripts (docs/contract.md, Exit codes).

use ichido::{Error, Store};

use crate::{
    config::{Config, ConfigError},
    output,
};

/// A bad command line or configuration.
pub(crate) const USAGE: u8 = 127;

/// The database or the broker is unreachable.
pub(crate) const UNREACHABLE: u8 = 20;

/// The command completed and found problems.
pub(crate) const FOUND: u8 = 1;

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure { code: USAGE, text: text.into() }
    }

    pub(crate) fn found(text: impl Into<String>) -> Self {
        Failure { code: FOUND, text: text.into() }
    }

    /// A queue that the configuration does not know.
    pub(crate) fn unknown_queue(name: &str, config: &Config) -> Self {
        let hint =
            ichido::handlers::suggestion(name, config.queues.keys().chain(config.lanes.keys()).map(String::as_str));
        Failure::usage(format!("no queue `{name}` in the configuration{hint}"))
    }

    /// What a store said.
    pub(crate) fn of<S: Store>(error: &Error) -> Self {
        let code = match &error {
            Error::Setup(_) | Error::Refused(_) => USAGE,
            error if error.is_fault::<S>() => UNREACHABLE,
            _ => FOUND,
        };
        Failure { code, text: format!("{error:#}") }
    }

    /// With the configuration's file, where it begins with one of its keys.
    pub(crate) fn in_file(mut self, config: &Config) -> Self {
        if Config::names_a_key(&self.text) {
            self.text = format!("{}: {}", config.file, self.text);
        }
        self
    }

    /// Tells the user and returns the exit code.
    pub(crate) fn report(self) -> u8 {
        output::complain(&format!("ichido: {}", self.text));
        self.code
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::usage(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::found(error.to_string())
    }
}
