//! A file to which a queue is to be added. What is in it stays as it is; nothing is written before the whole of it can be
//! read, and a file that is not there yet is made with the address of the database. `ichido adopt` works on it.

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use super::error::ConfigError;
use super::file::{self, Config, URL_VARIABLE};
use super::lines;

/// A file with what was in it.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    text: String,
    is_new: bool,
    environment: fn(&str) -> Option<String>,
}

impl Draft {
    /// Reads the file. One that is not there yet begins with the address of the database: the one given, else that of the
    /// environment, by its name, so that no password is written down.
    ///
    /// # Errors
    /// When the file cannot be read, or is not there and nothing says where the database is.
    pub fn open(path: &Path, url: Option<&str>, environment: fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let path = path.to_path_buf();
        match file::read_text(&path) {
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let variable = environment(URL_VARIABLE).filter(|url| !url.is_empty());
                let url = url.map(lines::text).or_else(|| variable.map(|_| format!("\"${{{URL_VARIABLE}}}\"")));
                let Some(url) = url else {
                    let why = "and no database is given; use --database-url or set ICHIDO_DATABASE_URL";
                    let source = io::Error::other(format!("no such file, {why}"));
                    return Err(ConfigError::Unreadable { file: path.display().to_string(), source });
                };
                Ok(Self { path, text: lines::database_lines(&url), is_new: true, environment })
            }
            text => Ok(Self { path, text: text?, is_new: false, environment }),
        }
    }

    /// What the file says now. Its actions may name a queue that is still to come, this one only.
    ///
    /// # Errors
    /// When it says anything else that is not allowed.
    pub fn config(&self, to_come: &str) -> Result<Config, ConfigError> {
        let error = match self.parse(&self.text) {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        match self.parse(&self.with(&format!("[queues.{}]\n", lines::key(to_come)))) {
            Ok(mut config) => {
                config.queues.remove(to_come);
                Ok(config)
            }
            // The lines that were only tried are not the user's to mend.
            Err(ConfigError::Syntax { .. }) => Err(error),
            Err(other) => Err(other),
        }
    }

    /// Can the file be read with these lines at its end?
    ///
    /// # Errors
    /// What would be wrong with it.
    pub fn check(&self, lines: &str) -> Result<(), ConfigError> {
        match self.parse(&self.with(lines)) {
            // Such as `queues = { … }`, to which nothing can be added. The file itself was read before.
            Err(ConfigError::Syntax { file, .. }) => Err(ConfigError::Invalid {
                file,
                line: None,
                key: "queues".to_owned(),
                text: "cannot append a queue to this file; write its queues as [queues.NAME] sections".to_owned(),
            }),
            other => other.map(|_| ()),
        }
    }

    /// Writes these lines at its end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&self, lines: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        if self.is_new {
            // It may hold a password.
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            return options.write(true).create_new(true).open(&self.path)?.write_all(self.with(lines).as_bytes());
        }
        let added = &self.with(lines)[self.text.len()..];
        options.append(true).open(&self.path)?.write_all(added.as_bytes())
    }

    /// The file's name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn with(&self, lines: &str) -> String {
        let end = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        format!("{}{end}\n{lines}", self.text)
    }

    fn parse(&self, text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, &self.path.display().to_string(), &self.environment)
    }
}
