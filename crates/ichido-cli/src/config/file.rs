//! The whole file: reads it, lets every section read itself, follows the names between them and
//! answers what depends on more than one section.

use std::collections::BTreeMap;
use std::path::Path;

use ichido::process::{MOST_READ_AHEAD, Paths, Retention};

use super::action::Action;
use super::brokers;
use super::built;
use super::database::{self, Database};
use super::dispatch;
use super::document;
use super::error::ConfigError;
use super::lanes::{self, LaneSet};
use super::log::{self, Log};
use super::process::Process;
use super::queue::Queue;
use super::section::Section;
use super::serve::Serve;
use super::telemetry::Telemetry;
use super::url::Url;

pub(super) const KEYS: [&str; 10] =
    ["database", "process", "log", "telemetry", "serve", "retention", "queues", "lanes", "actions", "dispatch"];

pub(super) const URL_VARIABLE: &str = "ICHIDO_DATABASE_URL";
const MOST_CONNECTIONS: u32 = 16;

/// The whole configuration, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file that it was read from.
    pub file: String,
    /// Where the database is.
    pub database: Database,
    /// How a process behaves.
    pub process: Process,
    /// What a process says.
    pub log: Log,
    /// Where traces go.
    pub telemetry: Telemetry,
    /// Where the console listens, and for whom.
    pub serve: Serve,
    /// How long records of finished work are kept.
    pub retention: Retention,
    /// The queues by name, with those that only lanes mention.
    pub queues: BTreeMap<String, Queue>,
    /// The lane sets by name.
    pub lanes: BTreeMap<String, LaneSet>,
    /// The actions by name.
    pub actions: BTreeMap<String, Action>,
    /// How the action is found from a request path.
    pub dispatch: Paths,
}

impl Config {
    /// Reads the file, with variables from the environment.
    ///
    /// # Errors
    /// When the file cannot be read, or `parse` refuses what is in it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read_text(path)?, &path.display().to_string(), &|name| std::env::var(name).ok())
    }

    /// Reads the text of a file; `ICHIDO_DATABASE_URL` overrides its `database.url`.
    ///
    /// # Errors
    /// When it is not TOML, a key is unknown, a value is not allowed, or a key is not supported in this version.
    pub fn parse(
        text: &str,
        file_name: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let document = document::parse(text, file_name, environment)?;
        let root = Section::root(file_name, &document).allow(&KEYS)?;
        let mut config = Self::read(&root)?;
        if let Some(url) = environment(URL_VARIABLE).filter(|url| !url.is_empty()) {
            config.override_url(&url, URL_VARIABLE)?;
        }
        built::check_keys(&root)?;
        Ok(config)
    }

    pub(super) fn read(root: &Section) -> Result<Self, ConfigError> {
        let mut queues = root.named("queues", |_, section| Queue::read(section))?;
        brokers::check_distinct(root, &queues)?;
        let lanes = root.named("lanes", |name, section| LaneSet::read(name, section, &queues))?;
        for level in lanes.values().flat_map(|lanes| &lanes.set.levels) {
            queues.entry(level.queue.to_string()).or_insert_with(Queue::managed);
        }
        lanes::check_names(root, &lanes, &queues)?;
        let actions = root.named("actions", |_, section| Action::read(section, &queues, &lanes))?;
        Ok(Self {
            file: root.file.to_owned(),
            database: Database::read(root)?,
            process: Process::read(root)?,
            log: Log::read(root)?,
            telemetry: Telemetry::read(root)?,
            serve: Serve::read(root)?,
            retention: log::retention(root)?,
            queues,
            lanes,
            actions,
            dispatch: dispatch::read(root)?,
        })
    }

    /// Puts another address in place of `database.url`; `origin` is the flag or variable it came
    /// from.
    ///
    /// # Errors
    /// When the scheme is unknown. Only the scheme is shown.
    pub fn override_url(&mut self, url: &str, origin: &str) -> Result<(), ConfigError> {
        let url = Url::parse(url, &database::SCHEMES).map_err(|text| {
            let key = "database.url".to_owned();
            ConfigError::Invalid { file: origin.to_owned(), line: None, key, text }
        })?;
        self.database.url = url;
        Ok(())
    }

    /// The number of connections: as written, or the highest concurrency + 2, at most 16.
    #[must_use]
    pub fn pool(&self) -> u32 {
        let slots = |action: &Action| {
            self.lanes.get(&action.from).map_or(action.concurrency, |lanes| lanes.set.slots(action.concurrency))
        };
        let highest = self.actions.values().map(slots).max().unwrap_or(1);
        let highest = u32::try_from(highest).unwrap_or(MOST_CONNECTIONS);
        let enough = highest.saturating_add(database::OWN_CONNECTIONS).min(MOST_CONNECTIONS);
        self.database.pool.unwrap_or(enough)
    }

    /// Does this text begin with the path of a key, such as `actions.Work.sql`?
    #[must_use]
    pub fn names_a_key(text: &str) -> bool {
        text.split_once('.').is_some_and(|(section, _)| KEYS.contains(&section))
    }

    /// The messages claimed ahead: as written, or the concurrency, at most 64.
    #[must_use]
    pub fn read_ahead(&self, concurrency: usize) -> usize {
        self.process.read_ahead.unwrap_or(concurrency).min(MOST_READ_AHEAD)
    }
}

/// The text of a file.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|source| ConfigError::Unreadable { file: file.clone(), source })?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        ConfigError::Syntax { file, line, text: "not UTF-8 text".to_owned() }
    })
}
