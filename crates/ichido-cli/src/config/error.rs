//! What is wrong with a configuration, in the words the user reads. Every other file of this module
//! makes these errors; the command line prints them as they are and ends with 127.

use std::fmt;
use std::io;

/// Why a configuration cannot be used. `Display` is exactly what the user sees.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not there or cannot be read.
    Unreadable {
        /// The file as the user named it.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is not UTF-8 text or not TOML.
    Syntax {
        /// The file as the user named it.
        file: String,
        /// The line where reading stopped, counted from 1.
        line: usize,
        /// What is wrong there.
        text: String,
    },
    /// A key or its value is not allowed.
    Invalid {
        /// The file, or the flag or variable, that the value came from.
        file: String,
        /// The line of the key, counted from 1, when there is one.
        line: Option<usize>,
        /// The full path of the key.
        key: String,
        /// What was found and what is allowed.
        text: String,
    },
    /// A key or its value is right, and this version does not build it yet.
    NotBuilt {
        /// The file, or the flag or variable, that the value came from.
        file: String,
        /// The line of the key, counted from 1, when there is one.
        line: Option<usize>,
        /// The full path of the key.
        key: String,
    },
}

impl ConfigError {
    /// The file, or the flag or variable, that is at fault.
    #[must_use]
    pub fn file(&self) -> &str {
        match self {
            Self::Unreadable { file, .. }
            | Self::Syntax { file, .. }
            | Self::Invalid { file, .. }
            | Self::NotBuilt { file, .. } => file,
        }
    }

    /// The line at fault, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Syntax { line, .. } => Some(*line),
            Self::Invalid { line, .. } | Self::NotBuilt { line, .. } => *line,
        }
    }

    /// The full path of the key at fault, such as `actions.Mail.concurrency`.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Unreadable { .. } | Self::Syntax { .. } => None,
            Self::Invalid { key, .. } | Self::NotBuilt { key, .. } => Some(key),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())?;
        if let Some(line) = self.line() {
            write!(f, ":{line}")?;
        }
        if let Some(key) = self.key() {
            write!(f, ": {key}")?;
        }
        match self {
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => f.write_str(
                ": no such file; run `ichido init` to create it, or name another with --config or ICHIDO_CONFIG",
            ),
            Self::Unreadable { source, .. } => write!(f, ": cannot read file: {source}"),
            Self::Syntax { text, .. } | Self::Invalid { text, .. } => write!(f, ": {text}"),
            Self::NotBuilt { .. } => f.write_str(": not supported in this version"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Syntax { .. } | Self::Invalid { .. } | Self::NotBuilt { .. } => None,
        }
    }
}
